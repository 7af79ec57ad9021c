#!/usr/bin/env python3
"""Times the operators that select by index: Chamfer steps, nearest neighbours, and sums by index at low, mean and extreme
contention, beside flash-maxsim and torch.

Chamfer steps are forward and backward, to the gradients of both sets. `error`: of the value (Chamfer), of the distances
(nearest) or of the sums, against float64, relative to what is added. `same_bits`: two runs gave the same.
"""

import importlib.util
from collections.abc import Callable
from functools import partial

import torch
from report import Report, attempted, parser
from timing import eager, extra_mib, replayed_or

import rowmax

Run = Callable[[], object]

POINTS = (  # name, points a side, coordinates
    ("chamfer-10k", 10_000, 3),
    ("chamfer-100", 100, 3),  # what a step costs the host
    ("chamfer-100k", 100_000, 3),
    ("surface-100k", 100_000, 3),
    ("chamfer-1m", 1_000_000, 3),
    ("features64-10k", 10_000, 64),
    ("features64-near", 10_000, 64),
    ("features512-4k", 4_000, 512),
)
NEIGHBOURS = (
    ("knn1-100k", 100_000, 3, 1),
    ("knn16-10k", 10_000, 3, 16),
    ("knn16-100k", 100_000, 3, 16),
    ("knn128-10k", 10_000, 3, 128),
)
SUMS = (  # contention, sources, destinations, channels
    ("low", 1 << 22, 1 << 22, 1),
    ("low", 1 << 20, 1 << 20, 64),
    ("mean", 1 << 22, 1 << 18, 1),
    ("mean", 1 << 22, 1 << 14, 1),
    ("mean", 1 << 20, 1 << 17, 64),
    ("mean", 1 << 20, 1 << 15, 64),
    ("mean", 1 << 18, 1 << 13, 256),
    ("extreme", 1 << 22, 4, 1),
    ("extreme", 1 << 20, 4, 64),
    ("extreme", 1 << 18, 1, 256),
)
KEOPS = importlib.util.find_spec("pykeops") is not None
KEOPS_UNROLLS = 64  # coordinates and neighbours beyond which it compiles for minutes
PAIRS_WRITTEN = 2e9  # beyond so many, implementations that write a matrix of distances are left out


def cloud(name: str, count: int, dim: int, seed: int) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    if name.startswith("features"):
        points = torch.randn(count, dim, device="cuda", generator=generator)
        return 1000 + 1e-3 * points if name.endswith("near") else points
    points = torch.rand(count, dim, device="cuda", generator=generator)
    if name.startswith("surface"):  # a noisy sphere: what scanners see
        points = torch.nn.functional.normalize(2 * points - 1, dim=-1)
        points += 0.01 * torch.randn(count, dim, device="cuda", generator=generator)
    return points


def torch_squared(P: torch.Tensor, R: torch.Tensor, direct: bool) -> torch.Tensor:
    """By |p|^2 + |r|^2 - 2 p.r, torch's default, or by differences."""
    if P.shape[0] * R.shape[0] > PAIRS_WRITTEN:
        raise MemoryError(f"torch.cdist: {P.shape[0]} x {R.shape[0]} distances do not fit")
    mode = "donot_use_mm_for_euclid_dist" if direct else "use_mm_for_euclid_dist_if_necessary"
    return torch.cdist(P, R, compute_mode=mode).square()


def torch_chamfer(P: torch.Tensor, R: torch.Tensor, direct: bool = False) -> torch.Tensor:
    squared = torch_squared(P, R, direct)
    return squared.amin(1).mean() + squared.amin(0).mean()


def fm_chamfer(P: torch.Tensor, R: torch.Tensor) -> torch.Tensor:
    import flash_maxsim as fm

    return fm.flash_chamfer_train(P, R)


