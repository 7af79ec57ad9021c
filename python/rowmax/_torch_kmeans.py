"""k-means of points on a GPU: they stay there, and with them everything of their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rowmax._frameworks import common_framework
from rowmax._grid import inverse_grid, scatter_sum
from rowmax._kmeans import _AT_ONCE, _BLOCK, Lloyd
from rowmax._options import one_of
from rowmax._points import nearest
from rowmax._scoring import maxsim_varlen


def points_of(X: Tensor, bits: bool, validate: bool | None) -> Tensor:
    """X as it is clustered: float64, or else float32."""
    if X.ndim != 2 or not 1 <= X.shape[1] < 4096:
        raise ValueError(f"X must be [N, d] with d from 1 to 4095, got shape {list(X.shape)}")
    X = X.detach()
    if bits:
        X = X.view(torch.bfloat16)
    if X.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise TypeError(f"X must be float16, bfloat16, float32 or float64, got {str(X.dtype).removeprefix('torch.')}")
    points = X.to(torch.float64 if X.dtype is torch.float64 else torch.float32).contiguous()
    if validate is None or validate:
        finite = points.isfinite().all(1)
        if not finite.all():
            raise ValueError(f"X[{int(finite.int().argmin())}] holds a number that is not finite")
    return points


class DeviceLloyd(Lloyd):
    """The steps of Lloyd's iterations by the kernels of a GPU, in the order of those on the CPU."""

    def __init__(self, points: Tensor, spherical: bool):
        self.spherical = spherical
        n, d = points.shape
        self.exponent = 0 if spherical else _extreme_exponent(points)
        if self.exponent:
            points = torch.ldexp(points, torch.tensor(-self.exponent, device=points.device))
        self.rows = torch.ones(n, d + 1, dtype=points.dtype, device=points.device)
        self.mean = points.new_zeros(d)
        if spherical:
            self.rows[:, :-1] = _unit(points)
        else:
            self.mean = points.mean(0, dtype=torch.float64).to(points.dtype)
            torch.sub(points, self.mean, out=self.rows[:, :-1])
        self.points = self.rows[:, :-1]
        self.blocks = torch.cat([torch.arange(0, n, _BLOCK), torch.tensor([n])]).to(points.device)

    def given(self, init: Any, X: Any, k: int) -> Tensor:
        common_framework(init, X, ("init", "X"))
        if tuple(init.shape) != (k, self.points.shape[1]):
            raise ValueError(f"init must be [{k}, {self.points.shape[1]}], got shape {list(init.shape)}")
        scaled = torch.ldexp(init.double(), torch.tensor(-self.exponent, device=init.device))
        start = scaled.to(self.points) - self.mean
        finite = start.isfinite().all(1)
        if not finite.all():
            raise ValueError(f"init[{int(finite.int().argmin())}] holds a number that is not finite")
        return _unit(start) if self.spherical else start

    def drawn(self, init: str, k: int, rng: np.random.Generator) -> Tensor:
        """Drawn on the CPU, from a sample."""
        one_of("init", init, ("k-means++", "random"))
        rows = self.sample(init, k, len(self.points), rng)
        chosen = self.points[torch.from_numpy(rows).to(self.points.device)].cpu().numpy()
        return torch.from_numpy(self.seeds(init, chosen, k, rng)).to(self.points.device)

    def restored(self, centroids: Tensor) -> Tensor:
        return torch.ldexp(centroids + self.mean, torch.tensor(self.exponent, device=centroids.device))

    def assign(self, centroids: Tensor) -> Tensor:
        if self.points.dtype is torch.float64:
            return nearest(self.points, centroids)[1][:, 0]
        half = -0.5 * centroids.double().square().sum(1, keepdim=True)
        targets = torch.cat([centroids, half.to(centroids)], 1)
        ends = torch.tensor([0, len(targets)], device=targets.device)
        _, index = maxsim_varlen(
            self.rows, targets, self.blocks, ends,
            max_seqlen_q=min(_BLOCK, len(self.rows)), max_seqlen_d=len(targets), return_index=True,
        )  # fmt: skip
        return index.reshape(-1)[: len(self.rows)].long()

    def distances(self, centroids: Tensor, index: Tensor) -> Tensor:
        of_points = torch.empty(len(index), dtype=torch.float64, device=index.device)
        for first in range(0, len(index), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            difference = self.points[part] - centroids[index[part]]
            of_points[part] = difference.double().square().sum(1)
        return of_points

    def update(self, index: Tensor, k: int, centroids: Tensor, distances: Tensor) -> Tensor:
        grid = inverse_grid(index, k)
        sums = scatter_sum(index, self.points, k, grid)
        counts = grid[0].diff()
        means = sums / counts.clamp(min=1)[:, None].to(sums.dtype)
        empty = (counts == 0).nonzero()[:, 0]
        if len(empty):
            farthest = torch.sort(distances, descending=True, stable=True).indices[: len(empty)]
            means[empty] = self.points[farthest]
        if not self.spherical:
            return means
        unit = _unit(means)
        return torch.where((unit == 0).all(1, keepdim=True), centroids, unit)  # opposite points have no mean direction


def _extreme_exponent(points: Tensor) -> int:
    """That of the largest magnitude, where squares might leave the type's range; else 0."""
    largest = float(points.abs().max())
    exponent = int(np.frexp(largest)[1]) if np.isfinite(largest) else 0
    return exponent if abs(exponent) > 30 else 0


def _unit(x: Tensor) -> Tensor:
    exponent = torch.frexp(x.abs().amax(1, keepdim=True)).exponent
    near_one = torch.ldexp(x.double(), -exponent)  # squares stay in range
    norm = near_one.square().sum(1, keepdim=True).sqrt()
    return (near_one / torch.where(norm == 0, 1, norm)).to(x.dtype)
