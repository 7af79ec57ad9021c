#!/usr/bin/env python3
"""Bytes that one call moves between the GPU and its memory, counted by Nsight Compute (ncu), beside the fewest possible:
each input read and each score written once. ncu empties the caches before every kernel.

--calls is what ncu runs: one call a case, each behind a small kernel of torch that marks its begin. It leaves the lines
that the counters are then added to.
"""

import argparse
import csv
import io
import json
import subprocess
import sys
from pathlib import Path

METRICS = {"read_bytes": "dram__bytes_read.sum", "written_bytes": "dram__bytes_write.sum", "duration_us": "gpu__time_duration.sum"}


def run_calls(args: argparse.Namespace) -> None:
    import torch
    from report import Report

    from cases import CASES, make
    from implementations import rowmax_call

    report = Report(args, note="counted under ncu, one call a case, caches emptied before each kernel")
    mark = torch.zeros(1, device="cuda")
    for case in CASES:
        inputs = make(case, getattr(torch, args.dtype))
        least = inputs.Q.nbytes + inputs.D.nbytes + 4 * case.queries * case.documents
        call = rowmax_call(inputs)
        with torch.inference_mode():
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            mark.add_(1)
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
        report.add(case=case.name, impl="rowmax", dtype=args.dtype, least_bytes=least)
        del inputs, call
        torch.cuda.empty_cache()


def kernels(table: str) -> list[dict]:
    """One dict a kernel, in the order of their launches: its name, and each metric's value."""
    found: dict[str, dict] = {}
    start = table.index('"ID"')
    for row in csv.DictReader(io.StringIO(table[start:])):
        kernel = found.setdefault(row["ID"], {"name": row["Kernel Name"]})
        kernel[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return list(found.values())


def by_case(launched: list[dict]) -> list[list[dict]]:
    groups: list[list[dict]] = []
    for kernel in launched:
        if "elementwise" in kernel["name"]:
            groups.append([])
        else:
            groups[-1].append(kernel)
    return groups


def counted(launched: list[dict]) -> dict:
    sums = {name: sum(kernel[metric] for kernel in launched) for name, metric in METRICS.items()}
    return {"kernels": len(launched), "read_bytes": int(sums["read_bytes"]), "written_bytes": int(sums["written_bytes"]),
            "duration_us": round(sums["duration_us"] / 1e3, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--dtype", default="float16")
    args = parser.parse_args()
    if args.calls:
        run_calls(args)
        return
    calls = args.output.with_suffix(".calls")
    command = ["ncu", "--csv", "--print-units", "base", "--clock-control", "none", "--profile-from-start", "off", "--metrics",
               ",".join(METRICS.values()), sys.executable, __file__, "--calls", "--output", str(calls),
               "--commit", args.commit, "--dtype", args.dtype]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"ncu failed: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    first, *lines = map(json.loads, calls.read_text().splitlines())
    calls.unlink()
    for line, launched in zip(lines, by_case(kernels(done.stdout)), strict=True):
        line |= counted(launched)
        moved = line["read_bytes"] + line["written_bytes"]
        print(f"{line['case']:18} {moved:14} bytes, {moved / line['least_bytes']:6.3f} of the least, {line['duration_us']:8.1f} us")
    args.output.write_text("".join(json.dumps(line) + "\n" for line in (first, *lines)))


if __name__ == "__main__":
    main()
