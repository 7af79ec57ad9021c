#!/usr/bin/env python3
"""clang-tidy over src/ and cli/ of a configured build.

A file that passed once is not checked again until its text, its headers, its flags or the checks change: what passed is
remembered in ~/.cache/rowmax/tidy.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "rowmax" / "tidy"
TIDY = "clang-tidy-14"
WRAPPERS = {"ccache", "sccache"}


def compiler_arguments(entry):
    """The compile command without its launcher, its output and its input."""
    words = shlex.split(entry["command"])
    while pathlib.Path(words[0]).name in WRAPPERS:
        words = words[1:]
    output = words.index("-o")
    return [word for i, word in enumerate(words) if i not in (output, output + 1) and word not in ("-c", entry["file"])]


def fingerprint(entry):
    """Everything that the verdict depends on. Comments count, because they may silence a check."""
    arguments = compiler_arguments(entry)
    source = subprocess.run(
        [*arguments, "-E", "-C", entry["file"]], cwd=entry["directory"], capture_output=True, check=True
    ).stdout
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    checks = (ROOT / ".clang-tidy").read_bytes()
    parts = (version, checks, " ".join(arguments).encode(), source)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def check(entry, build):
    """What clang-tidy says about one file; empty when it passes."""
    stamp = CACHE / fingerprint(entry)
    if stamp.exists():
        return ""
    done = subprocess.run([TIDY, "-quiet", "-p", build, entry["file"]], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stdout or done.stderr
    stamp.touch()
    return ""


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "release")
    folders = (str(ROOT / "src") + "/", str(ROOT / "cli") + "/")
    entries = json.loads((build / "compile_commands.json").read_text())
    entries = {entry["file"]: entry for entry in entries if entry["file"].startswith(folders)}.values()
    CACHE.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [text for text in pool.map(lambda entry: check(entry, build), entries) if text]
    print("\n".join(faults) or f"{TIDY}: {len(entries)} files pass")
    return 1 if faults or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
