"""Points, the inverse grid and sums by index on a GPU: the bits of the CPU, on ordinary and hostile inputs."""

import itertools

import pytest

import rowmax
from rowmax import routing

torch = pytest.importorskip("torch", reason="torch is not installed")

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DEVICE = "cuda"


def same(got, want, what=""):
    """Equal bits, but for those of NaN."""
    got = got.cpu()
    assert got.shape == want.shape and got.dtype == want.dtype, (what, got.shape, want.shape, got.dtype, want.dtype)
    if torch.equal(torch.nan_to_num(got, nan=7e4), torch.nan_to_num(want, nan=7e4)) and torch.equal(got.isnan(), want.isnan()):
        return
    wrong = ((got != want) & ~(got.isnan() & want.isnan())).nonzero()
    at = tuple(wrong[0].tolist())
    raise AssertionError(f"{what}: {len(wrong)} of {want.numel()} differ, first at {at}: {got[at]!r} instead of {want[at]!r}")


def on_gpu(values):
    return {name: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for name, v in values.items()}


# Sums by index.


def index_of(kind, shape, n, seed):
    generator = torch.Generator().manual_seed(seed)
    if kind == "one":
        return torch.zeros(shape, dtype=torch.int64)
    if kind == "dropped":
        return torch.full(shape, -1)
    if kind == "skewed":
        return (torch.rand(shape, generator=generator) ** 6 * n).long().clamp(max=max(n - 1, 0))
    return torch.randint(-1, max(n, 1), shape, generator=generator).clamp(max=n - 1)


@pytest.mark.parametrize("kind", ["uniform", "skewed", "one", "dropped"])
def test_inverse_grids_are_those_of_the_cpu(kind):
    for shape, n in (((1000,), 70), ((3, 500), 1), ((2, 2, 257), 3000), ((0,), 5), ((4, 0), 3), ((5,), 0), ((40000,), 50000)):
        if kind in ("one", "skewed") and n == 0:
            continue
        for dtype in (torch.int32, torch.int64):
            index = index_of(kind, shape, n, len(shape) + n).to(dtype)
            want = rowmax.inverse_grid(index, n)
            got = rowmax.inverse_grid(index.to(DEVICE), n)
            for name, g, w in zip(("row_ptr", "source"), got, want, strict=True):
                same(g, w, f"{name} of {kind} {shape} {n}")


def test_index_views_need_not_be_contiguous():
    index = index_of("uniform", (40, 60), 9, 1)
    same(rowmax.inverse_grid(index.to(DEVICE).T, 9)[1], rowmax.inverse_grid(index.T, 9)[1])
    same(rowmax.inverse_grid(index.to(DEVICE)[:, ::3], 9)[1], rowmax.inverse_grid(index[:, ::3], 9)[1])


@pytest.mark.parametrize("kind", ["uniform", "skewed", "one"])
def test_sums_have_the_bits_of_the_cpu(kind):
    for (shape, n), dtype, channels in itertools.product(
        (((3000,), 40), ((2, 700), 5), ((70000,), 3), ((300,), 1000)), FLOATS, ((), (1,), (3,), (8,), (64,), (130,))
    ):
        if shape[0] > 10000 and channels not in ((), (3,), (8,)):
            continue
        generator = torch.Generator().manual_seed(n)
        index = index_of(kind, shape, n, n)
        values = torch.randn(*shape, *channels, generator=generator, dtype=torch.float64).to(dtype)
        want = rowmax.scatter_sum(index, values, n)
        what = f"{kind} {shape} {n} {dtype} {channels}"
        same(rowmax.scatter_sum(index.to(DEVICE), values.to(DEVICE), n), want, what)
        grid = rowmax.inverse_grid(index.to(DEVICE), n)
        same(rowmax.scatter_sum(index.to(DEVICE), values.to(DEVICE), n, grid), want, what + " with a grid")


def test_sums_of_views_and_unaligned_rows():
    index, values = index_of("uniform", (500,), 30, 2), torch.randn(500, 41)
    for cut in (slice(1, 33), slice(0, 32), slice(0, 41, 2)):
        got = rowmax.scatter_sum(index.to(DEVICE), values.to(DEVICE)[:, cut], 30)
        same(got, rowmax.scatter_sum(index, values[:, cut], 30), cut)


