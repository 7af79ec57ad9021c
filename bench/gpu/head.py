#!/usr/bin/env python3
"""Times maxsim_from_hidden, forward and both passes: documents as hidden states, projected by a linear layer and normalised
while they are scored, beside projecting first.

`median_ms` is of both passes, `forward` of the first; `extra_mib` counts what both allocate at most, gradients included.
`error`: the largest of the scores' errors over the largest score, against float64 for the first documents.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from report import Report, attempted, parser
from timing import ceilings, eager, extra_mib, replayed_or

from cases import unit
from implementations import tune_quickly


@dataclass(frozen=True)
class Shape:
    name: str
    queries: int
    documents: int
    ld: int
    lq: int = 32
    hidden: int = 768
    dim: int = 128


SHAPES = (
    Shape("head-1x1024x2048", 1, 1024, 2048),
    Shape("head-4x128x1024", 4, 128, 1024),
    Shape("head-64x64x300", 64, 64, 300),
    Shape("head-1x1024x2048-d256", 1, 1024, 2048, dim=256),
)
Score = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def rowmax_score() -> Score:
    import rowmax

    return rowmax.maxsim_from_hidden


def projected(score: Score) -> Score:
    return lambda Q, H, W: score(Q, torch.nn.functional.normalize(H @ W.T, dim=-1))


def rowmax_projected() -> Score:
    import rowmax

    return projected(rowmax.maxsim)


def torch_score() -> Score:
    return projected(lambda Q, D: torch.einsum("bqd,nld->bnql", Q, D).amax(-1).float().sum(-1))


def lik_projected() -> Score:
    import late_interaction_kernels as lik

    return projected(lik.maxsim)


def lik_score() -> Score:
    from late_interaction_kernels import fused_head

    return fused_head.maxsim_from_hidden


IMPLEMENTATIONS: dict[str, Callable[[], Score]] = {
    "rowmax": rowmax_score,
    "rowmax-projected": rowmax_projected,
    "torch": torch_score,
    "lik": lik_score,
    "lik-projected": lik_projected,
}


class Inputs:
    def __init__(self, shape: Shape, dtype: torch.dtype) -> None:
        torch.manual_seed(1)
        self.Q = unit(shape.queries, shape.lq, shape.dim, dtype=dtype).requires_grad_()
        self.H = torch.randn(shape.documents, shape.ld, shape.hidden, device="cuda", dtype=dtype).requires_grad_()
        self.W = (torch.randn(shape.dim, shape.hidden, device="cuda") / shape.hidden**0.5).to(dtype).requires_grad_()
        self.weight = torch.randn(shape.queries, shape.documents, device="cuda")

    def all(self) -> tuple[torch.Tensor, ...]:
        return self.Q, self.H, self.W

    def floors_ms(self, copy_tbps: float) -> tuple[float, float]:
        """Of reading H, and of writing its gradient too."""
        read = self.H.numel() * self.H.element_size() / copy_tbps / 1e9
        return read, 2 * read

    def error(self, score: Score) -> float:
        H = self.H[:16].detach()
        with torch.no_grad():
            found = score(self.Q, H, self.W).double()
        tokens = torch.nn.functional.normalize(H.double() @ self.W.double().T, dim=-1)
        exact = torch.einsum("bqd,nld->bnql", self.Q.double(), tokens).amax(-1).sum(-1).detach()
        return float(((found - exact).abs().max() / exact.abs().max()).item())


def measure(name: str, inputs: Inputs) -> dict:
    score = IMPLEMENTATIONS[name]()

    def step() -> tuple[torch.Tensor, ...]:
        scores = score(*inputs.all())
        return torch.autograd.grad(scores, inputs.all(), inputs.weight.to(scores.dtype))

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return score(*inputs.all())

    step()
    result: dict = {"extra_mib": extra_mib(step), "error": inputs.error(score)}
    first, second = step(), step()
    result["same_bits"] = all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    del first, second
    result["forward"] = {"eager": eager(forward, 10)}
    result["forward"] |= replayed_or(result["forward"]["eager"], forward, 2, 10)
    result["eager"] = eager(step, 10)
    return result | replayed_or(result["eager"], step, 1, 10)


def arguments(given: list[str] | None) -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--impl", nargs="*", default=list(IMPLEMENTATIONS))
    made.add_argument("--dtype", nargs="*", default=["bfloat16", "float16"])
    made.add_argument("--case", nargs="*", default=[shape.name for shape in SHAPES])
    return made.parse_args(given)


def main(given: list[str] | None = None) -> None:
    args = arguments(given)
    tune_quickly()
    limits = ceilings(rounds=10)
    report = Report(args, **limits)
    for dtype in args.dtype:
        for shape in (shape for shape in SHAPES if shape.name in args.case):
            inputs = Inputs(shape, getattr(torch, dtype))
            forward, both = inputs.floors_ms(limits["copy_tbps"])
            for name in args.impl:
                line = {"case": shape.name, "impl": name, "dtype": dtype, "floor_ms": round(both, 5)}
                show(report.add(**line, forward_floor_ms=round(forward, 5), **attempted(name, partial(measure, name, inputs))))
                torch.cuda.empty_cache()
            del inputs
            torch.cuda.empty_cache()


def show(line: dict) -> None:
    head = f"{line['case']:17} {line['impl']:16} {line['dtype']:8}"
    if "failed" in line:
        print(f"{head} {line['failed'][:100]}", flush=True)
        return
    forward = line["forward"]
    print(
        f"{head} forward {forward['median_ms']:8.4f} (eager {forward['eager']['median_ms']:8.4f}, "
        f"floor {line['forward_floor_ms']:7.4f}) both {line['median_ms']:8.4f} ({line['timing']}, "
        f"eager {line['eager']['median_ms']:8.4f}, floor {line['floor_ms']:7.4f}) "
        f"+{line['extra_mib']:9.1f} MiB error {line['error']:.1e}{'' if line['same_bits'] else ' DIFFERENT BITS'}",
        flush=True,
    )


if __name__ == "__main__":
    main()
