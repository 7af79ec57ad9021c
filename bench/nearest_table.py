"""Nearest points and Chamfer steps on the CPU beside scipy's cKDTree, scikit-learn and torch.cdist: one result file.

    python bench/nearest_table.py [-o FILE] [--quick] [--repetitions N]

Needs rowmax, scipy, scikit-learn and torch; what is missing is left out. Implementations take turns within a
repetition; slow ones are repeated twice. Times are from arrays to distances and indices, so that building a tree counts: a
cloud is searched once. Every result is compared with rowmax's; `error` is the largest relative difference of a distance.
"""

import argparse
import datetime
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import machine
import results
import rowmax

CASES = [  # name, points a side, coordinates, k
    ("points-10k", 10_000, 3, 1),
    ("points-100k", 100_000, 3, 1),
    ("points-1m", 1_000_000, 3, 1),
    ("surface-100k", 100_000, 3, 1),
    ("knn16-100k", 100_000, 3, 16),
    ("points8-20k", 20_000, 8, 1),
    ("features64-10k", 10_000, 64, 1),
    ("features512-4k", 4_000, 512, 1),
]
STEPS = [("chamfer-step-10k", 10_000, 3), ("chamfer-step-100k", 100_000, 3), ("chamfer-step-features512-4k", 4_000, 512)]
LONG_MS = 5000  # what an implementation may take of a case, unless it needs more for two repetitions
PRODUCT = "use_mm_for_euclid_dist_if_necessary"  # torch's default
SLOW = 1e10  # pairs times coordinates beyond which rivals that look at every pair are not run


def cloud(name: str, count: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    if name.startswith("features"):
        return rng.standard_normal((count, dim), dtype=np.float32)
    points = rng.random((count, dim), dtype=np.float32)
    if name.startswith("surface"):  # a noisy sphere: what scanners see
        points = 2 * points - 1
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        points += 0.01 * rng.standard_normal(points.shape, dtype=np.float32)
    return points


def scipy_tree(p: np.ndarray, r: np.ndarray, k: int, threads: int) -> np.ndarray:
    from scipy.spatial import cKDTree

    distance, _ = cKDTree(r).query(p, k, workers=threads)
    return distance.reshape(len(p), k) ** 2


def sklearn_neighbours(p: np.ndarray, r: np.ndarray, k: int, threads: int) -> np.ndarray:
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=k, n_jobs=threads).fit(r).kneighbors(p)[0] ** 2


