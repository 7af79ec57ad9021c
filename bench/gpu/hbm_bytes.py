#!/usr/bin/env python3
"""Bytes that one call moves between the GPU and its memory, counted by Nsight Compute (ncu), beside the fewest possible:
each input read and each score written once. ncu empties the caches before every kernel.

--calls is what ncu runs: one call a case, each behind a small kernel of torch that marks its begin.
"""

import csv
import io
import subprocess
import sys

import torch
from report import Report, parser

from cases import CASES, make
from implementations import rowmax_call

METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum")


def run_calls(dtype: str) -> None:
    mark = torch.zeros(1, device="cuda")
    for case in CASES:
        inputs = make(case, getattr(torch, dtype))
        call = rowmax_call(inputs)
        with torch.inference_mode():
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            mark.add_(1)
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
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


def least_bytes(dtype: str, case) -> int:
    inputs = make(case, getattr(torch, dtype))
    size = inputs.Q.element_size() * (inputs.Q.numel() + inputs.D.numel())
    return size + 4 * case.queries * case.documents + (4 * (case.documents + 1) if case.ragged else 0)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--calls", action="store_true")
    made.add_argument("--dtype", default="float16")
    args = made.parse_args()
    if args.calls:
        run_calls(args.dtype)
        return
    command = ["ncu", "--csv", "--print-units", "base", "--clock-control", "none", "--profile-from-start", "off", "--metrics",
               ",".join(METRICS), sys.executable, __file__, "--calls", "--output", str(args.output), "--dtype", args.dtype]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"ncu failed: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    report = Report(args, note="counted under ncu, one call a case, caches emptied before each kernel")
    for case, launched in zip(CASES, by_case(kernels(done.stdout)), strict=True):
        read, written, time = (sum(kernel[metric] for kernel in launched) for metric in METRICS)
        least = least_bytes(args.dtype, case)
        report.add(case=case.name, impl="rowmax", dtype=args.dtype, kernels=len(launched), read_bytes=int(read),
                   written_bytes=int(written), least_bytes=least, duration_us=round(time / 1e3, 2))
        moved = read + written
        print(f"{case.name:18} {moved:14.0f} bytes, {moved / least:6.3f} of the least, {time / 1e3:8.1f} us", flush=True)


if __name__ == "__main__":
    main()
