"""The C interface of the operators that select on a GPU: the bits of the CPU, and scratch memory as it was asked for.

ROWMAX_LIBRARY names librowmax.so.
"""

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
if not os.environ.get("ROWMAX_LIBRARY"):
    pytest.skip("ROWMAX_LIBRARY is not set", allow_module_level=True)

from c_interface import Library  # noqa: E402

DEVICE = "cuda"


@pytest.fixture(scope="module")
def library():
    return Library()


def bits(tensor):
    """Bits as integers, any NaN as one."""
    tensor = tensor.cpu()
    if not tensor.is_floating_point():
        return tensor
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return torch.where(tensor.isnan(), torch.full_like(tensor, float("nan")), tensor).view(integer)


def same(got, want, what):
    for name, g, w in zip(range(len(got)), got, want, strict=True):
        g, w = bits(g), bits(w)
        assert g.shape == w.shape and g.dtype == w.dtype, (what, name)
        wrong = (g != w).nonzero()
        assert len(wrong) == 0, (what, name, len(wrong), wrong[:3].tolist(), got[name].flatten()[:4], want[name].flatten()[:4])


def on_gpu(values):
    return {name: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for name, v in values.items()}


def cloud(kind, shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if kind == "ties":
        return torch.randint(0, 3, shape, generator=generator).to(dtype)
    points = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "far":  # near each other, far from the origin
        points = 1000 + 1e-3 * points
    points = points.to(dtype)
    if kind == "odd" and points.numel() > 40:
        points.view(-1)[::37] = float("nan")
        points.view(-1)[5::41] = float("inf")
        points.view(-1)[7::43] = -float("inf")
    return points


def sides(layout, batch, n, m, seed):
    """Shapes of P and R, and what says which points belong where."""
    generator = torch.Generator().manual_seed(seed)
    if layout == "single":
        return (n,), (m,), {}
    if layout == "dense":
        return (batch, n), (batch, m), {}
    if layout == "masked":
        keep = torch.rand(batch, n, generator=generator) < 0.7
        keep[0] = False
        return (batch, n), (batch, m), {"p_mask": keep, "r_mask": torch.rand(1, m, generator=generator) < 0.6}
    cut = torch.sort(torch.randint(0, n * batch, (batch - 1,), generator=generator)).values
    cu = torch.cat([torch.tensor([0]), cut, torch.tensor([n * batch])])
    return (n * batch,), (batch, m), {"cu_seqlens_p": cu}


LAYOUTS = ("single", "dense", "masked", "packed")


@pytest.mark.parametrize("metric", ["l2_sq", "l1"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 100, 256, 257, 512])
def test_chamfer(library, dim, layout, metric):
    kinds = (("normal", torch.float32), ("ties", torch.float32), ("odd", torch.float32), ("far", torch.float32),
             ("normal", torch.float64), ("normal", torch.bfloat16), ("ties", torch.float16))  # fmt: skip
    for i, (kind, dtype) in enumerate(kinds):
        for n, m in ((130, 70), (1, 300), (515, 129)) if i == 0 else ((200, 90),):
            shape_p, shape_r, extras = sides(layout, 3, n, m, dim + i)
            P, R = cloud(kind, (*shape_p, dim), dtype, 1), cloud(kind, (*shape_r, dim), dtype, 2)
            for one_sided in (False, True):
                keywords = dict(metric=metric, reduction="mean" if i % 2 else "sum", one_sided=one_sided, **extras)
                want = library.chamfer(P, R, **keywords)
                got = library.chamfer(P.to(DEVICE), R.to(DEVICE), **on_gpu(keywords))
                what = f"{dim} {layout} {metric} {kind} {dtype} {n} {m} {one_sided}"
                same(list(got.values()), list(want.values()), what)
                del keywords["one_sided"]
                grads = {"value": torch.randn(want["value"].shape, dtype=want["value"].dtype)}
                if i % 2:
                    grads["distance_p"] = torch.randn_like(want["distance_p"])
                wanted = library.chamfer_backward(P, R, want, grads, **keywords)
                found = library.chamfer_backward(P.to(DEVICE), R.to(DEVICE), got, on_gpu(grads), **on_gpu(keywords))
                same(found, wanted, what + " gradients")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [2, 3, 6, 300])
