#!/usr/bin/env python3
"""Compiles every kernel once more, as the build does (a compiler cache gives back what it kept, messages too), and reads what
the assembler says: registers that spill, local memory, and wgmma that it had to serialise cost half the speed and break no
test. In a build with ROWMAX_WERROR the first two are errors; of the third the assembler only informs.

Usage: check_kernels.py BUILD (a folder configured with ROWMAX_CUDA and ROWMAX_WERROR)
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SERIALISED = re.compile(r"wgmma\.mma_async instructions are serialized.*")
ERROR = re.compile(r"^.*\berror\b.*", re.MULTILINE)
WARNS_OF_SPILLS = "-warn-spills"


def messages(entry, folder):
    words = shlex.split(entry["command"])
    for option, suffix in (("-o", ".o"), ("-MF", ".d")):
        if option in words:
            words[words.index(option) + 1] = tempfile.mkstemp(suffix, dir=folder)[1]
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def faults_of(entry, folder):
    name = pathlib.Path(entry["file"]).name
    if WARNS_OF_SPILLS not in entry["command"]:
        return [f"{name}: compiled without {WARNS_OF_SPILLS} (configure with -DROWMAX_WERROR=ON)"]
    code, said = messages(entry, folder)
    pattern = SERIALISED if code == 0 else ERROR
    return [f"{name}: {match[0]}" for match in pattern.finditer(said)] or ([f"{name}: {said}"] if code else [])


def build_commands(build):
    """As ninja runs them; compile_commands.json leaves out what says where dependencies go, which a cache looks at."""
    said = subprocess.run(["ninja", "-C", build, "-t", "compdb"], capture_output=True, text=True, check=True).stdout
    return json.loads(said[said.index("[\n") :])


def main():
    entries = build_commands(sys.argv[1])
    kernels = [entry for entry in entries if entry["file"].endswith(".cu") and "/src/cuda/" in entry["file"]]
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        folder = pathlib.Path(name)
        faults = [fault for found in workers.map(lambda entry: faults_of(entry, folder), kernels) for fault in found]
    print("\n".join(faults) or f"{len(kernels)} files of kernels: no spills, no local memory, nothing serialised")
    return 1 if faults or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
