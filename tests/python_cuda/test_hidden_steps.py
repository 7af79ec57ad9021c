"""The steps between the matrix products of maxsim_from_hidden's backward pass, against their definitions in torch."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import hidden_steps  # noqa: E402

from rowmax._torch_hidden_steps import Steps  # noqa: E402

TYPES = [torch.float16, torch.bfloat16, torch.float32]


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to("cuda", dtype)


def both(like=None):
    tensor = torch.empty(1, device="cuda") if like is None else like
    return Steps(tensor), hidden_steps.Steps(tensor)


def some_index(queries, documents, length, query_length, hot=False, seed=0):
    """Some query tokens without a winner; `hot`: few tokens win."""
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, max(1, length // 50) if hot else length, (queries, documents, query_length), generator=generator)
    hidden = torch.rand(index.shape, generator=generator) < 0.2
    return index.masked_fill(hidden, -1).int().cuda()


WINNERS = [
    # queries, documents, tokens, query tokens
    (1, 5, 300, 32), (3, 4, 33, 7), (40, 3, 20, 33), (1, 2, 1, 1), (64, 2, 300, 32), (5, 2, 70_000, 9), (2, 2, 200_000, 700),
    (1, 1, 65_536, 40), (1, 1, 65_537, 40),
]  # fmt: skip


@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("shape", WINNERS, ids=str)
def test_winners(shape, hot):
    queries, documents, length, query_length = shape
    index = some_index(queries, documents, length, query_length, hot)
    ours, defined = both()
    for first, count in ((0, documents), (documents - 1, 1)):
        call = index, first, count, length, None, min(queries * query_length, length)
        for found, wanted in zip(ours.winners(*call), defined.winners(*call), strict=True):
            assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_winners_of_packed_documents(dtype):
    lengths = torch.tensor([5, 0, 1, 90_000, 40])
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to("cuda", dtype)
    index = some_index(3, 5, 1 << 20, 30)
    index = torch.where(index < 0, -1, index % lengths.clamp(min=1).cuda()[None, :, None]).int()
    index[:, 1] = -1
    ours, defined = both()
    total = int(lengths.sum())
    for first, count in ((0, 5), (2, 3), (1, 1)):
        call = index, first, count, total, starts, min(90, total)
        for found, wanted in zip(ours.winners(*call), defined.winners(*call), strict=True):
            assert torch.equal(found, wanted)


VIEWS = {
    "dense": lambda x: x,
    "every other document": lambda x: x[::2],
    "odd addresses": lambda x: x[..., 1:-2],
    "an odd size": lambda x: x[..., :33].contiguous(),
    "one for all": lambda x: x[:1].expand(x.shape),
    "packed": lambda x: x.flatten(0, 1),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_rows_there_and_back(view, dtype):
    H = VIEWS[view](normal(6, 50, 160, dtype=dtype))
    ours, defined = both()
    count = H.shape[:-1].numel()
    rows = torch.randperm(count, generator=torch.Generator().manual_seed(1))[: count // 2].cuda()
    rows[::7] = -1
    copy = ours.gather(H, rows)
    assert torch.equal(copy, defined.gather(H, rows))
    to = ours.zeros(count, H)
    assert not to.any()
    ours.scatter(copy, rows, to)
    wanted = torch.zeros_like(to)
    defined.scatter(copy, rows, wanted)
    assert torch.equal(to, wanted)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dim", [1, 33, 128, 257, 2000])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_tokens_and_their_gradients(dtype, dim, biased, normalize):
    wide = torch.float64 if dtype is torch.float32 else torch.float32
    sums = normal(77, dim, dtype=wide)
    sums[3] = 0
    most = 100 if wide is torch.float32 else 900
    sums[4] *= 2.0**most
    sums[5] *= 2.0**-most
    bias = normal(dim, dtype=dtype, seed=1) if biased else None
    if biased:
        sums[6] = -bias.to(wide)
    ours, defined = both()
    rounded = ours.rounded_tokens(sums, bias, dtype, normalize)
    wanted, inverse = defined.tokens(sums.double(), bias, dtype, normalize)
    if normalize:
        allowed = torch.finfo(dtype).eps
        assert (rounded.double() - wanted).abs().max() <= allowed + 1e-6
    tokens, found = ours.tokens(sums.clone(), bias, dtype, normalize)
    torch.testing.assert_close(tokens, wanted, rtol=2e-6, atol=2e-7)
    if not normalize:
        assert found is None and torch.equal(rounded, tokens.to(dtype))
        return
    torch.testing.assert_close(found, inverse, rtol=2e-6, atol=0)
    finite = inverse.isfinite()
    grad = normal(77, dim, seed=2)
    first, second = grad.clone(), grad.double()
    narrow = ours.through_norm(first, tokens, found, dtype)
    defined.through_norm(second, wanted.double(), inverse.double(), dtype)
    error = (first.double() - second)[finite].norm(dim=-1)
    assert (error <= 1e-5 * (grad.norm(dim=-1) * inverse)[finite].double() + 1e-30).all()
    assert narrow.dtype is dtype and torch.equal(narrow[finite], first.to(dtype)[finite])
