#!/usr/bin/env python3
"""Compiles every kernel once more and reads what the assembler says: registers that spill, local memory, and wgmma that it
had to serialise cost half the speed and break no test.

Usage: check_kernels.py BUILD (a configured build folder with compile_commands.json)
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FAULTS = (
    re.compile(r"[1-9]\d* bytes (stack frame|spill stores|spill loads)"),
    re.compile(r"wgmma\.mma_async instructions are serialized"),
)
FUNCTION = re.compile(r"(?:Function properties for|in the function '?)\s*(\w+)")


def messages(entry, folder):
    words = shlex.split(entry["command"])
    if pathlib.Path(words[0]).name == "ccache":
        words = words[1:]
    words[words.index("-o") + 1] = str(folder / "kernel.o")
    done = subprocess.run([*words, "-Xptxas", "-v"], cwd=entry["directory"], capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).splitlines()


def faults_in(lines):
    function = "?"
    for line in lines:
        if match := FUNCTION.search(line):
            function = match[1]
        for fault in FAULTS:
            if match := fault.search(line):
                yield f"{function}: {match[0]}"


def main():
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    kernels = [entry for entry in entries if entry["file"].endswith(".cu")]
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for entry in kernels:
            found = list(faults_in(messages(entry, pathlib.Path(folder))))
            faults += [f"{pathlib.Path(entry['file']).name}: {fault}" for fault in found]
    print("\n".join(faults) or f"{len(kernels)} files of kernels: no spills, no local memory, nothing serialised")
    return 1 if faults or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
