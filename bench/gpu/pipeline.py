#!/usr/bin/env python3
"""What scoring is of a whole reranking call: text-1k, from candidates in host memory or in the GPU's, to ranked results
in host memory. Every part by events, the whole by events and by the host's clock."""

import time

import torch
from report import Report, parser
from timing import ceilings, eager, spread

CANDIDATES, LD, LQ, DIM, K = 1000, 300, 32, 128, 100


def on_host_clock(call, repeats: int = 25) -> dict[str, float]:
    call()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return spread(times)


def parts(rowmax) -> dict[str, object]:
    """name -> call. Candidates of a resident corpus are taken by their places, in place."""
    generator = torch.Generator().manual_seed(1)
    documents = torch.randn(CANDIDATES, LD, DIM, generator=generator).half().pin_memory()
    query = torch.randn(1, LQ, DIM, generator=generator).half().pin_memory()
    corpus = torch.randn(10 * CANDIDATES * LD, DIM, device="cuda", dtype=torch.float16)
    chosen = torch.randperm(10 * CANDIDATES, generator=generator)[:CANDIDATES].cuda()
    starts, lengths = chosen * LD, torch.full((CANDIDATES,), LD, device="cuda")
    D, Q = documents.cuda(), query.cuda()
    all_scores = rowmax.maxsim(Q, D)
    scores, index = rowmax.topk(Q, D, K)
    host = torch.empty_like(scores, device="cpu").pin_memory(), torch.empty_like(index, device="cpu").pin_memory()

    def fetch(best, where):
        host[0].copy_(best, non_blocking=True)
        host[1].copy_(where, non_blocking=True)
        torch.cuda.current_stream().synchronize()

    def from_host():
        D.copy_(documents, non_blocking=True)
        Q.copy_(query, non_blocking=True)
        fetch(*rowmax.topk(Q, D, K))

    def resident():
        Q.copy_(query, non_blocking=True)
        best = rowmax.score_ranges(Q, corpus, starts, lengths).topk(K)
        fetch(best.values, best.indices)

    def with_torch():
        D.copy_(documents, non_blocking=True)
        Q.copy_(query, non_blocking=True)
        best = torch.einsum("bqd,nld->bnql", Q, D).amax(-1).sum(-1).topk(K)
        fetch(best.values.float(), best.indices)

    return {
        "documents to the GPU": lambda: D.copy_(documents, non_blocking=True),
        "query to the GPU": lambda: Q.copy_(query, non_blocking=True),
        "scores": lambda: rowmax.maxsim(Q, D),
        "scores of ranges": lambda: rowmax.score_ranges(Q, corpus, starts, lengths),
        "top-k of the scores": lambda: all_scores.topk(K),
        "scores and top-k": lambda: rowmax.topk(Q, D, K),
        "results to the host": lambda: fetch(scores, index),
        "whole, candidates on the host": from_host,
        "whole, candidates on the GPU": resident,
        "whole with torch, candidates on the host": with_torch,
    }


def main(arguments: list[str] | None = None) -> None:
    args = parser(__doc__).parse_args(arguments)
    import rowmax

    report = Report(args, **ceilings(rounds=9))
    with torch.inference_mode():
        for name, call in parts(rowmax).items():
            line = report.add(case="pipeline", part=name, impl="torch" if "torch" in name else "rowmax", dtype="float16",
                              **eager(call), host_clock=on_host_clock(call))
            print(f"{name:42} {line['median_ms']:8.4f} ms by events {line['host_clock']['median_ms']:8.4f} by the host", flush=True)


if __name__ == "__main__":
    main()
