"""The shapes that are timed on a GPU, and their inputs: unit-length Gaussian tokens."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Case:
    name: str
    queries: int
    documents: int
    lq: int
    ld: int  # ragged: the longest
    dim: int = 128
    ragged: bool = False


CASES = (
    Case("tiny-64", 1, 64, 32, 180),
    Case("text-1k", 1, 1000, 32, 300),
    Case("text-10k", 1, 10000, 32, 300),
    Case("long-1k", 1, 1000, 32, 1024),
    Case("medium-1k", 1, 1000, 128, 1024),
    Case("colpali-1k", 1, 1000, 1024, 1024),
    Case("batch-128x1k", 128, 1000, 32, 180),
    Case("colpali-16q", 16, 1000, 20, 1030),
    Case("edge-16k", 1, 16000, 32, 512, 48),
    Case("d96-4k", 1, 4000, 32, 128, 96),
    Case("ragged-10k", 1, 10000, 32, 512, ragged=True),
    Case("ragged-1k-lq1024", 1, 1000, 1024, 512, ragged=True),
)


@dataclass
class Inputs:
    """Q [Nq, Lq, d]; D [Nd, Ld, d], or packed [T, d] with offsets."""

    case: Case
    Q: torch.Tensor
    D: torch.Tensor
    cu_q: torch.Tensor | None = None
    cu_d: torch.Tensor | None = None

    def tokens(self) -> int:
        return self.D.numel() // self.case.dim

    def floor_ms(self, gemm_tflops: float, copy_tbps: float) -> float:
        flop = 2 * self.case.queries * self.case.lq * self.tokens() * self.case.dim
        size = self.Q.element_size() * (self.Q.numel() + self.D.numel())
        return max(flop / gemm_tflops / 1e9, size / copy_tbps / 1e9)

    def padded(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Ragged documents as a dense tensor with zeros, and which tokens are real."""
        lengths = self.cu_d.diff()
        mask = torch.arange(self.case.ld, device=self.D.device)[None] < lengths[:, None]
        dense = torch.zeros(len(lengths), self.case.ld, self.case.dim, device=self.D.device, dtype=self.D.dtype)
        dense[mask] = self.D
        return dense, mask


def unit(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """In slices: the float32 values of the largest case would be twice its size."""
    out = torch.empty(shape, device="cuda", dtype=dtype)
    for part in out.split(1024):
        part.copy_(F.normalize(torch.randn(part.shape, device="cuda"), dim=-1))
    return out


def make(case: Case, dtype: torch.dtype) -> Inputs:
    torch.manual_seed(1)
    Q = unit(case.queries, case.lq, case.dim, dtype=dtype)
    if not case.ragged:
        return Inputs(case, Q, unit(case.documents, case.ld, case.dim, dtype=dtype))
    # Lognormal lengths of 8 to 512 tokens, 123 on average: a quarter of what padding to the longest would hold.
    normal = torch.randn(case.documents, generator=torch.Generator().manual_seed(1))
    lengths = torch.exp(normal * 0.6 + math.log(103)).clamp(8, case.ld).int()
    cu_d = torch.cat([torch.zeros(1, dtype=torch.int32), lengths.cumsum(0).int()]).cuda()
    cu_q = torch.tensor([0, case.lq], dtype=torch.int32, device="cuda")
    return Inputs(case, Q, unit(int(lengths.sum()), case.dim, dtype=dtype), cu_q, cu_d)


def beta_lengths(case: Case, fill: float) -> torch.Tensor:
    """Lengths of documents that fill this share of what padding to the longest would hold."""
    uniform = torch.rand(case.documents, generator=torch.Generator().manual_seed(1))
    return (uniform ** (1 / fill - 1) * case.ld).round().clamp(1, case.ld).int()


def exact(inputs: Inputs, documents: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    """The first documents' scores in float64, and the sums of |q| |d| that errors are relative to: [Nq, documents]."""
    Q = inputs.Q.double()
    scores, scales = [], []
    for i in range(documents):
        D = (inputs.D[inputs.cu_d[i] : inputs.cu_d[i + 1]] if inputs.case.ragged else inputs.D[i]).double()
        best, token = (Q @ D.T).max(-1)
        scores.append(best.sum(-1))
        scales.append((Q.norm(dim=-1) * D.norm(dim=-1)[token]).sum(-1))
    return torch.stack(scores, 1), torch.stack(scales, 1)
