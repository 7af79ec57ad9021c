#!/usr/bin/env python3
"""Runs several measurements in one process, since starting torch takes longer than some of them. shapes must be the
first: it times the first use of the device. One that fails is reported, and the others go on."""

import argparse
import importlib
import time
import traceback
from pathlib import Path

SCRIPTS = {"shapes": "shapes", "pipeline": "pipeline", "host": "host_cost", "sweeps": "sweeps", "tiles": "tile_sizes",
           "alignment": "alignment", "accuracy": "accuracy", "ladder": "ladder"}

PROGRAMS = {"host": "cuda_host_cost", "tiles": "cuda_tile_sizes"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", nargs="+", choices=SCRIPTS)
    parser.add_argument("--folder", type=Path, required=True, help="where result files go")
    parser.add_argument("--prefix", required=True, help="of their names, which end in -TOPIC.jsonl")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--native", type=Path, help=f"the folder of {' and '.join(PROGRAMS.values())}")
    args = parser.parse_args()
    failed = 0
    for topic in args.topics:
        start = time.perf_counter()
        options = ["--output", str(args.folder / f"{args.prefix}-{topic}.jsonl"), "--commit", args.commit]
        if topic in PROGRAMS and args.native:
            options += ["--native", str(args.native / PROGRAMS[topic])]
        try:
            importlib.import_module(SCRIPTS[topic]).main(options)
        except Exception:
            traceback.print_exc()
            failed += 1
        print(f"== {topic}: {time.perf_counter() - start:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