def fm_invgrid_chamfer(P: torch.Tensor, R: torch.Tensor) -> torch.Tensor:
    import flash_maxsim as fm

    return fm.flash_chamfer_invgrid_train(P, R)


def keops_squared(P: torch.Tensor, R: torch.Tensor):  # noqa: ANN201
    from pykeops.torch import LazyTensor

    return ((LazyTensor(P.detach()[:, None].contiguous()) - LazyTensor(R.detach()[None].contiguous())) ** 2).sum(-1)


def keops_chamfer(P: torch.Tensor, R: torch.Tensor) -> torch.Tensor:
    """KeOps finds who is nearest, torch takes the distances of those and their gradients."""
    squared = keops_squared(P, R)
    to_r, to_p = squared.argmin(1).flatten(), squared.argmin(0).flatten()
    return (P - R[to_r]).square().sum(-1).mean() + (R - P[to_p]).square().sum(-1).mean()


CHAMFERS = {
    "rowmax": rowmax.chamfer,
    "rowmax, every pair": partial(rowmax.chamfer, search="brute"),
    "fm": fm_chamfer,
    "fm, inverse grid": fm_invgrid_chamfer,
    **({"KeOps": keops_chamfer} if KEOPS else {}),
    "torch": torch_chamfer,
    "torch, direct": partial(torch_chamfer, direct=True),
}


def exact_chamfer(P: torch.Tensor, R: torch.Tensor) -> float:
    to_r, to_p = rowmax.chamfer(P.double(), R.double(), reduction="none")
    return float(to_r.mean() + to_p.mean())


def chamfer_line(impl: str, name: str, count: int, dim: int) -> dict:
    P, R = (cloud(name, count, dim, seed).requires_grad_() for seed in (1, 2))
    chamfer = CHAMFERS[impl]

    def step() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(chamfer(P, R), (P, R))

    first, second = step(), step()
    exact = exact_chamfer(P.detach(), R.detach())
    line = {
        "error": abs(float(chamfer(P, R).detach().double()) - exact) / exact,
        "same_bits": all(torch.equal(a, b) for a, b in zip(first, second, strict=True)),
        "extra_mib": extra_mib(step),
    }
    del first, second
    # Steps of small sets are bound by the host, whose times scatter; torch's need a quarter of a second.
    repeats = 3 if impl == "torch, direct" else 5 if count >= 10**6 or impl == "torch" else 15 if count > 10_000 else 51
    times = eager(step, repeats, 1 if repeats < 10 else 3)
    with torch.no_grad():
        forward = eager(lambda: chamfer(P, R), repeats, 1)
    return line | times | {"forward_ms": forward["median_ms"]}