def torch_cdist(p: np.ndarray, r: np.ndarray, k: int, threads: int, mode: str = PRODUCT) -> np.ndarray:
    """In blocks, or 100 000 points a side would take 40 GB. Its matrix product subtracts squares, which loses digits."""
    import torch

    torch.set_num_threads(threads)
    rows, targets = torch.from_numpy(p), torch.from_numpy(r)
    parts = []
    for block in rows.split(max(1, 2**26 // len(r))):
        d = torch.cdist(block, targets, compute_mode=mode)
        parts.append(d.amin(1, keepdim=True) if k == 1 else d.topk(k, largest=False).values)
    return torch.cat(parts).square().numpy()


def torch_cdist_direct(p: np.ndarray, r: np.ndarray, k: int, threads: int) -> np.ndarray:
    return torch_cdist(p, r, k, threads, "donot_use_mm_for_euclid_dist")


def rowmax_nearest(p: np.ndarray, r: np.ndarray, k: int, threads: int) -> np.ndarray:
    return rowmax.nearest(p, r, k, threads=threads)[0]


def rowmax_brute(p: np.ndarray, r: np.ndarray, k: int, threads: int) -> np.ndarray:
    return rowmax.nearest(p, r, k, threads=threads, search="brute")[0]


IMPLEMENTATIONS: dict[str, Callable[..., np.ndarray]] = {
    "rowmax": rowmax_nearest,
    "rowmax, every pair": rowmax_brute,
    "scipy cKDTree": scipy_tree,
    "scikit-learn": sklearn_neighbours,
    "torch.cdist": torch_cdist,
    "torch.cdist, direct": torch_cdist_direct,
}


def runs(name: str, count: int, dim: int) -> bool:
    every_pair = name.endswith("every pair") or name.startswith("torch") or (name == "scikit-learn" and dim > 15)
    return not every_pair or float(count) ** 2 * dim <= (SLOW if name != "rowmax, every pair" else 10 * SLOW)


def timed(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    result = call()
    return 1e3 * (time.perf_counter() - start), result


def available() -> dict[str, Callable[..., np.ndarray]]:
    found = {}
    tiny = np.zeros((2, 3), np.float32)
    for name, function in IMPLEMENTATIONS.items():
        try:
            function(tiny, tiny, 1, 1)
        except ImportError as error:
            print(f"left out: {name} ({error})", file=sys.stderr)
            continue
        found[name] = function
    return found


def measure(case: tuple[str, int, int, int], threads: int, functions: dict, repetitions: int) -> list[dict]:
    name, count, dim, k = case
    rng = np.random.default_rng(1)
    p, r = cloud(name, count, dim, rng), cloud(name, count, dim, rng)
    chosen = {impl: function for impl, function in functions.items() if runs(impl, count, dim)}
    times: dict[str, list[float]] = {impl: [] for impl in chosen}
    found = {}
    for _ in range(repetitions):
        for impl, function in chosen.items():
            if len(times[impl]) < 2 or sum(times[impl]) < LONG_MS:
                ms, found[impl] = timed(lambda f=function: f(p, r, k, threads))
                times[impl].append(ms)
    print(f"{name}, {threads} threads", file=sys.stderr)
    wanted = found["rowmax"].astype(np.float64)
    return [
        {"case": name, "impl": impl, "dtype": "float32", "shape": f"{count} x {count} points, {dim} coordinates, k = {k}",
         "threads": threads, **{f"{key}_ms": value for key, value in results.spread(ms).items()},
         "error": float(np.max(np.abs(found[impl] - wanted) / np.maximum(wanted, 1e-30)))}
        for impl, ms in times.items()
    ]  # fmt: skip


def steps(case: tuple[str, int, int], threads: int, repetitions: int) -> list[dict]:
    """A Chamfer distance and its gradients for both clouds."""
    try:
        import torch
    except ImportError:
        return []
    torch.set_num_threads(threads)
    name, count, dim = case
    generator = torch.Generator().manual_seed(1)
    make = torch.rand if dim == 3 else torch.randn
    p, r = (make(count, dim, generator=generator).requires_grad_() for _ in range(2))

    def naive() -> torch.Tensor:
        d = torch.cdist(p, r).square()
        return d.min(1).values.mean() + d.min(0).values.mean()

    losses = {"rowmax": lambda: rowmax.chamfer(p, r, threads=threads)}
    if count <= 10_000:
        losses["torch.cdist"] = naive
    times: dict[str, list[float]] = {impl: [] for impl in losses}
    for _ in range(repetitions):
        for impl, loss in losses.items():
            p.grad = r.grad = None
            start = time.perf_counter()
            loss().backward()
            times[impl].append(1e3 * (time.perf_counter() - start))
    return [
        {"case": name, "impl": impl, "dtype": "float32", "threads": threads,
         "shape": f"{count} x {count} points, {dim} coordinates, forward and backward",
         **{f"{key}_ms": value for key, value in results.spread(ms).items()}}
        for impl, ms in times.items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="default: bench/results/<device>-<date>-nearest.jsonl")
    parser.add_argument("--quick", action="store_true", help="small clouds only")
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()
    today = datetime.date.today().isoformat()
    about = {"device": machine.device(), "commit": machine.commit(), "date": today}
    functions = available()
    lines = [{"case": "ceilings", **about, "load_before": round(os.getloadavg()[0], 1)}]
    for threads in range(1, min(2, os.cpu_count() or 1) + 1):
        for case in CASES:
            if not args.quick or case[1] <= 20_000:
                lines += measure(case, threads, functions, args.repetitions if case[1] < 10**6 else 3)
        for step in STEPS:
            if not args.quick or step[1] <= 20_000:
                lines += steps(step, threads, args.repetitions)
    path = args.output or results.FOLDER / f"{machine.slug(machine.device())}-{today}-nearest.jsonl"
    results.write(path, [line | about for line in lines])
    print(path)


if __name__ == "__main__":
    main()
