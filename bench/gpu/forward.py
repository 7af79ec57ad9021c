#!/usr/bin/env python3
"""Times the forward pass of every implementation on every case, in one run, beside the machine's ceilings.

Writes one JSON object a line (docs/benchmarks.md says what the fields mean), prints a table last.
"""

import argparse
import itertools
import json
import time

import torch
from report import Report, attempted, parser
from timing import ceilings, eager, extra_mib, replayed_or

from cases import CASES, exact, make
from implementations import IMPLEMENTATIONS, TF32, tune_quickly

TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--impl", nargs="*", default=list(IMPLEMENTATIONS))
    made.add_argument("--case", nargs="*", default=[case.name for case in CASES])
    made.add_argument("--dtype", nargs="*", default=["float16", "bfloat16"])
    return made.parse_args()


def measure(call, inputs, truth, scale, floor: float) -> dict:
    scores = call()
    scores = scores.reshape(inputs.case.queries, -1)
    error = ((scores[:, : truth.shape[1]].double() - truth).abs() / scale).max().item()
    calls = 20 if floor < 0.1 else 5
    result = {"error": error, "extra_mib": extra_mib(call), "eager": eager(call)}
    return result | replayed_or(result["eager"], call, calls)


def measure_case(name: str, inputs, floor: float) -> dict:
    truth, scale = exact(inputs)
    with torch.inference_mode():
        return attempted(name, lambda: measure(IMPLEMENTATIONS[name](inputs), inputs, truth, scale, floor))


def main() -> None:
    args = arguments()
    start = time.perf_counter()
    tune_quickly()
    limits = ceilings(rounds=15)
    report = Report(args, **limits)
    print(json.dumps(report.lines[0]), flush=True)
    # Those that tune themselves for every shape come last, long queries last of all: when time runs out, the rest is there.
    slow = [[name] for name in ("fm", "lik") if name in args.impl]
    groups = [[name for name in args.impl if [name] not in slow], *slow]
    for dtype, group in itertools.product(args.dtype, groups):
        chosen = [case for case in CASES if case.name in args.case]
        for case in sorted(chosen, key=lambda case: case.lq) if group in slow else chosen:
            inputs = make(case, TYPES[dtype])
            for name in group:
                if name in TF32 and dtype != "float32":
                    continue
                rate = limits["tf32_tflops" if name in TF32 else f"{dtype}_tflops"]
                floor = inputs.floor_ms(rate, limits["copy_tbps"])
                line = {"case": case.name, "impl": name, "dtype": dtype, "floor_ms": round(floor, 5)}
                report.add(**line, **measure_case(name, inputs, floor))
                print(f"{time.perf_counter() - start:6.1f} s: {dtype} {case.name} {name}", flush=True)
                torch.cuda.empty_cache()
            del inputs
    show(report.lines)


def show(lines: list[dict]) -> None:
    print(json.dumps(lines[0]))
    print(f"{'case':18} {'impl':13} {'type':9} {'graph ms':>9} {'floor':>6} {'eager ms':>9} {'extra MiB':>10} {'error':>8}")
    for line in lines[1:]:
        head = f"{line['case']:18} {line['impl']:13} {line['dtype']:9}"
        if "failed" in line:
            print(f"{head} {line['failed'][:90]}")
            continue
        share = f"{100 * line['floor_ms'] / line['median_ms']:5.1f}%"
        print(
            f"{head} {line['median_ms']:9.4f} {share} {line['eager']['median_ms']:9.4f} {line['extra_mib']:10.2f} "
            f"{line['error']:8.1e}{'' if line['timing'] == 'graph' else ' (not captured)'}"
        )


if __name__ == "__main__":
    main()
