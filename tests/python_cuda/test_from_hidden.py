"""maxsim_from_hidden on a GPU: against float64, beside the ways that round, and how it behaves in training steps."""

import pytest

import rowmax

torch = pytest.importorskip("torch", reason="torch is not installed")

HALF = [torch.float16, torch.bfloat16]


def normal(*shape, dtype=torch.float16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to("cuda", dtype)


def integers(*shape, most, dtype, seed=0, share=1.0):
    """Small numbers, a share of them not zero: all sums are exact."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-most, most + 1, shape, generator=generator, dtype=torch.int8)
    return (x * (torch.rand(shape, generator=generator) < share)).to("cuda", dtype)


def unit(x):
    """By the norm, zeros as they are."""
    norm = x.norm(dim=-1, keepdim=True)
    return x / torch.where(norm == 0, 1, norm)


def maxima(q, d, keep=None):
    """[Nq, Lq, d] x [Nd, Ld, d], document by document: scores [Nq, Nd] and the lowest winners [Nq, Nd, Lq]."""
    scores, winners = [], []
    for j in range(len(d)):
        similarity = q @ d[j].mT
        if keep is not None:
            similarity = similarity.masked_fill(~keep[j], -torch.inf)
        best = similarity.amax(-1, keepdim=True)
        token = torch.arange(d.shape[1], device="cuda").where(similarity == best, d.shape[1]).amin(-1)
        scores.append(best[..., 0].sum(-1))
        winners.append(token)
    return torch.stack(scores, 1), torch.stack(winners, 1)


def exact(q, h, w, b=None, normalize=True, keep=None):
    d = torch.nn.functional.linear(h.double(), w.double(), None if b is None else b.double())
    return maxima(q.double(), unit(d) if normalize else d, keep)


EXACT = [
    # queries, tokens, documents, tokens, hidden, d
    (1, 32, 5, 130, 768, 128), (1, 1, 3, 1, 8, 48), (3, 20, 7, 300, 72, 64), (1, 32, 9, 2048, 64, 96),
    (9, 33, 4, 63, 4096, 128), (1, 300, 3, 129, 200, 128), (2, 128, 3, 64, 768, 33), (1, 96, 300, 65, 16, 128),
    (40, 32, 3, 200, 128, 128),
    (1, 7, 2, 50, 33, 100), (1, 12, 3, 70, 64, 200),
]  # fmt: skip


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("shape", EXACT, ids=str)
def test_exact_numbers(shape, dtype, biased):
    nq, lq, nd, ld, hidden, dim = shape
    q = integers(nq, lq, dim, most=3, dtype=dtype, seed=1)
    h = integers(nd, ld, hidden, most=1, dtype=dtype, seed=2)
    w = integers(dim, hidden, most=1, dtype=dtype, seed=3, share=min(1.0, 400 / hidden))
    b = integers(dim, most=4, dtype=dtype, seed=4) if biased else None
    scores, index = rowmax.maxsim_from_hidden(q, h, w, b, normalize=False, return_index=True)
    assert scores.dtype is torch.float32 and index.dtype is torch.int32
    wanted, winners = exact(q, h, w, b, normalize=False)
    assert torch.equal(scores.double(), wanted)
    assert torch.equal(index.long(), winners)
    assert torch.equal(rowmax.maxsim_from_hidden(q, h, w, b, normalize=False), scores)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dtype", [*HALF, torch.float32], ids=str)
def test_errors_are_at_most_twice_those_of_projecting_first(dtype, normalize):
    q = unit(normal(3, 32, 128, dtype=torch.float32)).to(dtype)
    h, w = normal(20, 300, 768, dtype=dtype, seed=1), normal(128, 768, dtype=dtype, seed=2) / 16
    b = normal(128, dtype=dtype, seed=3)
    wanted, _ = exact(q, h, w, b, normalize)
    tokens = torch.nn.functional.linear(h, w, b)
    if normalize:
        tokens = torch.nn.functional.normalize(tokens, dim=-1)
    rounded = (maxima(q.double(), tokens.double())[0] - wanted).abs()
    ours = (rowmax.maxsim_from_hidden(q, h, w, b, normalize=normalize).double() - wanted).abs()
    floor = 1e-6 * wanted.abs().max()
    assert ours.max() <= 2 * rounded.max() + floor and ours.mean() <= 2 * rounded.mean() + floor


def test_float32_is_not_narrowed():
    q, h, w = (normal(*s, dtype=torch.float32, seed=i) for i, s in enumerate([(2, 9, 96), (5, 70, 200), (96, 200)]))
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        scores = rowmax.maxsim_from_hidden(q, h * 1e4, w * 1e4)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    torch.testing.assert_close(scores.double(), exact(q, h, w)[0], rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_the_same_bits_however_it_is_called(dtype):
    """One pass or block by block, alone or among others, packed or grouped."""
    q, h, w, b = (
        normal(*s, dtype=dtype, seed=i) for i, s in enumerate([(40, 31, 96), (6, 300, 136), (96, 136), (96,)])
    )
    scores, index = rowmax.maxsim_from_hidden(q, h, w, b, return_index=True)
    for i in (0, 7):
        alone, where = rowmax.maxsim_from_hidden(q[i], h[2:4], w, b, return_index=True)
        assert torch.equal(alone, scores[i, 2:4]) and torch.equal(where, index[i, 2:4])
    assert torch.equal(rowmax.maxsim_from_hidden(q[3], h[5], w, b), scores[3, 5])
    assert torch.equal(rowmax.maxsim_from_hidden(q[:5], h, w, b), scores[:5])
    cu = torch.arange(7, device="cuda") * 300
    packed, where = rowmax.maxsim_from_hidden(q, h.flatten(0, 1), w, b, cu_seqlens_d=cu, return_index=True)
    assert torch.equal(packed, scores) and torch.equal(where, index)
    own = rowmax.maxsim_from_hidden(q[:3], h.view(3, 2, 300, 136), w, b)
    assert torch.equal(own, torch.stack([scores[i, 2 * i : 2 * i + 2] for i in range(3)]))
    padded = torch.nn.functional.pad(h, (3, 5))[..., 3:139]
    assert torch.equal(rowmax.maxsim_from_hidden(q[:2], padded, w, b), scores[:2])
    assert torch.equal(rowmax.maxsim_from_hidden(q[:2], h[:1].expand(6, 300, 136), w, b), scores[:2, :1].expand(2, 6))


@pytest.mark.parametrize("nq", [2, 40])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_masks(dtype, nq):
    q, h, w, b = (
        normal(*s, dtype=dtype, seed=i) for i, s in enumerate([(nq, 20, 64), (7, 400, 80), (64, 80), (64,)])
    )
    generator = torch.Generator().manual_seed(9)
    keep = (torch.rand(7, 400, generator=generator) < 0.5).cuda()
    keep[1, 100:] = False
    keep[2] = False
    keep[3, :200] = False
    q_keep = (torch.rand(nq, 20, generator=generator) < 0.7).cuda()
    h[~keep] = torch.nan
    inputs = [t.requires_grad_() for t in (q, h, w, b)]
    scores, index = rowmax.maxsim_from_hidden(*inputs, q_mask=q_keep, d_mask=keep, return_index=True)
    assert (scores[:, 2] == 0).all() and (index[:, 2] == -1).all()
    assert (index.transpose(0, 1)[:, ~q_keep] == -1).all()
    for j in (0, 1, 3, 4):
        short = rowmax.maxsim_from_hidden(q.detach(), h.detach()[j, keep[j]], w.detach(), b.detach(), q_mask=q_keep)
        assert torch.equal(short.view(-1), scores[:, j])
    scores.sum().backward()
    assert all(t.grad.isfinite().all() for t in inputs)
    assert (h.grad[~keep] == 0).all() and (q.grad[~q_keep] == 0).all() and h.grad[keep].any()


def test_tokens_without_a_norm_and_beyond_all_numbers():
    q = unit(normal(2, 8, 64, dtype=torch.float32)).bfloat16()
    h, w = normal(3, 150, 96, dtype=torch.bfloat16, seed=1), normal(64, 96, dtype=torch.bfloat16, seed=2)
    wanted, _ = exact(q, h, w)
    for scale in (2.0**70, 2.0**-70):
        assert torch.equal(rowmax.maxsim_from_hidden(q, h * scale, w), rowmax.maxsim_from_hidden(q, h, w))
    large = rowmax.maxsim_from_hidden(q.half(), h.half(), w.half() * 4096)  # sums beyond 65504
    torch.testing.assert_close(large.double(), wanted, rtol=1e-2, atol=1e-2)
    h[1] = 0
    h[2, 7] = torch.inf
    h[2, 9] = torch.nan
    scores, index = rowmax.maxsim_from_hidden(q, h, w, return_index=True)
    assert (scores[:, 1] == 0).all() and (index[:, 1] == 0).all()
    assert scores[:, 2].isnan().all() and (index[:, 2] == 7).all()


EMPTY = [(0, 4, 3, 5), (2, 0, 3, 5), (2, 4, 0, 5), (2, 4, 3, 0), (2, 100, 3, 0), (0, 100, 3, 5)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_empty(shape, dtype):
    nq, lq, nd, ld = shape
    inputs = [normal(*s, dtype=dtype).requires_grad_() for s in ((nq, lq, 32), (nd, ld, 64), (32, 64), (32,))]
    scores, index = rowmax.maxsim_from_hidden(*inputs, return_index=True)
    assert scores.shape == (nq, nd) and not scores.any() and index.shape == (nq, nd, lq)
    scores.sum().backward()
    assert all(t.grad is not None and not t.grad.any() for t in inputs)


def composed(q, h, w, b=None, normalize=True):
    d = torch.nn.functional.linear(h, w, b)
    return torch.einsum("qsd,ntd->qnst", q, unit(d) if normalize else d).max(-1).values.sum(-1)


GRADIENTS = [
    (3, 20, 12, 50, 64, 48), (1, 32, 40, 700, 128, 128), (20, 32, 6, 90, 72, 96), (2, 300, 5, 40, 128, 128), (1, 5, 3, 9, 33, 17),
]  # fmt: skip


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dtype", [*HALF, torch.float32], ids=str)
@pytest.mark.parametrize("shape", GRADIENTS, ids=str)
def test_gradients(shape, dtype, normalize):
    nq, lq, nd, ld, hidden, dim = shape
    shapes = (nq, lq, dim), (nd, ld, hidden), (dim, hidden), (dim,)
    inputs = [normal(*s, dtype=dtype, seed=i).requires_grad_() for i, s in enumerate(shapes)]
    weight = normal(nq, nd, dtype=torch.float32, seed=9)
    wide = [t.detach().double().requires_grad_() for t in inputs]
    wanted = torch.autograd.grad((composed(*wide, normalize) * weight).sum(), wide)
    usual = torch.autograd.grad((composed(*inputs, normalize).float() * weight).sum(), inputs)
    found = torch.autograd.grad((rowmax.maxsim_from_hidden(*inputs, normalize=normalize) * weight).sum(), inputs)
    again = torch.autograd.grad((rowmax.maxsim_from_hidden(*inputs, normalize=normalize) * weight).sum(), inputs)
    for a, b, c, d in zip(found, again, usual, wanted, strict=True):
        assert a.dtype is dtype and torch.equal(a, b)
        assert (a - d).norm() <= 2 * (c - d).norm() + 1e-6 * d.norm()


@pytest.mark.parametrize("dtype", [*HALF, torch.float32], ids=str)
def test_a_token_chosen_2048_times(dtype):
    shapes = (64, 32, 8), (1, 1, 8), (8, 8), (8,)
    q, h, w, b = (torch.zeros(s, device="cuda", dtype=dtype) for s in shapes)
    q[..., 0] = h[..., 0] = w[0, 0] = 1
    inputs = [t.requires_grad_() for t in (q, h, w, b)]
    rowmax.maxsim_from_hidden(*inputs, normalize=False).sum().backward()
    assert q.grad[..., 0].eq(1).all()
    assert [t.grad.flatten()[0].item() for t in (h, w, b)] == [2048, 2048, 2048]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("layout", ["cross", "one query", "grouped", "packed"])
def test_gradients_of_layouts_equal_the_cpu(layout, dtype):
    shapes, options = {
        "cross": (((3, 4, 16), (5, 30, 24)), {}),
        "one query": (((4, 16), (5, 30, 24)), {}),
        "grouped": (((3, 4, 16), (3, 2, 30, 24)), {}),
        "packed": (((3, 4, 16), (90, 24)), {"cu_seqlens_d": torch.tensor([0, 4, 4, 60, 90])}),
    }[layout]
    shapes = (*shapes, (16, 24), (16,))
    generator = torch.Generator().manual_seed(5)
    inputs = [torch.randint(-2, 3, s, generator=generator).to(dtype).requires_grad_() for s in shapes]
    on_device = [t.detach().cuda().requires_grad_() for t in inputs]
    there = {name: t.cuda() for name, t in options.items()}
    scores = rowmax.maxsim_from_hidden(*inputs, normalize=False, **options)
    found = rowmax.maxsim_from_hidden(*on_device, normalize=False, **there)
    assert torch.equal(found.cpu(), scores)
    for name in ("auto", "recompute"):
        found = rowmax.maxsim_from_hidden(*on_device, normalize=False, backward=name, **there)
        for a, b in zip(
            torch.autograd.grad(found.sum(), on_device), torch.autograd.grad(scores.sum(), inputs, retain_graph=True), strict=True
        ):
            assert torch.equal(a.cpu(), b)


OFFSETS = {"true": [0, 4, 4, 60, 90], "beyond": [-3, 4, 4, 60, 1 << 60], "falling": [0, 50, 20, 90, 90]}


@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS)
def test_gradients_read_offsets_as_scores_do(offsets):
    """Every other element of an array, and lies, which are clamped to the tokens there are."""
    q, h, w = normal(3, 4, 16), normal(90, 24, seed=1), normal(16, 24, seed=2)
    cu = torch.tensor(offsets, device="cuda")
    strided = torch.stack([cu, cu + 7], 1)[:, 0]
    results = []
    for where in (strided, cu.clamp(0, 90)):
        given = [x.clone().requires_grad_() for x in (q, h, w)]
        scores = rowmax.maxsim_from_hidden(*given, cu_seqlens_d=where)
        results.append((scores.detach(), *torch.autograd.grad(scores.nansum(), given)))
    for found, wanted in zip(*results, strict=True):
        assert torch.equal(found, wanted)


def test_memory_is_bounded():
    """Projected tokens alone would take 256 MiB."""
    q, w = normal(16, 32, 128), normal(128, 768, seed=1)
    h = normal(1, 64, 768, seed=2).expand(16384, 64, 768)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    scores = rowmax.maxsim_from_hidden(q, h, w)
    assert torch.cuda.max_memory_allocated() - before < 160 << 20
    assert torch.equal(scores, scores[:, :1].expand_as(scores))


def test_captured_training_step():
    q, h, w, b = (normal(*s, seed=i).requires_grad_() for i, s in enumerate([(2, 32, 128), (9, 300, 256), (128, 256), (128,)]))

    def step():
        scores = rowmax.maxsim_from_hidden(q, h, w, b)
        return scores, *torch.autograd.grad(scores.sum(), (q, h, w, b))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    with torch.no_grad():
        h.copy_(normal(9, 300, 256, seed=7))
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(results, step(), strict=True))


def test_compiled_and_autocast():
    shapes = (2, 9, 32), (5, 40, 64), (32, 64), (32,)
    inputs = [normal(*s, dtype=torch.float32, seed=i).requires_grad_() for i, s in enumerate(shapes)]
    with torch.autocast("cuda", torch.bfloat16):
        scores = rowmax.maxsim_from_hidden(*inputs)
    assert torch.equal(scores, rowmax.maxsim_from_hidden(*(t.bfloat16() for t in inputs)))
    compiled = torch.compile(lambda *t: (rowmax.maxsim_from_hidden(*t) / 100).exp(), fullgraph=True, backend="aot_eager")
    half = [t.detach().half().requires_grad_() for t in inputs]
    found, wanted = compiled(*half), (rowmax.maxsim_from_hidden(*half) / 100).exp()
    assert torch.equal(found, wanted)
    for a, b in zip(torch.autograd.grad(found.sum(), half), torch.autograd.grad(wanted.sum(), half), strict=True):
        assert torch.equal(a, b)


def test_wrong_arguments():
    q, h, w = normal(40, 9, 32), normal(5, 40, 64), normal(32, 64)
    with pytest.raises(ValueError, match="differ in the hidden dimension"):
        rowmax.maxsim_from_hidden(q, h[..., :56], w)
    with pytest.raises(TypeError, match="types are not promoted"):
        rowmax.maxsim_from_hidden(q, h.bfloat16(), w)
    with pytest.raises(NotImplementedError, match="float64"):
        rowmax.maxsim_from_hidden(q.double(), h.double(), w.double())
    names = [k.name for k in rowmax.kernels() if "hidden" in k.name]
    assert names == ["cuda.sm90.hidden.f16", "cuda.sm90.hidden.bf16"]