def test_sums_in_any_order():
    """Of small integers every order gives the same; both sides of the choice between atomics and the sort."""
    shapes = ((3000, 3000, ()), (3000, 40, ()), (3000, 3, ()), (2000, 500, (64,)), (2000, 50, (64,)), (900, 90, (5,)))
    for sources, n, channels in shapes:
        for dtype in FLOATS:
            index = index_of("uniform", (sources,), n, n)
            values = torch.randint(-2, 3, (sources, *channels)).to(dtype).requires_grad_()
            want = rowmax.scatter_sum(index, values.detach(), n, deterministic=False)
            x = values.detach().to(DEVICE).requires_grad_()
            got = rowmax.scatter_sum(index.to(DEVICE), x, n, deterministic=False)
            same(got.detach(), want, f"{sources} {n} {channels} {dtype}")
            got.sum().backward()
            assert torch.equal(x.grad.cpu(), (index >= 0).reshape(-1, *[1] * len(channels)).expand_as(values).to(dtype))


def test_nonfinite_sums():
    values = torch.tensor([float("inf"), float("-inf"), float("nan"), 1e38, 3e38, 3e38, -0.0, -0.0])
    index = torch.tensor([0, 0, 1, 2, 2, 2, 3, 3])
    for dtype in FLOATS:
        same(rowmax.scatter_sum(index.to(DEVICE), values.to(dtype).to(DEVICE), 5), rowmax.scatter_sum(index, values.to(dtype), 5))


def test_what_an_index_may_not_hold():
    index, values = torch.tensor([0, 7, 1], device=DEVICE), torch.ones(3, device=DEVICE)
    same(rowmax.scatter_sum(index, values, 3), torch.tensor([1.0, 1.0, 0.0]))  # dropped: nobody looks
    with pytest.raises(ValueError, match="index holds 7 at source 1 of batch 0"):
        rowmax.scatter_sum(index, values, 3, validate=True)
    with pytest.raises(ValueError, match="index holds 7"):
        rowmax.inverse_grid(index, 3, validate=True)
    kept = index % 3
    row_ptr, source = rowmax.inverse_grid(kept, 3, validate=True)
    same(rowmax.scatter_sum(kept, values, 3, (row_ptr, source), validate=True), torch.tensor([1.0, 2.0, 0.0]))
    with pytest.raises(ValueError, match="grid is not that of index"):
        rowmax.scatter_sum(kept, values, 3, (row_ptr, source.flip(0).contiguous()), validate=True)
    lies = torch.tensor([0, 900, -5, 3], device=DEVICE), torch.tensor([1 << 40, -7, 2], device=DEVICE)
    assert rowmax.scatter_sum(kept, values, 3, lies).shape == (3,)  # and no memory but its own is read
    with pytest.raises(TypeError, match="move one of them"):
        rowmax.scatter_sum(kept, values.cpu(), 3)


def test_sums_are_differentiable_and_can_be_captured():
    index = index_of("uniform", (2, 400), 20, 3)
    values, weight = torch.randn(2, 400, 6), torch.randn(2, 20, 6)
    gradients = []
    for device in ("cpu", DEVICE):
        x = values.clone().to(device).requires_grad_()
        (rowmax.scatter_sum(index.to(device), x, 20) * weight.to(device)).sum().backward()
        gradients.append(x.grad.cpu())
    same(gradients[1], gradients[0])
    index, values = index.to(DEVICE), values.to(DEVICE)
    out = torch.empty(2, 20, 6, device=DEVICE)
    rowmax.scatter_sum(index, values, 20, out=out)
    want = out.cpu()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rowmax.scatter_sum(index, values, 20, out=out)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    same(out, want, "replayed")


