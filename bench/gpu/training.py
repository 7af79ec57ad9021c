#!/usr/bin/env python3
"""Times training steps, forward and backward, of every implementation: the table of training shapes, and the batch ladder of
ColPali pages.

A step gives gradients of the scores' weighted sum for queries and documents. `extra_mib` counts what it allocates at
most, gradients included. `cosine` compares the gradients with those of float64 winners; `same_bits`: two steps gave
the same.
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from report import Report, attempted, parser
from timing import ceilings, eager, extra_mib, replayed_or

from cases import unit
from implementations import tune_quickly

Step = Callable[[], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Shape:
    name: str
    queries: int
    documents: int  # of each query where candidates are its own
    lq: int
    ld: int
    own: bool = False


TABLE = (
    Shape("train-32", 32, 32, 32, 300),
    Shape("train-128", 128, 128, 32, 180),
    Shape("train-256", 256, 256, 32, 180),
    Shape("train-128-1024", 128, 128, 128, 1024),
    Shape("colpali-64", 64, 64, 1024, 1024),
    Shape("colpali-128", 128, 128, 1024, 1024),
    Shape("kd-256x16", 256, 16, 32, 1030, own=True),
)
LADDER = tuple(Shape(f"ladder-{n}", n, n, 1024, 1024) for n in (8, 16, 32, 64, 128, 256, 512, 1024, 2048))


def shape_named(name: str) -> Shape:
    return next(shape for shape in TABLE + LADDER if shape.name == name)


class Inputs:
    def __init__(self, shape: Shape, dtype: torch.dtype) -> None:
        torch.manual_seed(1)
        documents = (shape.queries, shape.documents) if shape.own else (shape.documents,)
        self.shape = shape
        self.Q = unit(shape.queries, shape.lq, 128, dtype=dtype).requires_grad_()
        self.D = unit(*documents, shape.ld, 128, dtype=dtype).requires_grad_()
        self.weight = torch.randn(shape.queries, shape.documents, device="cuda")

    def floor_ms(self, gemm_tflops: float, copy_tbps: float) -> float:
        """Of the forward pass' products, or of reading everything twice and writing it once."""
        flop = 2 * self.shape.queries * self.shape.documents * self.shape.lq * self.shape.ld * 128
        size = 3 * self.Q.element_size() * (self.Q.numel() + self.D.numel())
        return max(flop / gemm_tflops / 1e9, size / copy_tbps / 1e9)

    def step(self, score: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Step:
        def run() -> tuple[torch.Tensor, torch.Tensor]:
            scores = score(self.Q, self.D)
            return torch.autograd.grad(scores, (self.Q, self.D), self.weight.to(scores.dtype))

        return run

    def exact(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of float64 winners, document by document, in float64."""
        Q, D = self.Q.detach().double(), self.D.detach().double()
        grad_q, grad_d = torch.zeros_like(Q), torch.zeros_like(D)
        if self.shape.own:
            for k in range(self.shape.documents):
                token = torch.einsum("bqd,bld->bql", Q, D[:, k]).argmax(-1)[..., None].expand_as(Q)
                weight = self.weight[:, k, None, None].double()
                grad_q += weight * D[:, k].gather(1, token)
                grad_d[:, k].scatter_add_(1, token, weight * Q)
            return grad_q, grad_d
        for j in range(self.shape.documents):
            token = (Q @ D[j].T).argmax(-1)
            weight = self.weight[:, j, None, None].double()
            grad_q += weight * D[j][token]
            grad_d[j].index_add_(0, token.flatten(), (weight * Q).flatten(0, 1))
        return grad_q, grad_d


def torch_score(own: bool) -> Callable:
    equation = "bqd,bkld->bkql" if own else "bqd,nld->bnql"
    return lambda Q, D: torch.einsum(equation, Q, D).max(-1).values.float().sum(-1)


def rowmax_score(own: bool, **options: object) -> Callable:
    import rowmax

    return lambda Q, D: rowmax.maxsim(Q, D, **options)


def fm_score(own: bool, path: str) -> Callable:
    import flash_maxsim as fm

    def score(Q: torch.Tensor, D: torch.Tensor) -> torch.Tensor:
        os.environ["FLASH_BWD_PATH"] = path
        return fm.flash_maxsim_batched_train(Q, D, shared_docs=not own)

    return score


def lik_score(own: bool, backward: str) -> Callable:
    import late_interaction_kernels as lik

    return lambda Q, D: lik.maxsim(Q, D, backward=backward)


IMPLEMENTATIONS: dict[str, Callable[[bool], Callable]] = {
    "rowmax": rowmax_score,
    "torch": torch_score,
    "fm": lambda own: fm_score(own, "auto"),
    "fm-invgrid": lambda own: fm_score(own, "invgrid"),
    "lik-unified": lambda own: lik_score(own, "unified"),
    "lik-lowmem": lambda own: lik_score(own, "lowmem"),
}
# They compile what compile_rivals.py has not compiled before.
TRITON = ("fm", "lik-unified", "lik-lowmem", "fm-invgrid")


def arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--impl", nargs="*", default=list(IMPLEMENTATIONS))
    made.add_argument("--case", nargs="*", default=[shape.name for shape in TABLE + LADDER], help="in this order")
    made.add_argument("--dtype", nargs="*", default=["float16"])
    made.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so many")
    return made.parse_args()


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return round(torch.nn.functional.cosine_similarity(a.double().flatten(), b.flatten(), dim=0).item(), 7)


def measure(name: str, inputs: Inputs, truth: tuple[torch.Tensor, torch.Tensor] | None) -> dict:
    score = IMPLEMENTATIONS[name](inputs.shape.own)
    step = inputs.step(score)
    step()
    repeats = repeats_of(step)
    warm = min(repeats - 2, 3)
    result: dict = {"extra_mib": extra_mib(step)}
    if truth is not None:
        first, second = step(), step()
        result["cosine"] = [cosine(a, b) for a, b in zip(first, truth, strict=True)]
        result["same_bits"] = all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
        del first, second
    result["eager"] = eager(step, repeats, warm)
    result["forward"] = eager(lambda: score(inputs.Q, inputs.D), repeats, warm)
    return result | replayed_or(result["eager"], step, 4 if inputs.shape.lq < 1024 else 1, repeats, warm)


def repeats_of(step: Step) -> int:
    """As many as take a sixth of a second, from 3 to 25."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return min(max(int(0.16 / (time.perf_counter() - start)), 3), 25)


def in_order(args: argparse.Namespace) -> list[tuple[str, Shape, list[str]]]:
    """Types, shapes and implementations. The table comes before the ladder, and what compiles for its shapes last there: when
    time runs out, the rest is there."""
    shapes = [shape_named(name) for name in args.case]
    quick, compiling = ([name for name in args.impl if (name in TRITON) == triton] for triton in (False, True))
    table = [(dtype, shape, names) for names in (quick, compiling) for dtype in args.dtype for shape in shapes if shape in TABLE]
    return table + [(dtype, shape, args.impl) for dtype in args.dtype for shape in shapes if shape in LADDER]


class Measured:
    """What was measured, by shape: rungs of the ladder are shapes of the table, too. Who runs out of memory on a rung is not
    asked for the next, nor who needs so long that four times as much would leave others no time."""

    MOST_MS = 50

    def __init__(self) -> None:
        self.results: dict[tuple, dict] = {}
        self.too_large: set[str] = set()

    def find(self, name: str, dtype: str, inputs: Inputs, truth: tuple[torch.Tensor, torch.Tensor] | None) -> dict:
        shape = inputs.shape
        key = name, dtype, shape.queries, shape.documents, shape.lq, shape.ld, shape.own
        if key not in self.results:
            self.results[key] = attempted(name, partial(measure, name, inputs, truth))
            torch.cuda.empty_cache()
        found = self.results[key]
        slow = name != "rowmax" and found.get("median_ms", 0) > self.MOST_MS
        if shape in LADDER and ("OutOfMemory" in found.get("failed", "") or slow):
            self.too_large.add(name)
        return found


def main() -> None:
    args = arguments()
    start = time.perf_counter()
    tune_quickly()
    limits = ceilings(rounds=10)
    report = Report(args, **limits)
    measured = Measured()
    for dtype, shape, names in in_order(args):
        asked = [name for name in names if name not in measured.too_large]
        if not asked or time.perf_counter() - start > args.seconds:
            continue
        inputs = Inputs(shape, getattr(torch, dtype))
        truth = inputs.exact() if shape in TABLE else None
        floor = inputs.floor_ms(limits[f"{dtype}_tflops"], limits["copy_tbps"])
        for name in asked:
            if time.perf_counter() - start > args.seconds:
                break
            line = {"case": shape.name, "impl": name, "dtype": dtype, "floor_ms": round(floor, 5)}
            show(report.add(**line, **measured.find(name, dtype, inputs, truth)))
        del inputs, truth
        torch.cuda.empty_cache()
    print(f"{time.perf_counter() - start:.0f} s")


def show(line: dict) -> None:
    head = f"{line['case']:15} {line['impl']:12} {line['dtype']:8}"
    if "failed" in line:
        print(f"{head} {line['failed'][:100]}", flush=True)
        return
    print(
        f"{head} {line['timing']} {line['median_ms']:9.4f} floor {line['floor_ms']:7.4f} eager {line['eager']['median_ms']:9.4f} "
        f"forward {line['forward']['median_ms']:9.4f} +{line['extra_mib']:9.2f} MiB {line.get('cosine', '')} "
        f"{'' if line.get('same_bits', True) else 'DIFFERENT BITS'}",
        flush=True,
    )


if __name__ == "__main__":
    main()
