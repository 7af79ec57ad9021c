#!/usr/bin/env python3
"""Compiles what the implementations in Triton need for the cases of forward.py, a process a case, side by side.

They compile every configuration of a kernel when they first try it, one after the other, which takes half a minute for some
shapes and is no part of what is measured. What they leave in Triton's cache, the process that measures finds there.
"""

import argparse
import itertools
import os
import subprocess
import sys
import time

TYPES = ("float16", "bfloat16", "float32")
IMPLEMENTATIONS = ("fm", "lik")


def compile_one(impl: str, name: str, dtype: str) -> None:
    import torch

    from cases import CASES, make
    from implementations import IMPLEMENTATIONS as KNOWN
    from implementations import tune_quickly

    tune_quickly()
    case = next(case for case in CASES if case.name == name)
    with torch.inference_mode():
        KNOWN[impl](make(case, getattr(torch, dtype)))()
    torch.cuda.synchronize()


def wait_for_one(running: list[subprocess.Popen], until: float) -> int:
    """How many ended well."""
    while running and all(one.poll() is None for one in running):
        if time.monotonic() > until:
            for one in running:
                one.kill()
        time.sleep(0.1)
    ended = [one.poll() for one in running]
    running[:] = [one for one, code in zip(running, ended, strict=True) if code is None]
    return ended.count(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", nargs="*", default=list(TYPES))
    parser.add_argument("--seconds", type=float, default=90, help="stop after so many")
    parser.add_argument("--one", nargs=3, metavar=("IMPL", "CASE", "DTYPE"), help="only this one, in this process")
    args = parser.parse_args()
    if args.one:
        compile_one(*args.one)
        return
    from cases import CASES

    start = time.monotonic()
    # Long queries take longest.
    wanted = sorted(itertools.product(IMPLEMENTATIONS, CASES, args.dtype), key=lambda one: -one[1].lq)
    running: list[subprocess.Popen] = []
    done = 0
    for impl, case, dtype in wanted:
        while len(running) >= (os.cpu_count() or 1):
            done += wait_for_one(running, start + args.seconds)
        if time.monotonic() - start < args.seconds:
            command = [sys.executable, __file__, "--one", impl, case.name, dtype]
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    while running:
        done += wait_for_one(running, start + args.seconds)
    print(f"{done} of {len(wanted)} compiled within {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
