"""topk_two_stage as it goes on a GPU, on the CPU: what it chooses and proves is what numpy does."""

import numpy as np
import pytest
import torch
from coarse_forms import FORMS, UNORDERED

import rowmax
from rowmax._torch import TORCH

RNG = np.random.default_rng(5)


@pytest.fixture
def on_device(monkeypatch):
    """All tensors are taken for such on a GPU, which none leaves."""
    monkeypatch.setattr(TORCH, "streams", lambda Q: True)
    monkeypatch.setattr(TORCH, "numbers", lambda array: pytest.fail("a tensor was brought to the host"))


def tensors(value):
    if isinstance(value, tuple):
        return tuple(tensors(x) for x in value)
    if value.dtype.name == "float8_e4m3fn":
        value = value.view(np.uint8)
    return torch.from_numpy(np.array(value))


def documents(count=80, length=9, dim=24):
    x = RNG.standard_normal((count, length, dim)).astype(np.float32)
    return x * RNG.choice([0.1, 1, 4], (count, 1, 1)).astype(np.float32)


def compare(q, d, coarse, k, candidates, **sides):
    want = rowmax.topk_two_stage(q, (d, coarse), k, candidates=candidates, **sides)
    moved = {name: tensors(value) for name, value in sides.items()}
    got = rowmax.topk_two_stage(tensors(q), (tensors(d), tensors(coarse)), k, candidates=candidates, **moved)
    np.testing.assert_array_equal(got[1].numpy(), want[1])
    np.testing.assert_array_equal(got[0].numpy(), want[0])
    assert bool(got[2]) == want[2]
    return want[2]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("queries", [None, 3])
def test_numpy_says_the_same(on_device, form, queries):
    d = documents()
    q = RNG.standard_normal((queries, 5, 24) if queries else (5, 24)).astype(np.float32)
    widths = (1, 40), (4, None), (10, 79), (80, 80), (200, None)
    proofs = [compare(q, d, FORMS[form](d), k, candidates) for k, candidates in widths]
    assert proofs[-1] and proofs[-2]


def test_masks_and_packed_documents(on_device):
    d = documents()
    q = RNG.standard_normal((2, 5, 24)).astype(np.float32)
    q_mask, d_mask = RNG.random((2, 5)) < 0.7, RNG.random((80, 9)) < 0.6
    d_mask[3] = False
    coarse = rowmax.quantize_int8(d)
    compare(q, d, coarse, 3, 20, q_mask=q_mask, d_mask=d_mask)
    offsets = np.concatenate([[0], np.sort(RNG.integers(0, 720, 49)), [720]])
    packed = coarse[0].reshape(-1, 24), coarse[1].reshape(-1)
    compare(q, d.reshape(-1, 24), packed, 3, 20, cu_seqlens_d=offsets)


def test_equal_documents_and_what_is_not_finite(on_device):
    d = np.repeat(documents(10), 4, 0)
    q = RNG.standard_normal((1, 5, 24)).astype(np.float32)
    compare(q, d, rowmax.quantize_int8(d), 6, 6)
    d[17, 2, 3] = np.nan
    d[5] = np.inf
    compare(q, d, rowmax.quantize_int8(d), 6, 9)


@pytest.mark.parametrize("form", FORMS)
def test_bfloat16_as_uint16_stays(on_device, form):
    d, q = (torch.from_numpy(x).bfloat16() for x in (documents(), RNG.standard_normal((2, 5, 24)).astype(np.float32)))
    coarse = FORMS[form](d)
    want = rowmax.topk_two_stage(q, (d, coarse), 3, candidates=20)
    got = rowmax.topk_two_stage(q.view(torch.uint16), (d.view(torch.uint16), coarse), 3, candidates=20, dtype="bfloat16")
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1]) and bool(got[2]) == bool(want[2])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", UNORDERED)
def test_ties_and_infinities(on_device, case, form):
    q, d = UNORDERED[case]
    for k, candidates in ((1, 1), (2, 3), (3, 5), (5, 7), (50, 2)):
        compare(q, d, FORMS[form](d), k, candidates)
    both = np.concatenate([d, documents(20, 1, 8), d])
    for k, candidates in ((1, 1), (4, 9), (12, 20)):
        compare(q, both, FORMS[form](both), k, candidates)


def test_infinite_bounds(on_device):
    d = documents(30, 2, 8) * np.float32(1)
    d[[3, 11, 12, 20, 29]] *= np.float32([[[1e36]], [[4e36]], [[2e36]], [[3e36]], [[1e37]]])
    q = np.stack([np.ones((2, 8)), np.full((2, 8), -2.0), np.zeros((2, 8)), np.full((2, 8), np.inf)]).astype(np.float32)
    for k, candidates in ((1, 1), (2, 3), (3, 4), (5, 5), (6, 20)):
        compare(q, d, rowmax.quantize_int8(d), k, candidates)


@pytest.mark.parametrize("seed", range(12))
def test_exact_never_lies(on_device, seed):
    rng = np.random.default_rng(seed)
    d = rng.standard_normal((60, 5, 8)).astype(np.float32) * rng.choice([0.01, 1, 30], (60, 1, 1)).astype(np.float32)
    q = rng.standard_normal((1, 4, 8)).astype(np.float32)
    coarse = tensors(rowmax.quantize_int8(d))
    for k, candidates in ((1, 2), (3, 10), (5, 30)):
        scores, index, exact = rowmax.topk_two_stage(tensors(q), (tensors(d), coarse), k, candidates=candidates)
        wanted = rowmax.topk(q, d, k)
        if exact:
            np.testing.assert_array_equal(scores.numpy(), wanted[0])
            np.testing.assert_array_equal(index.numpy(), wanted[1])


def test_gradients_reach_the_tokens(on_device):
    d = documents()
    q = tensors(RNG.standard_normal((2, 5, 24)).astype(np.float32)).requires_grad_()
    scores, index, _ = rowmax.topk_two_stage(q, (tensors(d), tensors(rowmax.quantize_int8(d))), 3)
    scores.sum().backward()
    want = q.detach().clone().requires_grad_()
    rowmax.maxsim(want, tensors(d)).gather(1, index).sum().backward()
    torch.testing.assert_close(q.grad, want.grad)


def test_a_given_out(on_device):
    d = documents()
    q = tensors(RNG.standard_normal((2, 5, 24)).astype(np.float32))
    coarse = tensors(rowmax.quantize_int8(d))
    want = rowmax.topk_two_stage(q, (tensors(d), coarse), 3)
    out = torch.empty(2, 3), torch.empty(2, 3, dtype=torch.int64)
    got = rowmax.topk_two_stage(q, (tensors(d), coarse), 3, out=out)
    assert got[0] is out[0] and torch.equal(out[0], want[0]) and torch.equal(out[1], want[1])
