#!/usr/bin/env python3
"""How much of a training step is MaxSim: an encoder of the shape of a base model (22 layers, hidden 768, 12 heads, 149 million
parameters, bfloat16, random weights), in-batch negatives, scored by rowmax and by torch's einsum.

`median_ms` is a whole step: encoding queries and documents, scores, loss, gradients, AdamW. `scoring_ms` is scores, loss and
their gradients for tokens by themselves. Both by events, called from Python.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from report import Report, attempted, parser
from timing import eager, extra_mib
from torch import nn


@dataclass(frozen=True)
class Shape:
    name: str
    batch: int
    lq: int
    ld: int


SHAPES = (Shape("step-64x300", 64, 32, 300), Shape("step-128x180", 128, 32, 180), Shape("step-16x2048", 16, 32, 2048))
WORDS, HIDDEN, DIM = 50368, 768, 128
Score = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        # As many parameters in the feed-forward part as gated ones of width 1152 have.
        layer = nn.TransformerEncoderLayer(HIDDEN, 12, 1728, dropout=0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 22, enable_nested_tensor=False)
        self.tokens = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.tokens(self.layers(self.words(ids))), dim=-1)


def torch_score(Q: torch.Tensor, D: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bqd,nld->bnql", Q, D).amax(-1).float().sum(-1)


def rowmax_score(Q: torch.Tensor, D: torch.Tensor) -> torch.Tensor:
    import rowmax

    return rowmax.maxsim(Q, D)


IMPLEMENTATIONS: dict[str, Score] = {"rowmax": rowmax_score, "torch": torch_score}


def loss_of(score: Score, Q: torch.Tensor, D: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(score(Q, D) / 0.05, torch.arange(len(Q), device=Q.device))


def measure(shape: Shape, encoder: Encoder, score: Score) -> dict:
    queries = torch.randint(WORDS, (shape.batch, shape.lq), device="cuda")
    documents = torch.randint(WORDS, (shape.batch, shape.ld), device="cuda")
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        loss_of(score, encoder(queries), encoder(documents)).backward()
        optimiser.step()
        optimiser.zero_grad()

    with torch.no_grad():
        Q, D = (encoder(ids) for ids in (queries, documents))
    Q, D = Q.requires_grad_(), D.requires_grad_()

    def scoring() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(loss_of(score, Q, D), (Q, D))

    result = eager(step, 8, 2)
    scored = eager(scoring, 15)
    return result | {"scoring_ms": scored, "share": round(scored["median_ms"] / result["median_ms"], 5),
                     "extra_mib": extra_mib(scoring), "step_mib": extra_mib(step)}


def main(given: list[str] | None = None) -> None:
    made: argparse.ArgumentParser = parser(__doc__)
    args = made.parse_args(given)
    torch.manual_seed(1)
    encoder = Encoder().to("cuda", torch.bfloat16)
    report = Report(args, parameters=sum(p.numel() for p in encoder.parameters()))
    measure(SHAPES[0], encoder, torch_score)  # a cold machine makes whoever comes first look slow
    for shape in SHAPES:
        for name, score in IMPLEMENTATIONS.items():
            line = {"case": shape.name, "impl": name, "dtype": "bfloat16", "batch": shape.batch, "lq": shape.lq, "ld": shape.ld}
            found = report.add(**line, **attempted(name, partial(measure, shape, encoder, score)))
            shown = found.get("failed") or (
                f"step {found['median_ms']:8.3f} ms, scoring {found['scoring_ms']['median_ms']:7.3f} ms: "
                f"{100 * found['share']:5.2f} %, {found['extra_mib']:8.1f} MiB"
            )
            print(f"{shape.name:14} {name:8} {shown}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
