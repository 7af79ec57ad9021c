#!/usr/bin/env python3
"""What a call from Python costs the host on a CUDA device: the time until it returns, and one call between two events,
beside torch's z.add_(1). --native names the program cuda_host_cost, whose lines from C++ are added."""

import json
import subprocess
import time
from pathlib import Path

import torch
from report import Report, parser
from timing import eager, spread

CALLS, BATCHES = 40, 40  # a stream queues about a thousand launches before it makes the host wait


def microseconds(call) -> dict[str, float]:
    call()
    times = []
    for _ in range(BATCHES):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append(1e3 * (time.perf_counter() - start) / CALLS)
    torch.cuda.synchronize()
    return spread(times)


def calls() -> dict[str, object]:
    import rowmax

    def tokens(*shape):
        return torch.randn(shape, device="cuda", dtype=torch.float16)

    z = torch.zeros(1, device="cuda")
    Q, tiny, text = tokens(1, 32, 128), tokens(64, 180, 128), tokens(1000, 300, 128)
    out = torch.empty(1, 64, device="cuda")
    packed, cu_q, cu_d = tiny.view(-1, 128), torch.tensor([0, 32]).cuda(), torch.arange(0, 64 * 180 + 1, 180).cuda()
    best = torch.empty(1, 10, device="cuda"), torch.empty(1, 10, device="cuda", dtype=torch.int64)
    return {
        "nothing": lambda: None,
        "torch z.add_(1)": lambda: z.add_(1),
        "torch.empty": lambda: torch.empty(1, 64, dtype=torch.float32, device=Q.device),
        "torch einsum": lambda: torch.einsum("bqd,nld->bnql", Q, tiny).amax(-1).sum(-1),
        "maxsim, tiny-64": lambda: rowmax.maxsim(Q, tiny),
        "maxsim with out=, tiny-64": lambda: rowmax.maxsim(Q, tiny, out=out),
        "maxsim with the index, tiny-64": lambda: rowmax.maxsim(Q, tiny, return_index=True),
        "maxsim_varlen, tiny-64": lambda: rowmax.maxsim_varlen(Q[0], packed, cu_q, cu_d, max_seqlen_q=32, max_seqlen_d=180),
        "topk with out=, tiny-64": lambda: rowmax.topk(Q, tiny, 10, out=best),
        "maxsim, text-1k": lambda: rowmax.maxsim(Q, text),
    }


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--native", type=Path)
    args = made.parse_args(arguments)
    report = Report(args)
    with torch.inference_mode():
        for name, call in calls().items():
            line = report.add(case="host-cost Python", impl=name, dtype="float16", **microseconds(call), eager=eager(call, 101))
            host, between = 1e3 * line["median_ms"], 1e3 * line["eager"]["median_ms"]
            print(f"{name:34} host {host:6.2f} us, between events {between:6.2f} us", flush=True)
    if args.native:
        output = subprocess.run([args.native.resolve()], capture_output=True, text=True, check=True).stdout
        for line in map(json.loads, output.splitlines()):
            report.add(**line)
            print(f"{line['case']:26} {line['impl']:28} host {1e3 * line['median_ms']:6.2f} us", flush=True)


if __name__ == "__main__":
    main()
