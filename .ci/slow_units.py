#!/usr/bin/env python3
"""What a file may take to compile, in processor time and as a multiple of what GoogleTest's header takes on the same machine
at the same time: seconds would say how fast the machine is, of which some take twice as long as others. The longest are
tests/core/golden_test.cpp (7 to 8 times) and, compiled for each architecture, cuda/inst/residual_4.cu (44 times). Repeats
differ by a tenth, so the limits leave some room above those.

ninja's log holds wall time, which another process may have stretched: the few that look slowest there are compiled once
more, alone, and their processor time counts. Where those keep the limit, so do the rest.
"""

import json
import os
import pathlib
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile

LIMIT = 10
CUDA_LIMIT = 60
MEASURED_AGAIN = 4


def slow_outputs(build, reference):
    """Objects that took furthest beyond their limit, by ninja's log; of repeated builds the last counts."""
    took = {}
    for line in (build / ".ninja_log").read_text().splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        took[output] = (int(end) - int(start)) / 1000
    excess = {output: seconds / limit_of(output[:-2]) for output, seconds in took.items() if output.endswith(".o")}
    slow = [output for output in sorted(excess, key=excess.get, reverse=True) if excess[output] > reference]
    return set(slow[:MEASURED_AGAIN])


def limit_of(source):
    return CUDA_LIMIT if source.endswith(".cu") else LIMIT


def processor_seconds(words, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=folder, env=os.environ | {"CCACHE_DISABLE": "1"}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def reference_seconds():
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "reference.cpp").write_text("#include <gtest/gtest.h>\n")
        command = ["c++", "-std=c++20", "-O1", "-c", "reference.cpp"]
        return statistics.median(processor_seconds(command, folder) for _ in range(3))


def main():
    build = pathlib.Path(sys.argv[1])
    reference = reference_seconds()
    suspects = slow_outputs(build, reference)
    entries = json.loads((build / "compile_commands.json").read_text())
    faults = []
    for entry in entries:
        words = shlex.split(entry["command"])
        if words[words.index("-o") + 1] not in suspects:
            continue
        multiple = processor_seconds(words, entry["directory"]) / reference
        limit = limit_of(entry["file"])
        if multiple > limit:
            faults.append(f"{entry['file']} compiles as long as {multiple:.1f} headers of GoogleTest; at most {limit}")
    print("\n".join(faults) or f"no translation unit takes longer than it may ({len(suspects)} measured again)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
