#!/usr/bin/env python3
"""No C++ file may take more than ten seconds of processor time to compile, and a fifth more on a slow machine; no CUDA
file, which nvcc compiles once for each architecture, more than a minute.

ninja's log holds wall time, which another process may have stretched: what looks slow there is compiled once more,
alone, and its processor time counts.
"""

import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys

LIMIT = 12
CUDA_LIMIT = 60


def slow_outputs(build):
    """Objects that took longer than the limit, by ninja's log; of repeated builds the last counts."""
    took = {}
    for line in (build / ".ninja_log").read_text().splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        took[output] = (int(end) - int(start)) / 1000
    return {output for output, seconds in took.items() if output.endswith(".o") and seconds > limit_of(output[:-2])}


def limit_of(source):
    return CUDA_LIMIT if source.endswith(".cu") else LIMIT


def processor_seconds(entry):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"CCACHE_DISABLE": "1"}
    subprocess.run(shlex.split(entry["command"]), cwd=entry["directory"], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    build = pathlib.Path(sys.argv[1])
    suspects = slow_outputs(build)
    entries = json.loads((build / "compile_commands.json").read_text())
    faults = []
    for entry in entries:
        words = shlex.split(entry["command"])
        if words[words.index("-o") + 1] not in suspects:
            continue
        seconds = processor_seconds(entry)
        limit = limit_of(entry["file"])
        if seconds > limit:
            faults.append(f"{entry['file']} compiles in {seconds:.1f} s; at most {limit}")
    print("\n".join(faults) or f"no translation unit takes longer than it may ({len(suspects)} measured again)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
