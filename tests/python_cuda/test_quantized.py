"""8-bit codes on a GPU: the quantisers' bits are the CPU's, int8 winners are too, float8 is within its bound."""

import numpy as np
import pytest

import rowmax

torch = pytest.importorskip("torch", reason="torch is not installed")

KINDS = {"int8": (rowmax.quantize_int8, rowmax.maxsim_int8), "fp8": (rowmax.quantize_fp8, rowmax.maxsim_fp8)}
GRANULARITIES = [("int8", "token"), ("int8", "document"), ("fp8", "token"), ("fp8", "tensor")]


def bound(kind, d):
    """Of scores, relative to the sum of |q| |d| (docs/numerics.md)."""
    return 2e-7 if kind == "int8" else 2**-11 * -(-d // 32)


def tokens(*shape, seed=0, dtype=torch.float16):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def bits(array):
    return array.cpu().contiguous().view(torch.uint8)


@pytest.mark.parametrize(("kind", "granularity"), GRANULARITIES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (0, 8), (3, 0, 8), (7, 130), (5, 33, 128), (2, 3, 40, 96), (1, 9, 4095), (1, 3000, 17)])
def test_quantisers_give_the_bits_of_the_cpu(kind, granularity, dtype, shape):
    quantize = KINDS[kind][0]
    x = tokens(*shape, dtype=dtype)
    if x.numel() > 1000:
        flat = x.view(-1, shape[-1])
        flat[0] = 0
        flat[1] *= 1e-4
        if granularity == "token":
            flat[2, 0], flat[3, 0] = float("nan"), float("-inf")
    codes, scale = quantize(x, granularity)
    found, found_scale = quantize(x.cuda(), granularity)
    assert found.is_cuda and found.dtype == codes.dtype and found.shape == codes.shape
    assert torch.equal(found_scale.cpu().nan_to_num(-1.0), scale.nan_to_num(-1.0)) and found_scale.dtype == torch.float32
    assert torch.equal(bits(found), bits(codes))


def test_the_smallest_numbers_keep_the_bits_of_the_cpu():
    x = torch.tensor([[1e-45, 0.0, -3e-45], [1e-40, 2e-40, -7e-41], [3e38, -1e38, 1.0]])
    for quantize, _ in KINDS.values():
        for host, device in zip(quantize(x), quantize(x.cuda()), strict=True):
            assert torch.equal(bits(device), bits(host))


@pytest.mark.parametrize(("kind", "granularity"), GRANULARITIES)
def test_views_are_read_in_place_and_results_written_in_place(kind, granularity):
    quantize = KINDS[kind][0]
    wide = tokens(4, 50, 200).cuda()
    view = wide[1:, ::2, 3:99]
    codes, scale = quantize(view.contiguous(), granularity)
    out = torch.zeros_like(codes), torch.zeros_like(scale)
    assert quantize(view, granularity, out=out)[0] is out[0]
    assert torch.equal(bits(out[0]), bits(codes)) and torch.equal(out[1], scale)
    assert torch.equal(bits(quantize(wide.mT, granularity)[0]), bits(quantize(wide.mT.contiguous(), granularity)[0]))


