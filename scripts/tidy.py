#!/usr/bin/env python3
"""clang-tidy over src/ and cli/ of a configured build; .cu files, whose headers it cannot read, are left to nvcc.

A file that passed once is not checked again until its text, its headers, its flags or the checks change: what passed is
remembered in ~/.cache/rowmax/tidy, for every checkout of this user.
"""

import argparse
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
OPTIONS = ("-quiet", "-extra-arg=-Wno-unknown-warning-option")  # gcc's flags
WRAPPERS = {"ccache", "sccache"}


def compiler_arguments(entry):
    """The compile command without its launcher, its output and its input."""
    words = shlex.split(entry["command"])
    while pathlib.Path(words[0]).name in WRAPPERS:
        words = words[1:]
    output = words.index("-o")
    return [word for i, word in enumerate(words) if i not in (output, output + 1) and word not in ("-c", entry["file"])]


def fingerprint(entry, build):
    """Everything that the verdict depends on. Comments count, because they may silence a check."""
    arguments = compiler_arguments(entry)
    source = subprocess.run(
        [*arguments, "-E", "-C", entry["file"]], cwd=entry["directory"], capture_output=True, check=True
    ).stdout
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    checks = (ROOT / ".clang-tidy").read_bytes()
    parts = (version, checks, " ".join(arguments).encode(), source)
    places = {str(build).encode(): b"BUILD", str(ROOT).encode(): b"ROOT"}
    text = b"\0".join(parts)
    for place, name in places.items():
        text = text.replace(place, name)
    return hashlib.sha256(text).hexdigest()


def check(entry, build):
    """What clang-tidy says about one file; empty when it passes."""
    stamp = CACHE / fingerprint(entry, build)
    if stamp.exists():
        return ""
    done = subprocess.run([TIDY, *OPTIONS, "-p", build, entry["file"]], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stdout or done.stderr
    stamp.touch()
    return ""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="files checked side by side")
    return parser.parse_args()


def main():
    args = parse_arguments()
    build = args.build.resolve()
    folders = (str(ROOT / "src") + "/", str(ROOT / "cli") + "/")
    entries = json.loads((build / "compile_commands.json").read_text())
    entries = {e["file"]: e for e in entries if e["file"].startswith(folders) and e["file"].endswith(".cpp")}.values()
    CACHE.mkdir(parents=True, exist_ok=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        # As they are found: a run over everything takes half an hour, and what passed stays passed.
        for text in pool.map(lambda entry: check(entry, build), entries):
            if text:
                print(text, flush=True)
                failed += 1
    print(f"{TIDY}: {len(entries) - failed} of {len(entries)} files pass")
    return 1 if failed or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
