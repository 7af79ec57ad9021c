"""k-means: assignment by an online maximum, new centroids by sums through the inverse grid."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rowmax._frameworks import common_framework, framework_of
from rowmax._grid import inverse_grid, scatter_sum
from rowmax._options import dtype_name, integer, one_of, read_as_bfloat16
from rowmax._scoring import maxsim_varlen

Floats = NDArray[Any]
Metric = Literal["l2_sq", "dot"]
_BLOCK = 256  # points that are assigned as one query
_SAMPLE = 64  # points a cluster that seeding looks at
_AT_ONCE = 1 << 16  # points whose distances are computed at once


class Clusters(NamedTuple):
    """What `kmeans` found, of the kind of its input."""

    centroids: Any
    """[k, d] float32 (float64 for float64)"""
    index: Any
    """int64 [N]: the nearest centroid of each point, the lowest among equals"""
    inertia: float
    """The sum over points of the squared distance to their centroid; "dot": of 1 - their cosine"""
    iterations: int
    converged: bool
    """Whether the last iteration moved no point, or improved the inertia by less than the tolerance"""


def kmeans(
    X: Any, k: int, *, metric: Metric = "l2_sq", init: Any = "k-means++", iterations: int = 25, tolerance: float = 1e-4,
    seed: int = 0, validate: bool | None = None, dtype: Any = None, threads: int | None = None,
) -> Clusters:  # fmt: skip
    """Cluster the points `X [N, d]` around k centroids, with the same bits on every run and for any number of threads.

    Lloyd's iterations. A point goes to the centroid of the largest <x, c> - |c|^2 / 2, found by `maxsim` of blocks of
    points with all centroids, without a matrix of distances; new centroids are means, added up by `scatter_sum`. A cluster
    that lost all its points is moved to the point that lies farthest from its centroid (several: to the next farthest; ties:
    the first). X is float16, bfloat16, float32 or float64; the first three are clustered in float32, around their mean, so
    that points far from the origin keep their distances.

    metric:     "l2_sq", or "dot": spherical k-means, of points and centroids scaled to length 1 (what PLAID's centroids are).
    init:       "k-means++" (Arthur and Vassilvitskii, 2007), on a sample of 64 points a cluster; "random": k different points;
                or centroids `[k, d]` to start from.
    iterations: at most so many.
    tolerance:  stop when the inertia improves by less than this part of itself.
    seed:       of the random choices: equal seeds give equal clusters.
    validate:   refuse points that are not finite (None: True).
    dtype:      "bfloat16" for uint16 that holds it.
    threads:    as in `maxsim`.
    """
    framework = framework_of(X, "X")
    one_of("metric", metric, ("l2_sq", "dot"))
    bits = read_as_bfloat16(X, dtype)
    on_device = framework.streams(X)
    if on_device:
        from rowmax import _torch_kmeans

        points = _torch_kmeans.points_of(X, bits, validate)
    else:
        points = _as_points(framework.numbers(X), bits, validate)
    k = integer("k", k)
    if not 1 <= k <= len(points):
        raise ValueError(f"k must be 1 to N = {len(points)}, got {k}")
    if integer("iterations", iterations) < 1:
        raise ValueError(f"iterations must be at least 1, got {iterations}")
    spherical = metric == "dot"
    lloyd = _torch_kmeans.DeviceLloyd(points, spherical) if on_device else Lloyd(points, spherical, threads)
    start = lloyd.given(init, X, k) if not isinstance(init, str) else lloyd.drawn(init, k, np.random.default_rng(seed))
    found = lloyd.run(start, int(iterations), float(tolerance))
    return found if on_device else found._replace(centroids=framework.made(found.centroids), index=framework.made(found.index))


def _as_points(X: Floats, bits: bool, validate: bool | None) -> Floats:
    if X.ndim != 2 or not 1 <= X.shape[1] < 4096:
        raise ValueError(f"X must be [N, d] with d from 1 to 4095, got shape {list(X.shape)}")
    if bits:
        X = (X.astype(np.uint32) << 16).view(np.float32)
    name = dtype_name(X.dtype)
    if name not in ("float16", "bfloat16", "float32", "float64"):
        raise TypeError(f"X must be float16, bfloat16, float32 or float64, got {name}")
    points = np.ascontiguousarray(X, np.float64 if name == "float64" else np.float32)
    if validate is None or validate:
        finite = np.isfinite(points).all(1)
        if not finite.all():
            raise ValueError(f"X[{int(np.argmin(finite))}] holds a number that is not finite")
    return points


class Lloyd:
    """The steps on the CPU, in numpy; those of a GPU are in _torch_kmeans.py."""

    def __init__(self, points: Floats, spherical: bool, threads: int | None):
        self.spherical, self.threads = spherical, threads
        n, d = points.shape
        self.exponent = 0 if spherical else _extreme_exponent(points)
        if self.exponent:
            points = np.ldexp(points, -self.exponent)
        # The last dimension takes - |c|^2 / 2 to the similarity.
        self.rows = np.ones((n, d + 1), points.dtype)
        self.mean = np.zeros(d, points.dtype)
        if spherical:
            self.rows[:, :-1] = _unit(points)
        else:
            self.mean = points.mean(0, dtype=np.float64).astype(points.dtype)
            np.subtract(points, self.mean, out=self.rows[:, :-1])
        self.points = self.rows[:, :-1]
        self.blocks = np.append(np.arange(0, n, _BLOCK), n)

    def given(self, init: Any, X: Any, k: int) -> Floats:
        framework = common_framework(init, X, ("init", "X"))
        centroids = np.asarray(framework.numbers(init))
        if centroids.shape != (k, self.points.shape[1]):
            raise ValueError(f"init must be [{k}, {self.points.shape[1]}], got shape {list(centroids.shape)}")
        with np.errstate(over="ignore"):
            start = np.ldexp(centroids.astype(np.float64), -self.exponent).astype(self.points.dtype) - self.mean
        finite = np.isfinite(start).all(1)
        if not finite.all():
            raise ValueError(f"init[{int(np.argmin(finite))}] holds a number that is not finite")
        return _unit(start) if self.spherical else start

    def drawn(self, init: str, k: int, rng: np.random.Generator) -> Floats:
        one_of("init", init, ("k-means++", "random"))
        return self.seeds(init, self.points[self.sample(init, k, len(self.points), rng)], k, rng)

    def sample(self, init: str, k: int, n: int, rng: np.random.Generator) -> Any:
        """The points that centroids are drawn from: for "random" these themselves."""
        return np.sort(rng.permutation(n)[: k if init == "random" else min(n, _SAMPLE * k)])

    def seeds(self, init: str, sample: Floats, k: int, rng: np.random.Generator) -> Floats:
        return sample.copy() if init == "random" else _plus_plus(sample, k, rng)

    def restored(self, centroids: Any) -> Any:
        """As the caller's points are."""
        return np.ldexp(centroids + self.mean, self.exponent)

    def run(self, centroids: Any, iterations: int, tolerance: float) -> Clusters:
        index = self.assign(centroids)
        distances = self.distances(centroids, index)
        inertia, moved, better, step = float(distances.sum()), True, True, 0
        while step < iterations and moved and better:
            step += 1
            centroids = self.update(index, len(centroids), centroids, distances)
            previous, index = index, self.assign(centroids)
            distances = self.distances(centroids, index)
            before, inertia = inertia, float(distances.sum())
            moved = not bool((previous == index).all())
            better = before - inertia > tolerance * before
        converged = not (moved and better)
        if self.spherical:
            inertia /= 2  # |x - c|^2 = 2 (1 - cosine)
        with np.errstate(over="ignore"):  # of squares that float64 does not hold
            inertia = float(np.ldexp(inertia, 2 * self.exponent))
        return Clusters(self.restored(centroids), index, inertia, step, converged)

    def assign(self, centroids: Floats) -> Floats:
        half = -0.5 * (centroids.astype(np.float64) ** 2).sum(1, keepdims=True)
        targets = np.concatenate([centroids, half.astype(centroids.dtype)], 1)
        ends = np.array([0, len(targets)])
        _, index = maxsim_varlen(self.rows, targets, self.blocks, ends, return_index=True, threads=self.threads)
        nearest: Floats = index.reshape(-1)[: len(self.rows)].astype(np.int64)
        return nearest

    def distances(self, centroids: Floats, index: Floats) -> Floats:
        """Squared, by differences, in float64."""
        of_points = np.empty(len(index))
        for first in range(0, len(index), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            difference = self.points[part] - centroids[index[part]]
            of_points[part] = np.einsum("nd,nd->n", difference, difference, dtype=np.float64)
        return of_points

    def update(self, index: Floats, k: int, centroids: Floats, distances: Floats) -> Floats:
        """Means of the points of each cluster; an empty one goes to the farthest point that no other has taken."""
        grid = inverse_grid(index, k, validate=False)
        sums = scatter_sum(index, self.points, k, grid, validate=False, threads=self.threads)
        counts = np.diff(grid[0])
        means: Floats = sums / np.maximum(counts, 1)[:, None].astype(sums.dtype)
        empty = np.flatnonzero(counts == 0)
        farthest = np.argsort(-distances, kind="stable")[: len(empty)]
        means[empty] = self.points[farthest]
        if not self.spherical:
            return means
        unit = _unit(means)
        return np.where((unit == 0).all(1, keepdims=True), centroids, unit)  # opposite points have no mean direction


def _extreme_exponent(points: Floats) -> int:
    """That of the largest magnitude, where squares might leave the type's range; else 0."""
    largest = max(float(points.max()), -float(points.min()))
    exponent = int(np.frexp(largest)[1]) if np.isfinite(largest) else 0
    return exponent if abs(exponent) > 30 else 0


def _unit(x: Floats) -> Floats:
    near_one: Floats = np.ldexp(x.astype(np.float64), -np.frexp(np.abs(x).max(1, keepdims=True))[1])  # squares stay in range
    norm = np.sqrt((near_one**2).sum(1, keepdims=True))
    unit: Floats = (near_one / np.where(norm == 0, 1, norm)).astype(x.dtype)
    return unit


def _plus_plus(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Each next centroid is a point, drawn with a chance that grows with the squared distance to those before."""
    chosen = [int(rng.integers(len(points)))]
    nearest = np.full(len(points), np.inf)
    for _ in range(k - 1):
        difference = points - points[chosen[-1]]
        np.minimum(nearest, np.einsum("nd,nd->n", difference, difference, dtype=np.float64), out=nearest)
        total = nearest.cumsum()
        if total[-1] > 0:
            found = int(np.searchsorted(total, rng.random() * total[-1], side="right"))
            chosen.append(min(found, len(points) - 1))
        else:  # fewer different points than centroids
            chosen.append(int(rng.integers(len(points))))
    drawn: Floats = points[chosen]
    return drawn