SHAPES = [  # Nq, Lq, Nd, Ld, d
    (1, 1, 1, 1, 1), (2, 7, 5, 31, 33), (1, 32, 64, 180, 128), (3, 20, 40, 103, 128), (1, 257, 9, 511, 128),
    (1, 1030, 7, 1030, 128), (40, 32, 33, 130, 96), (1, 1, 1, 20000, 128), (1, 33, 5, 77, 1024), (1, 300, 3, 300, 384),
    (1, 5, 6, 0, 128), (0, 5, 6, 7, 128), (2, 0, 6, 7, 128),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "granularity"), GRANULARITIES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scores_are_those_of_the_cpu(kind, granularity, shape):
    quantize, score = KINDS[kind]
    nq, lq, nd, ld, d = shape
    q, qs = quantize(tokens(nq, lq, d))
    x, xs = quantize(tokens(nd, ld, d, seed=1), granularity)
    size = (q.double() * qs.double()[..., None]).norm(dim=-1).sum(-1)[:, None]
    factor = xs.double() if xs.ndim == 0 else xs.double().reshape(nd, -1, 1)
    size = size * (x.double() * factor).norm(dim=-1).amax(-1)[None] if ld else size.expand(nq, nd)
    keep = torch.rand(nd, ld, generator=torch.Generator().manual_seed(2)) < 0.8
    for options in ({}, {"d_mask": keep}):
        scores, index = score(q, qs, x, xs, return_index=True, **options)
        options = {name: value.cuda() for name, value in options.items()}
        device = [array.cuda() for array in (q, qs, x, xs)]
        found, winners = score(*device, return_index=True, **options)
        assert torch.equal(score(*device, **options), found)
        assert ((found.cpu().double() - scores.double()).abs() <= 2 * bound(kind, d) * size + 1e-30).all()
        if kind == "int8":
            assert torch.equal(winners.cpu(), index)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_has_the_same_bits_in_every_call(kind):
    quantize, score = KINDS[kind]
    q, qs = (a.cuda() for a in quantize(tokens(5, 40, 128)))
    x, xs = (a.cuda() for a in quantize(tokens(9, 300, 128, seed=1)))
    whole = score(q, qs, x, xs)
    offsets = torch.arange(10, device="cuda", dtype=torch.int32) * 300
    assert torch.equal(score(q, qs, x.reshape(2700, 128), xs.reshape(2700), cu_seqlens_d=offsets), whole)
    assert torch.equal(torch.stack([score(one, s, x, xs) for one, s in zip(q, qs, strict=True)]), whole)
    assert torch.equal(torch.stack([score(q, qs, one[None], s[None])[:, 0] for one, s in zip(x, xs, strict=True)], 1), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_calls_are_captured_in_a_graph(kind):
    quantize, score = KINDS[kind]
    first, second = tokens(20, 100, 128).cuda(), tokens(20, 100, 128, seed=3).cuda()
    d = first.clone()
    q, qs = quantize(tokens(1, 32, 128, seed=5).cuda())
    out = torch.empty(1, 20, device="cuda")

    def call():
        score(q, qs, *quantize(d), out=out)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    d.copy_(second)
    graph.replay()
    assert torch.equal(out, score(q, qs, *quantize(second)))


def test_what_does_not_fit_is_named():
    q, qs = (a.cuda() for a in rowmax.quantize_int8(tokens(2, 4, 8)))
    x, xs = rowmax.quantize_int8(tokens(3, 5, 8))
    with pytest.raises(TypeError, match="Di is on the CPU"):
        rowmax.maxsim_int8(q, qs, x, xs)
    with pytest.raises(TypeError, match="d_scale is on the CPU"):
        rowmax.maxsim_int8(q, qs, x.cuda(), xs)
    with pytest.raises(NotImplementedError, match="float64"):
        rowmax.quantize_int8(tokens(3, 5, 8, dtype=torch.float64).cuda())


@pytest.mark.parametrize("coarse", ["int8", "fp8"])
def test_two_stages_find_what_one_finds(coarse):
    q, d = tokens(3, 20, 64).cuda(), tokens(200, 30, 64, seed=1).cuda()
    form = KINDS[coarse][0](d)
    scores, index, proved = rowmax.topk_two_stage(q, (d, form), 5, candidates=200)
    want, want_index = rowmax.topk(q, d, 5)
    assert proved and torch.equal(index, want_index) and torch.equal(scores, want)
    few, few_index, _ = rowmax.topk_two_stage(q, (d, form), 5, candidates=60)
    assert torch.equal(few_index, want_index) and torch.equal(few, want)
    host = rowmax.topk_two_stage(q.cpu(), (d.cpu(), tuple(a.cpu() for a in form)), 5, candidates=60)
    assert np.array_equal(host[1].numpy(), few_index.cpu().numpy())


@pytest.mark.parametrize("coarse", ["int8", "fp8"])
def test_two_stages_in_a_graph(coarse):
    """Nothing is waited for: neither candidates nor the proof leave the device."""
    q, d = tokens(2, 20, 64).cuda(), tokens(200, 30, 64, seed=1).cuda()
    form = KINDS[coarse][0](d)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        rowmax.topk_two_stage(q, (d, form), 5, candidates=60)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores, index, proved = rowmax.topk_two_stage(q, (d, form), 5, candidates=60)
    q.copy_(tokens(2, 20, 64, seed=2))
    graph.replay()
    want = rowmax.topk_two_stage(q, (d, form), 5, candidates=60)
    assert torch.equal(scores, want[0]) and torch.equal(index, want[1]) and bool(proved) == bool(want[2])
