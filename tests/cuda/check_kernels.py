#!/usr/bin/env python3
"""Compiles every kernel once more and reads what the assembler says: registers that spill, local memory, and wgmma that it
had to serialise cost half the speed and break no test.

Usage: check_kernels.py BUILD (a configured build folder with compile_commands.json)
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

FAULTS = (
    re.compile(r"[1-9]\d* bytes (stack frame|spill stores|spill loads)"),
    re.compile(r"wgmma\.mma_async instructions are serialized"),
)
FUNCTION = re.compile(r"(?:Function properties for|in the function '?)\s*(\w+)")


def messages(entry, folder):
    words = shlex.split(entry["command"])
    if pathlib.Path(words[0]).name == "ccache":
        words = words[1:]
    words[words.index("-o") + 1] = tempfile.mkstemp(".o", dir=folder)[1]
    done = subprocess.run([*words, "-Xptxas", "-v"], cwd=entry["directory"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{entry['file']} does not compile:\n{done.stderr}")
    return (done.stdout + done.stderr).splitlines()


def faults_in(lines):
    function = "?"
    for line in lines:
        if match := FUNCTION.search(line):
            function = match[1]
        for fault in FAULTS:
            for match in fault.finditer(line):
                yield f"{function}: {match[0]}"


def main():
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    kernels = [entry for entry in entries if entry["file"].endswith(".cu")]

    def faults_of(entry, folder):
        name = pathlib.Path(entry["file"]).name
        return [f"{name}: {fault}" for fault in faults_in(messages(entry, folder))]

    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        folder = pathlib.Path(name)
        faults = [fault for found in workers.map(lambda entry: faults_of(entry, folder), kernels) for fault in found]
    print("\n".join(faults) or f"{len(kernels)} files of kernels: no spills, no local memory, nothing serialised")
    return 1 if faults or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
