"""Scores and winning tokens on a GPU: equal to the oracle where sums are exact, within the bounds of the contract elsewhere."""

import layouts
import numpy as np
import oracle
import pytest

import rowmax

torch = pytest.importorskip("torch", reason="torch is not installed")

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
# Of score errors, relative to the sum of |q| |d| (docs/numerics.md).
BOUNDS = {torch.float16: 1e-6, torch.bfloat16: 1e-6, torch.float32: 2e-7}


def integers(*shape, dtype=torch.float16, seed=0, most=3):
    """Small integers: every product and every sum is exact, and ties are many."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-most, most + 1, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", layouts.ALL, ids=lambda f: f.__name__)
def test_every_layout_equals_the_oracle(layout, dtype):
    rng = np.random.default_rng(17)
    for d in (20, 64):
        queries, documents = layouts.integers(rng, (33, 1, 0), d), layouts.integers(rng, (31, 97, 0, 1), d)
        found = layout(queries, documents, d, lambda x: torch.from_numpy(np.ascontiguousarray(x)).to("cuda", dtype))
        assert found == {p: (s.score, s.index) for p, s in oracle.score_all(queries, documents).items()}


SHAPES = [  # Nq, Lq, Nd, Ld, d
    (1, 1, 1, 1, 1), (2, 7, 5, 31, 33), (1, 32, 64, 180, 128), (3, 20, 40, 103, 128), (1, 257, 9, 511, 128),
    (1, 1030, 7, 1030, 128), (40, 32, 33, 130, 96), (1, 1, 1, 20000, 128), (2, 3, 4, 5, 200), (1, 33, 5, 77, 1024),
    (1, 300, 3, 300, 2048), (1, 5, 6, 0, 128), (0, 5, 6, 7, 128), (2, 0, 6, 7, 128),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_equal_the_cpu(shape, dtype):
    nq, lq, nd, ld, d = shape
    q, x = integers(nq, lq, d, dtype=dtype, most=1), integers(nd, ld, d, dtype=dtype, seed=1, most=1)
    keep = torch.rand(nd, ld, generator=torch.Generator().manual_seed(2)) < 0.8
    for options in ({}, {"d_mask": keep}):
        scores, index = rowmax.maxsim(q, x, return_index=True, **options)
        options = {name: value.cuda() for name, value in options.items()}
        found, tokens = rowmax.maxsim(q.cuda(), x.cuda(), return_index=True, **options)
        assert torch.equal(found.cpu(), scores) and torch.equal(tokens.cpu(), index)
        assert torch.equal(rowmax.maxsim(q.cuda(), x.cuda(), **options), found)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("normalize", [False, True])
def test_random_values_are_within_the_bound(dtype, normalize):
    generator = torch.Generator().manual_seed(5)
    for lq, ld, d in ((32, 180, 128), (300, 500, 96), (5, 77, 768)):
        q, x = (torch.randn(n, length, d, generator=generator).to(dtype) for n, length in ((2, lq), (12, ld)))
        found = rowmax.maxsim(q.cuda(), x.cuda(), normalize=normalize).cpu()
        wide_q, wide_x = q.double(), x.double()
        if normalize:
            wide_q, wide_x = (t / t.norm(dim=-1, keepdim=True) for t in (wide_q, wide_x))
        similarity = torch.einsum("qsd,ntd->qnst", wide_q, wide_x)
        best, token = similarity.max(-1)
        norms = wide_x.norm(dim=-1)[None, :, None].expand(2, 12, lq, ld).gather(-1, token[..., None])[..., 0]
        scale = (norms * wide_q.norm(dim=-1)[:, None]).sum(-1)
        assert ((found.double() - best.sum(-1)).abs() <= BOUNDS[dtype] * scale).all()
        _, index = rowmax.maxsim(q.cuda(), x.cuda(), normalize=normalize, return_index=True)
        chosen = similarity.gather(-1, index.cpu().long()[..., None])[..., 0]
        assert (best - chosen <= BOUNDS[dtype] * norms * wide_q.norm(dim=-1)[:, None] * 2).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_views_are_read(dtype):
    q, x = integers(3, 6, 64, dtype=dtype).cuda(), integers(4, 10, 64, dtype=dtype, seed=1).cuda()
    wanted = rowmax.maxsim(q, x)
    for view in (lambda t: t.transpose(0, 1).contiguous().transpose(0, 1), lambda t: t.mT.contiguous().mT):
        assert torch.equal(rowmax.maxsim(view(q), view(x)), wanted)
    odd = torch.empty(x.numel() + 1, dtype=dtype, device="cuda")[1:].view(x.shape)  # not a multiple of 16 bytes
    assert torch.equal(rowmax.maxsim(q, odd.copy_(x)), wanted)
    wide = torch.full((4, 10, 80), 99, dtype=dtype, device="cuda")
    wide[..., :64] = x
    assert torch.equal(rowmax.maxsim(q, wide[..., :64]), wanted)
    assert torch.equal(rowmax.maxsim(q, x[:1].expand(7, -1, -1)), wanted[:, :1].expand(-1, 7))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_and_infinity(dtype):
    q, x = torch.ones(2, 3, 64, dtype=dtype), integers(5, 40, 64, dtype=dtype)
    x[1, 7, 3] = float("nan")
    x[2, 9, 0] = float("inf")
    x[3] = float("-inf")
    x[4, 5, 5] = x[4, 2, 5] = float("nan")
    scores, index = rowmax.maxsim(q, x, return_index=True)
    found, tokens = rowmax.maxsim(q.cuda(), x.cuda(), return_index=True)
    assert torch.equal(tokens.cpu(), index)
    torch.testing.assert_close(found.cpu(), scores, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_topk_and_explain(dtype):
    q, x = integers(3, 20, 64, dtype=dtype), integers(500, 30, 64, dtype=dtype, seed=1)
    scores, where = rowmax.topk(q, x, 37)
    for chunk in (None, 7, 499):
        found, at = rowmax.topk(q.cuda(), x.cuda(), 37, chunk=chunk)
        assert torch.equal(found.cpu(), scores) and torch.equal(at.cpu(), where)
    for one, other in zip(rowmax.explain(q.cuda(), x.cuda()), rowmax.explain(q, x), strict=True):
        assert torch.equal(one.cpu(), other)


def test_bits_do_not_depend_on_the_batch():
    generator = torch.Generator().manual_seed(3)
    q = torch.randn(5, 33, 128, generator=generator).half().cuda()
    x = torch.randn(60, 150, 128, generator=generator).half().cuda()
    whole, index = rowmax.maxsim(q, x, return_index=True)
    for i, j in ((0, 0), (4, 59), (2, 31)):
        alone, token = rowmax.maxsim(q[i], x[j], return_index=True)
        assert torch.equal(alone, whole[i, j]) and torch.equal(token, index[i, j])
    assert torch.equal(rowmax.maxsim(q[:, :], x[10:20]), whole[:, 10:20])
    cu = torch.arange(0, 60 * 150 + 1, 150, device="cuda")
    packed = rowmax.maxsim_varlen(q.flatten(0, 1), x.flatten(0, 1), torch.arange(0, 5 * 33 + 1, 33, device="cuda"), cu)
    assert torch.equal(packed, whole)
