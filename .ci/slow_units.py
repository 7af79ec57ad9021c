#!/usr/bin/env python3
"""No C++ file may take more than twelve seconds of processor time to compile; no CUDA file, which nvcc compiles once for
each architecture, more than a minute. That is on a machine that compiles GoogleTest's header in REFERENCE_SECONDS; a slower
one, or one whose cores are shared, is given as much more.

ninja's log holds wall time, which another process may have stretched: the few that look slowest there are compiled once
more, alone, and their processor time counts. Where those keep the limit, so do the rest.
"""

import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile

REFERENCE_SECONDS = 1.2
LIMIT = 12
CUDA_LIMIT = 60
MEASURED_AGAIN = 4


def slow_outputs(build):
    """Objects that took furthest beyond their limit, by ninja's log; of repeated builds the last counts."""
    took = {}
    for line in (build / ".ninja_log").read_text().splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        took[output] = (int(end) - int(start)) / 1000
    excess = {output: seconds / limit_of(output[:-2]) for output, seconds in took.items() if output.endswith(".o")}
    slow = [output for output in sorted(excess, key=excess.get, reverse=True) if excess[output] > 1]
    return set(slow[:MEASURED_AGAIN])


def limit_of(source):
    return CUDA_LIMIT if source.endswith(".cu") else LIMIT


def processor_seconds(words, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=folder, env=os.environ | {"CCACHE_DISABLE": "1"}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def slowness():
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "reference.cpp").write_text("#include <gtest/gtest.h>\n")
        seconds = processor_seconds(["c++", "-std=c++20", "-O1", "-c", "reference.cpp"], folder)
    return max(seconds / REFERENCE_SECONDS, 1)


def main():
    build = pathlib.Path(sys.argv[1])
    suspects = slow_outputs(build)
    entries = json.loads((build / "compile_commands.json").read_text())
    faults = []
    for entry in entries:
        words = shlex.split(entry["command"])
        if words[words.index("-o") + 1] not in suspects:
            continue
        limit = limit_of(entry["file"]) * slowness()
        seconds = processor_seconds(words, entry["directory"])
        if seconds > limit:
            faults.append(f"{entry['file']} compiles in {seconds:.1f} s; at most {limit:.1f}")
    print("\n".join(faults) or f"no translation unit takes longer than it may ({len(suspects)} measured again)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
