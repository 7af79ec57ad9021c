"""Single calls under Nsight Compute (ncu), each behind a small kernel of torch that marks its begin.

A script is run twice: as it was called it runs itself under ncu with --calls, where it makes the calls and leaves a result
file, to whose lines the counters are then added.
"""

import argparse
import csv
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

Kernel = dict[str, object]  # "name", and the value of each metric
MARK = "elementwise"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, required=True, help="the result file")
    parser.add_argument("--commit", default="unknown", help="what the measured build was made from")
    parser.add_argument("--calls", action="store_true", help="what ncu runs")
    parser.add_argument("--seconds", type=float, default=65, help="begin no call after so many: ncu tells everything at its end")


def make_calls(calls: Iterable[Callable[[], object]], seconds: float) -> None:
    """The calls' generator leaves a line for each before it hands it out."""
    start = time.monotonic()
    import torch

    mark = torch.zeros(1, device="cuda")
    for call in calls:
        with torch.inference_mode():
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            mark.add_(1)
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
        torch.cuda.empty_cache()
        if time.monotonic() - start > seconds:
            return


def kernels(table: str) -> list[Kernel]:
    """In the order of their launches, from ncu's raw page: a line of names, one of units, then one a kernel."""
    rows = csv.DictReader(io.StringIO(table[table.index('"ID"'):]))
    return [{"name": row["Kernel Name"], **{name: number(text) for name, text in row.items() if "__" in (name or "")}}
            for row in rows if row["ID"]]


def number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def by_call(launched: list[Kernel]) -> list[list[Kernel]]:
    groups: list[list[Kernel]] = []
    for kernel in launched:
        if MARK in str(kernel["name"]):
            groups.append([])
        else:
            groups[-1].append(kernel)
    return groups


def profile(script: str, args: argparse.Namespace, options: list[str]) -> tuple[dict, list[tuple[dict, list[Kernel]]]]:
    """The first line that the calls left, and each of the others with the kernels of its call."""
    calls = args.output.with_suffix(".calls")
    command = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--profile-from-start", "off",
               *options, sys.executable, script, "--calls", "--output", str(calls), "--commit", args.commit,
               "--seconds", str(args.seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or '"ID"' not in done.stdout:
        sys.exit(f"ncu failed: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    first, *lines = map(json.loads, calls.read_text().splitlines())
    calls.unlink()
    return first, list(zip(lines, by_call(kernels(done.stdout)), strict=True))


def write(path: Path, lines: list[dict]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
