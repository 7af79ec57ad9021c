#!/usr/bin/env python3
"""What each of the GPU's kernels does with its cycles, by Nsight Compute (ncu): how busy matrix units and memory are, and
what warps wait for.

A kernel's warps have roles: those that fill a ring wait most of the time, and so do those whose turn it is not. So reasons are
a hint of what to look at, not shares of the time.
"""

import argparse

import profiled

METRICS = {
    "duration_us": "gpu__time_duration.sum",
    "sm_ghz": "smsp__cycles_elapsed.avg.per_second",
    "tensor_pipe_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "dram_percent": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "shared_percent": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "issue_slots_percent": "sm__inst_issued.avg.pct_of_peak_sustained_active",
}
STALL, PER_ISSUE = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
NOT_WAITING = ("selected", "not_selected")


def cases():
    """(name, case, token type, options), in the order in which they are worth their time: ncu runs a kernel many times."""
    from cases import CASES, Case

    named = {case.name: case for case in CASES}
    yield "text-1k", named["text-1k"], "float16", {}
    for name in ("colpali-1k", "batch-128x1k"):
        yield name, named[name], "float16", {}
        yield f"{name}, index", named[name], "float16", {"return_index": True}
    yield "1000 x 300 tokens, d 768", Case("", 1, 1000, 32, 300, 768), "float16", {}
    yield "512 query tokens, d 768", Case("", 1, 250, 512, 512, 768), "float16", {}
    yield "text-1k, float32", named["text-1k"], "float32", {}
    yield "medium-1k", named["medium-1k"], "float16", {}
    yield "ragged-1k-lq1024", named["ragged-1k-lq1024"], "float16", {}
    for name in ("text-1k", "colpali-1k"):
        yield f"{name}, portable kernel", named[name], "float16", {"kernel": "cuda.sm80"}
    yield "colpali-1k, normalize", named["colpali-1k"], "float16", {"normalize": True}
    yield "colpali-1k, TF32", named["colpali-1k"], "float32", {"precision": "high"}
    yield "text-10k", named["text-10k"], "float16", {}


def run_calls(args: argparse.Namespace) -> None:
    import torch
    from report import Report

    from cases import make
    from implementations import rowmax_call

    report = Report(args, note="single launches under ncu, --clock-control none; percentages are of the device's peaks")

    def calls():
        for name, case, dtype, options in cases():
            inputs = make(case, getattr(torch, dtype))
            report.add(case=name, impl="rowmax", dtype=dtype)
            yield rowmax_call(inputs, **options)

    profiled.make_calls(calls(), args.seconds)


def seen(launched: list[profiled.Kernel]) -> dict:
    """Of the call's longest kernel."""
    kernel = max(launched, key=lambda one: one[METRICS["duration_us"]])
    found = {name: kernel.get(metric) for name, metric in METRICS.items()}
    found["duration_us"] = found["duration_us"] and found["duration_us"] / 1e3
    found["sm_ghz"] = found["sm_ghz"] and found["sm_ghz"] / 1e9
    waits = {name.removeprefix(STALL).removesuffix(PER_ISSUE): value for name, value in kernel.items()
             if name.startswith(STALL) and name.endswith(PER_ISSUE) and value}
    total = sum(waits.values()) or 1
    reasons = sorted(((value / total, name) for name, value in waits.items() if name not in NOT_WAITING), reverse=True)
    return {name: round(value, 2) for name, value in found.items() if value is not None} | {
        "function": str(kernel["name"]).split("(")[0].split("::")[-1].split("<")[0],
        "waits_percent": {name: round(100 * share, 1) for share, name in reasons[:4]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    profiled.add_arguments(parser)
    args = parser.parse_args()
    if args.calls:
        run_calls(args)
        return
    options = ["--section", "WarpStateStats", "--metrics", ",".join(METRICS.values())]
    first, found = profiled.profile(__file__, args, options)
    for line, launched in found:
        line |= seen(launched)
        waits = ", ".join(f"{name} {share:.0f} %" for name, share in line["waits_percent"].items())
        print(f"{line['case']:30} {line['function']:16} {line.get('duration_us', 0):8.1f} us, tensor pipe "
              f"{line.get('tensor_pipe_percent', 0):5.1f} %, memory {line.get('dram_percent', 0):5.1f} %, waits: {waits}")
    profiled.write(args.output, [first, *(line for line, _ in found)])


if __name__ == "__main__":
    main()
