#!/usr/bin/env python3
"""Bytes that one call moves between the GPU and its memory, counted by Nsight Compute (ncu), beside the fewest possible:
each input read and each score written once. ncu empties the caches before every kernel."""

import argparse

import profiled

METRICS = {"read_bytes": "dram__bytes_read.sum", "written_bytes": "dram__bytes_write.sum", "duration_us": "gpu__time_duration.sum"}


def run_calls(args: argparse.Namespace) -> None:
    import torch
    from report import Report

    from cases import CASES, make
    from implementations import rowmax_call

    report = Report(args, note="counted under ncu, one call a case, caches emptied before each kernel")

    def calls():
        for case in CASES:
            inputs = make(case, torch.float16)
            least = inputs.Q.nbytes + inputs.D.nbytes + 4 * case.queries * case.documents
            report.add(case=case.name, impl="rowmax", dtype="float16", least_bytes=least)
            yield rowmax_call(inputs)

    profiled.make_calls(calls(), args.seconds)


def counted(launched: list[profiled.Kernel]) -> dict:
    sums = {name: sum(kernel[metric] for kernel in launched) for name, metric in METRICS.items()}
    return {"kernels": len(launched), "read_bytes": int(sums["read_bytes"]), "written_bytes": int(sums["written_bytes"]),
            "duration_us": round(sums["duration_us"] / 1e3, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    profiled.add_arguments(parser)
    args = parser.parse_args()
    if args.calls:
        run_calls(args)
        return
    first, found = profiled.profile(__file__, args, ["--metrics", ",".join(METRICS.values())])
    for line, launched in found:
        line |= counted(launched)
        moved = line["read_bytes"] + line["written_bytes"]
        print(f"{line['case']:18} {moved:14} bytes, {moved / line['least_bytes']:6.3f} of the least, {line['duration_us']:8.1f} us")
    profiled.write(args.output, [first, *(line for line, _ in found)])


if __name__ == "__main__":
    main()