def torch_nearest(P: torch.Tensor, R: torch.Tensor, k: int, direct: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return torch_squared(P, R, direct).topk(k, largest=False)


def keops_nearest(P: torch.Tensor, R: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    index = keops_squared(P, R).argKmin(k, dim=1)
    return (P[:, None] - R[index]).square().sum(-1), index


NEAREST = {
    "rowmax": rowmax.nearest,
    **({"KeOps": keops_nearest} if KEOPS else {}),
    "torch": torch_nearest,
    "torch, direct": partial(torch_nearest, direct=True),
}


def nearest_line(impl: str, name: str, count: int, dim: int, k: int) -> dict:
    P, R = (cloud(name, count, dim, seed) for seed in (1, 2))
    nearest = NEAREST[impl]
    distance = nearest(P, R, k)[0]
    exact = rowmax.nearest(P.double(), R.double(), k)[0]
    error = ((distance.double() - exact).abs() / exact.clamp(min=1e-12)).max().item()
    return {"error": error, "extra_mib": extra_mib(lambda: nearest(P, R, k))} | eager(lambda: nearest(P, R, k), 9, 2)


def sums_of(index: torch.Tensor, values: torch.Tensor, n: int) -> dict[str, Run]:
    grid = rowmax.inverse_grid(index, n)
    wide = index[:, None].expand_as(values)
    zeros = torch.zeros(n, values.shape[1], device="cuda")
    return {
        "rowmax": lambda: rowmax.scatter_sum(index, values, n),
        "rowmax, any order": lambda: rowmax.scatter_sum(index, values, n, deterministic=False),
        "rowmax, grid again": lambda: rowmax.scatter_sum(index, values, n, grid),
        "rowmax, inverse grid": lambda: rowmax.inverse_grid(index, n),
        "torch index_add": lambda: zeros.index_add(0, index, values),
        "torch scatter_add": lambda: zeros.scatter_add(0, wide, values),
        "torch scatter_reduce": lambda: zeros.scatter_reduce(0, wide, values, "sum"),
        "torch index_put": lambda: zeros.index_put((index,), values, accumulate=True),
    }


def sum_line(impl: str, run: Run, values: torch.Tensor, index: torch.Tensor, n: int) -> dict:
    line = {"extra_mib": extra_mib(run)}
    if impl != "rowmax, inverse grid":
        exact = torch.zeros(n, values.shape[1], device="cuda", dtype=torch.float64).index_add(0, index, values.double())
        scale = torch.zeros_like(exact).index_add(0, index, values.double().abs()).clamp(min=1e-30)
        sums = run()
        line["error"] = float(((sums.double() - exact).abs() / scale).max())
        line["same_bits"] = all(torch.equal(run(), sums) for _ in range(3))
    found = eager(run, 9, 2)
    if found["median_ms"] > 10:  # index_put where all meet
        return line | {"timing": "eager"} | found
    return line | found | replayed_or(found, run, 5, 9)


def show(line: dict) -> None:
    time = f"{line['median_ms']:9.4f} ms" if "median_ms" in line else line.get("failed", "")[:60]
    forward = f"  forward {line['forward_ms']:9.4f}" if "forward_ms" in line else ""
    rest = "  ".join(f"{key} {line[key]}" for key in ("extra_mib", "error", "same_bits") if key in line)
    print(f"{line['case']:18} {line['impl']:22} {time}{forward}  {rest}", flush=True)


def main(options: list[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--only", nargs="+", choices=("points", "neighbours", "sums"), default=("points", "neighbours", "sums"))
    args = arguments.parse_args(options)
    report = Report(args)

    def add(impl: str, case: str, measure: Callable[[], dict], **about: object) -> None:
        show(report.add(case=case, impl=impl, **about, **attempted(impl, measure)))

    if "points" in args.only:
        chamfer_line("rowmax", "warm", 10_000, 3)  # the first line has to wait for nothing either
        for name, count, dim in POINTS:
            for impl in CHAMFERS:
                if impl == "rowmax, every pair" and (dim > 3 or count > 100_000):
                    continue
                if impl.startswith("fm") and count > 100_000 or impl == "KeOps" and dim > KEOPS_UNROLLS:
                    continue
                add(impl, name, partial(chamfer_line, impl, name, count, dim), shape=f"{count} x {dim}")
    if "neighbours" in args.only:
        for name, count, dim, k in NEIGHBOURS:
            for impl in NEAREST:
                if impl == "KeOps" and k > KEOPS_UNROLLS:
                    continue
                add(impl, name, partial(nearest_line, impl, name, count, dim, k), shape=f"{count} x {dim}, k = {k}")
    if "sums" in args.only:
        for contention, sources, n, channels in SUMS:
            generator = torch.Generator("cuda").manual_seed(0)
            index = torch.randint(n, (sources,), device="cuda", generator=generator)
            values = torch.randn(sources, channels, device="cuda", generator=generator)
            for impl, run in sums_of(index, values, n).items():
                measure = partial(sum_line, impl, run, values, index, n)
                add(impl, f"{contention}-{channels}", measure, shape=f"{sources} x {channels} into {n}")


if __name__ == "__main__":
    main()