def test_routing():
    x, index = torch.randn(300, 16), index_of("uniform", (300, 2), 7, 4)
    weights = torch.rand(300, 2)
    results = []
    for device in ("cpu", DEVICE):
        packed, route = routing.dispatch(x.to(device), index.to(device), 7, capacity=60)
        results.append((packed, route.cu_seqlens, routing.combine(packed * 2, route, weights.to(device))))
    for got, want in zip(results[1], results[0], strict=True):
        same(got, want)


@pytest.mark.parametrize("metric", ["l2_sq", "dot"])
def test_kmeans(metric):
    X = torch.cat([torch.randn(400, 12, generator=torch.Generator().manual_seed(c)) + 5 * c for c in range(4)])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        points = X.to(dtype)
        want = rowmax.kmeans(points, 6, metric=metric, seed=1)
        got = [rowmax.kmeans(points.to(DEVICE), 6, metric=metric, seed=1) for _ in range(2)]
        assert torch.equal(got[0].centroids, got[1].centroids) and torch.equal(got[0].index, got[1].index)
        assert got[0].index.is_cuda and got[0].centroids.dtype is want.centroids.dtype
        assert abs(got[0].inertia - want.inertia) < 0.05 * want.inertia
        start = points[:6].to(want.centroids.dtype)
        want = rowmax.kmeans(points, 6, metric=metric, init=start, iterations=1)
        one = rowmax.kmeans(points.to(DEVICE), 6, metric=metric, init=start.to(DEVICE), iterations=1)
        assert (one.index.cpu() == want.index).float().mean() > 0.99
        torch.testing.assert_close(one.centroids.cpu(), want.centroids, rtol=1e-2, atol=1e-2)


# Points.