def test_nearest(library, dim, layout):
    for k in (1, 5, 70):
        for dtype in (torch.float32, torch.float64, torch.float16):
            shape_p, shape_r, extras = sides(layout, 3, 150, 60, dim + k)
            P, R = cloud("normal", (*shape_p, dim), dtype, 1), cloud("ties" if k == 5 else "normal", (*shape_r, dim), dtype, 2)
            want = library.nearest(P, R, k, **extras)
            got = library.nearest(P.to(DEVICE), R.to(DEVICE), k, **on_gpu(extras))
            same(got, want, f"{dim} {layout} {k} {dtype}")
            grad = torch.randn_like(want[0])
            wanted = library.nearest_backward(P, R, k, want[1], grad, **extras)
            found = library.nearest_backward(P.to(DEVICE), R.to(DEVICE), k, got[1], grad.to(DEVICE), **on_gpu(extras))
            same(found, wanted, f"{dim} {layout} {k} {dtype} gradients")


@pytest.mark.parametrize("search", ["brute", "tree"])
@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_many_points(library, dim, search):
    for kind in ("normal", "ties", "odd"):
        P, R = cloud(kind, (7000, dim), torch.float32, 1), cloud(kind, (9001, dim), torch.float32, 2)
        want = library.chamfer(P, R, search=search)
        got = library.chamfer(P.to(DEVICE), R.to(DEVICE), search=search)
        same(list(got.values()), list(want.values()), f"{dim} {search} {kind}")
        grads = {"value": torch.tensor(0.5)}
        wanted = library.chamfer_backward(P, R, want, grads)
        same(library.chamfer_backward(P.to(DEVICE), R.to(DEVICE), got, on_gpu(grads)), wanted, f"{dim} {search} {kind}")


def test_many_points_of_many_coordinates(library):
    P, R = cloud("normal", (5000, 24), torch.float32, 1), cloud("normal", (6001, 24), torch.float32, 2)
    same(list(library.chamfer(P.to(DEVICE), R.to(DEVICE)).values()), list(library.chamfer(P, R).values()), "24")


def test_no_points(library):
    for n, m, dim in ((0, 5, 3), (5, 0, 3), (0, 0, 3), (0, 5, 9), (5, 0, 9)):
        P, R = torch.ones(2, n, dim), torch.ones(2, m, dim)
        want = library.chamfer(P, R)
        same(list(library.chamfer(P.to(DEVICE), R.to(DEVICE)).values()), list(want.values()), (n, m, dim))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_sums_in_any_order_take_atomics_where_they_are_faster(library, dtype):
    """An ordered sum needs room for its sorted sources and atomic additions need none, so the memory tells the path."""
    sources = 4000
    index, values = torch.arange(sources, device=DEVICE), torch.ones(sources, device=DEVICE, dtype=dtype)
    for n, atomic in ((sources, True), (sources // 100, True), (2, False)):
        ordered = library.scatter_workspace(index % n, values, n)
        free = library.scatter_workspace(index % n, values, n, any_order=True)
        assert free < ordered if atomic else free == ordered, (n, free, ordered)
        assert library.scatter_sum(index % n, values, n, any_order=True).tolist() == [sources / n] * n


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_by_an_index(library, batch):
    for sources, n, channels in ((1000, 300, ()), (2000, 3, ()), (500, 400, (3,)), (700, 90, (8,)), (600, 600, (64,)), (0, 5, ())):
        generator = torch.Generator().manual_seed(n)
        index = torch.randint(-1, n, (*batch, sources), generator=generator)
        same(library.invert(index.to(DEVICE), n), library.invert(index, n), (batch, n))
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            if len(batch) == 2 and len(channels) == 1 and index.ndim + 1 > 4:
                continue
            values = torch.randn(*batch, sources, *channels, generator=generator, dtype=torch.float64).to(dtype)
            want = library.scatter_sum(index, values, n)
            got = library.scatter_sum(index.to(DEVICE), values.to(DEVICE), n)
            same([got], [want], (batch, sources, n, channels, dtype))
            grid = library.invert(index.to(DEVICE), n)
            same([library.scatter_sum(index.to(DEVICE), values.to(DEVICE), n, grid=grid)], [want], "grid")
            # In any order: exact for small integers, and near for others.
            small = (values * 4).round().clamp(-8, 8)
            exact = library.scatter_sum(index, small, n)
            got = library.scatter_sum(index.to(DEVICE), small.to(DEVICE), n, any_order=True)
            assert torch.equal(got.cpu(), exact), (batch, sources, n, channels, dtype)
            near = library.scatter_sum(index.to(DEVICE), values.to(DEVICE), n, any_order=True).cpu()
            assert torch.allclose(near.double(), want.double(), rtol=1e-2 if dtype.itemsize == 2 else 1e-4, atol=1e-2)