def cloud(kind, shape, seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    if kind == "integers":  # many equal distances
        return torch.randint(-3, 4, shape, generator=generator).to(dtype)
    if kind == "equal":
        return torch.full(shape, 0.3).to(dtype)
    if kind == "line":
        points = torch.zeros(shape)
        points[..., 0] = torch.rand(shape[:-1], generator=generator)
        return points.to(dtype)
    points = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "far":
        points = points * 1e-3 + 1e3
    if kind == "clustered":
        points = points * 10.0 ** torch.randint(-6, 3, (*shape[:-1], 1), generator=generator)
    if kind == "nonfinite":
        odd = torch.rand(shape, generator=generator) < 0.02
        kinds = torch.tensor([float("nan"), float("inf"), float("-inf")], dtype=torch.float64)
        points[odd] = kinds[torch.randint(0, 3, (int(odd.sum()),), generator=generator)]
    if kind == "huge":
        points = points * 1e25
    return points.to(dtype)


KINDS = ("normal", "integers", "equal", "line", "far", "clustered", "nonfinite", "huge")


def compare_chamfer(P, R, what, **keywords):
    for reduction in ("none", "sum", "mean"):
        call = {"reduction": reduction, "return_index": True} | keywords
        want = rowmax.chamfer(P, R, **call)
        got = rowmax.chamfer(P.to(DEVICE), R.to(DEVICE), **on_gpu(call))
        flat = [list(flatten(part)) for part in (got, want)]
        for i, (g, w) in enumerate(zip(*flat, strict=True)):
            same(g, w, f"{what} {reduction} result {i}")


def flatten(parts):
    return itertools.chain.from_iterable(map(flatten, parts)) if isinstance(parts, tuple | list) else [parts]


@pytest.mark.parametrize("kind", KINDS)
def test_chamfer_has_the_bits_of_the_cpu(kind):
    for c, (n, m) in itertools.product((1, 2, 3, 4, 5, 16, 17, 40), ((1, 1), (33, 700), (1030, 515))):
        P, R = cloud(kind, (n, c), 1), cloud(kind, (m, c), 2)
        for metric in ("l2_sq", "l1"):
            compare_chamfer(P, R, f"{kind} c={c} {n}x{m} {metric}", metric=metric)


def test_chamfer_in_every_type_and_many_dimensions():
    for dtype in FLOATS:
        for c in (3, 31, 300):
            compare_chamfer(cloud("normal", (2, 200, c), 3, dtype), cloud("normal", (2, 150, c), 4, dtype), f"{dtype} {c}")


def test_chamfer_of_batches_masks_and_packed_sets():
    P, R = cloud("normal", (4, 300, 3), 5), cloud("integers", (4, 200, 3), 6)
    generator = torch.Generator().manual_seed(7)
    p_mask, r_mask = torch.rand(4, 300, generator=generator) < 0.7, torch.rand(4, 200, generator=generator) < 0.5
    r_mask[2] = False
    compare_chamfer(P, R, "masks", p_mask=p_mask, r_mask=r_mask)
    compare_chamfer(P, R, "a mask for all", p_mask=p_mask[:1].float(), one_sided=True)
    cu = torch.tensor([0, 0, 700, 701, 1200])
    compare_chamfer(P.reshape(1200, 3), R, "packed", cu_seqlens_p=cu, r_mask=r_mask)
    offsets = {
        "cu_seqlens_p": torch.tensor([0, 100, 100, 800], dtype=torch.int32),
        "cu_seqlens_r": torch.tensor([0, 1, 1000, 1200]),
    }
    compare_chamfer(R.reshape(800, 3), P.reshape(1200, 3), "both packed", **offsets)
    compare_chamfer(P[:, ::2, :], R.transpose(0, 1)[:150].transpose(0, 1), "views")
    compare_chamfer(P[:, :0], R, "empty")


def test_offsets_that_lie_are_clamped():
    for dim, offsets in ((3, (20, 50, 60)), (9, (20, 50, 60)), (9, (100, 100, 100)), (3, (-5, 70, 30))):
        P, R = cloud("normal", (100, dim), 8), cloud("normal", (2, 50, dim), 9)
        lies = torch.tensor(offsets)
        want = rowmax.chamfer(P, R, cu_seqlens_p=lies, validate=False, reduction="none", return_index=True)
        got = rowmax.chamfer(P.to(DEVICE), R.to(DEVICE), cu_seqlens_p=lies.to(DEVICE), reduction="none", return_index=True)
        for g, w in zip(flatten(got), flatten(want), strict=True):
            same(g, w, f"{dim} {offsets}")
    with pytest.raises(ValueError, match="decreases|must be 0"):
        rowmax.chamfer(P.to(DEVICE), R.to(DEVICE), cu_seqlens_p=lies.to(DEVICE), validate=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_gives_the_bits_of_every_pair(kind):
    for c, (n, m) in itertools.product((1, 2, 3, 4), ((1, 1), (33, 700), (3000, 1), (5000, 2100))):
        for metric, dtype in (("l2_sq", torch.float32), ("l1", torch.float32), ("l2_sq", torch.float64)):
            P, R = cloud(kind, (n, c), 1, dtype).to(DEVICE), cloud(kind, (m, c), 2, dtype).to(DEVICE)
            call = {"metric": metric, "reduction": "none", "return_index": True}
            want = rowmax.chamfer(P, R, search="brute", **call)
            for g, w in zip(flatten(rowmax.chamfer(P, R, search="tree", **call)), flatten(want), strict=True):
                same(g, w.cpu(), f"{kind} c={c} {n}x{m} {metric} {dtype}")


def test_a_tree_over_batches_masks_and_packed_sets():
    P, R = cloud("normal", (4, 1300, 3), 5).to(DEVICE), cloud("integers", (4, 1200, 3), 6).to(DEVICE)
    p_mask = torch.rand(4, 1300, device=DEVICE) < 0.7
    p_mask[1] = False
    R[3, 7, 1] = float("nan")
    cu = torch.tensor([3, 3, 700, 701, 5000], device=DEVICE)
    for call in ({"p_mask": p_mask}, {"cu_seqlens_p": cu}):
        points = P.reshape(5200, 3) if "cu_seqlens_p" in call else P
        both = [
            flatten(rowmax.chamfer(points, R, reduction="none", return_index=True, search=search, **call))
            for search in ("tree", "brute")
        ]
        for g, w in zip(*both, strict=True):
            same(g, w.cpu(), list(call))


@pytest.mark.parametrize("kind", KINDS)
def test_chamfer_of_many_points(kind):
    P, R = cloud(kind, (20000, 3), 10), cloud(kind, (17000, 3), 11)
    if kind in ("equal", "nonfinite"):
        P, R = P[:5000], R[:4000]
    compare_chamfer(P, R, f"many {kind}")


def gradients_of(function, *tensors):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    result = function(*leaves)
    weights = torch.Generator().manual_seed(12)
    total = sum((part * torch.randn(part.shape, generator=weights, dtype=torch.float64).to(part)).sum() for part in flatten(result))
    total.backward()
    return [leaf.grad for leaf in leaves]


def compare_gradients(P, R, what, call, **keywords):
    want = gradients_of(lambda p, r: call(p, r, **keywords), P, R)
    got = gradients_of(lambda p, r: call(p, r, **on_gpu(keywords)), P.to(DEVICE), R.to(DEVICE))
    for name, g, w in zip("PR", got, want, strict=True):
        same(g, w, f"{what}: gradient of {name}")


def test_gradients_of_chamfer_have_the_bits_of_the_cpu():
    for kind, metric, c in itertools.product(("normal", "integers", "equal", "clustered"), ("l2_sq", "l1"), (1, 3, 8, 33)):
        P, R = cloud(kind, (700, c), 13), cloud(kind, (900, c), 14)
        for reduction in ("none", "mean"):
            compare_gradients(P, R, f"{kind} {metric} {c} {reduction}", rowmax.chamfer, metric=metric, reduction=reduction)
    for dtype in FLOATS:
        compare_gradients(cloud("normal", (2, 70, 3), 15, dtype), cloud("normal", (2, 90, 3), 16, dtype), dtype, rowmax.chamfer)
    P, R = cloud("normal", (3, 300, 3), 17), cloud("normal", (3, 200, 3), 18)
    mask = torch.rand(3, 300, generator=torch.Generator().manual_seed(19)) < 0.5
    compare_gradients(P, R, "masks", rowmax.chamfer, p_mask=mask)
    compare_gradients(P, R, "one-sided", rowmax.chamfer, one_sided=True, r_mask=mask[:, :200])
    compare_gradients(P.reshape(900, 3), R, "packed", rowmax.chamfer, cu_seqlens_p=torch.tensor([0, 10, 10, 900]))


def test_gradients_where_one_target_is_chosen_by_all():
    P, R = cloud("normal", (5000, 3), 20), cloud("far", (1, 3), 21)
    compare_gradients(P, R, "one target", rowmax.chamfer, reduction="none")


def test_nearest():
    P, R = cloud("normal", (2, 400, 3), 22), cloud("integers", (2, 300, 3), 23)
    for metric in ("l2_sq", "l1"):
        got = rowmax.nearest(P.to(DEVICE), R.to(DEVICE), metric=metric)
        for g, w in zip(got, rowmax.nearest(P, R, metric=metric), strict=True):
            same(g, w, metric)
        compare_gradients(P, R, metric, lambda p, r, metric=metric: rowmax.nearest(p, r, metric=metric)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_neighbours_have_the_bits_of_the_cpu(kind):
    for c, (n, m), k, search in itertools.product((2, 3, 9), ((70, 5), (900, 1300)), (2, 8, 100), ("brute", "tree")):
        if search == "tree" and c > 4:
            continue
        P, R = cloud(kind, (n, c), 26), cloud(kind, (m, c), 27)
        got = rowmax.nearest(P.to(DEVICE), R.to(DEVICE), k, search=search)
        for name, g, w in zip(("distance", "index"), got, rowmax.nearest(P, R, k), strict=True):
            same(g, w, f"{kind} c={c} {n}x{m} k={k} {search} {name}")


def test_lists_over_batches_masks_packed_sets_and_float64():
    P, R = cloud("normal", (3, 130, 3), 28, torch.float64), cloud("integers", (3, 150, 3), 29, torch.float64)
    mask = torch.rand(3, 150, generator=torch.Generator().manual_seed(30)) < 0.1
    cu = torch.tensor([0, 5, 5, 390])
    for search, (p, call) in itertools.product(
        ("brute", "tree"), ((P, {"r_mask": mask}), (P.reshape(390, 3), {"cu_seqlens_p": cu}))
    ):
        got = rowmax.nearest(p.to(DEVICE), R.to(DEVICE), 20, search=search, **on_gpu(call))
        for g, w in zip(got, rowmax.nearest(p, R, 20, **call), strict=True):
            same(g, w, f"{search} {list(call)}")
        compare_gradients(
            p, R, search, lambda p, r, call=call: rowmax.nearest(p, r, 6, **{n: v.to(p.device) for n, v in call.items()})[0]
        )


def test_points_reach_a_graph_another_stream_and_out():
    P, R = cloud("normal", (1000, 3), 24).to(DEVICE), cloud("normal", (800, 3), 25).to(DEVICE)
    want = rowmax.chamfer(P, R).cpu()
    out = torch.empty((), device=DEVICE)
    assert rowmax.chamfer(P, R, out=out) is out
    same(out, want)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rowmax.chamfer(P, R, out=out)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    same(out, want, "replayed")
    with torch.cuda.stream(torch.cuda.Stream()):
        again = rowmax.chamfer(P.clone(), R)
    torch.cuda.synchronize()
    same(again, want)
    with pytest.raises(TypeError, match="move one of them"):
        rowmax.chamfer(P, R.cpu())


# Other choices of a row of similarities.


CHOICES = {
    "topk mean": lambda q, d, **k: rowmax.maxsim_topk_tokens(q, d, 3, **k),
    "topk sum": lambda q, d, **k: rowmax.maxsim_topk_tokens(q, d, 2, reduction="sum", **k),
    "smooth": lambda q, d, **k: rowmax.maxsim_smooth(q, d, 0.5, **k),
    "prefixes": lambda q, d, **k: rowmax.maxsim_prefixes(q, d, (8, 32), **k),
    "xtr": lambda q, d, **k: rowmax.maxsim_xtr(q, d, 9, **k),
    "xtr training": lambda q, d, **k: rowmax.maxsim_xtr(q, d, 9, imputation="none", **k),
}
LAYOUTS = {
    "cross": ((3, 20, 32), (5, 40, 32), {}),
    "masks": (
        (3, 20, 32),
        (5, 40, 32),
        {"q_mask": torch.arange(20) < torch.tensor([[20], [7], [0]]), "d_mask": torch.arange(40) % 3 > 0},
    ),
    "grouped": ((3, 20, 32), (3, 4, 40, 32), {}),
    "packed": (
        (60, 32),
        (200, 32),
        {"cu_seqlens_q": torch.tensor([0, 20, 20, 60]), "cu_seqlens_d": torch.tensor([0, 40, 41, 200])},
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CHOICES)
def test_other_choices_agree_with_the_cpu(name, layout):
    q_shape, d_shape, options = LAYOUTS[layout]
    if "d_mask" in options:
        options = options | {"d_mask": options["d_mask"].expand(d_shape[:-1])}
    generator = torch.Generator().manual_seed(31)
    choose = CHOICES[name]
    # Small integers: products and sums are exact, so that the same tokens win.
    Q, D = (torch.randint(-3, 4, shape, generator=generator).float() for shape in (q_shape, d_shape))
    for dtype in (torch.float32, torch.float16):
        q, d = Q.to(dtype), D.to(dtype)
        torch.testing.assert_close(choose(q.to(DEVICE), d.to(DEVICE), **on_gpu(options)).cpu(), choose(q, d, **options))
        if name.startswith(("topk", "xtr", "prefixes")):
            index = [
                choose(x, y, return_index=True, **k)[1]
                for x, y, k in ((q, d, options), (q.to(DEVICE), d.to(DEVICE), on_gpu(options)))
            ]
            same(index[1], index[0], f"{name} {layout} index")
        want = gradients_of(lambda x, y: choose(x, y, **options), q, d)
        got = gradients_of(lambda x, y: choose(x, y, **on_gpu(options)), q.to(DEVICE), d.to(DEVICE))
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g.cpu().float(), w.float(), rtol=2e-3 if dtype is torch.float16 else 1e-4, atol=1e-3)
