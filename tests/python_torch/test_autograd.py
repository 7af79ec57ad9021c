"""Gradients: gradcheck in every layout, agreement with torch's own operators, and what is saved."""

import pytest
import torch

import rowmax

BACKWARDS = ("auto", "inverse_grid", "lowmem", "recompute")


def tensors(*shapes, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def naive(q, d, q_mask=None, d_mask=None):
    """[Nq, Lq, d] x [Nd, Ld, d] -> [Nq, Nd], by torch; max takes the first of equals."""
    similarity = torch.einsum("qsd,ntd->qnst", q, d)
    if d_mask is not None:
        similarity = similarity.masked_fill(~d_mask[None, :, None], -torch.inf)
    best = similarity.max(-1).values
    return best.sum(-1) if q_mask is None else (best * q_mask[:, None]).sum(-1)


Q_MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
D_MASK = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
CU_Q, CU_D = torch.tensor([0, 3, 3, 7], dtype=torch.int32), torch.tensor([0, 4, 5, 9])
PAIR_Q, PAIR_D = torch.tensor([2, 0, 2, 1, 2]), torch.tensor([0, 2, 0, 1, 1])
OFFSETS, LENGTHS = torch.tensor([4, 0, 3, 8]), torch.tensor([5, 3, 0, 1])

LAYOUTS = {
    "cross": ((3, 4, 6), (2, 5, 6), lambda q, d, **k: rowmax.maxsim(q, d, q_mask=Q_MASK, d_mask=D_MASK, **k)),
    "one query": ((4, 6), (2, 5, 6), lambda q, d, **k: rowmax.maxsim(q, d, d_mask=D_MASK, **k)),
    "one pair": ((4, 6), (5, 6), lambda q, d, **k: rowmax.maxsim(q, d, **k)),
    "grouped": (
        (3, 4, 6), (3, 2, 5, 6),
        lambda q, d, **k: rowmax.maxsim(q, d, q_mask=Q_MASK, d_mask=D_MASK.expand(3, 2, 5), **k),
    ),
    "pairs": ((2, 4, 6), (2, 5, 6), lambda q, d, **k: rowmax.maxsim_pairs(q, d, q_mask=Q_MASK[:2], d_mask=D_MASK, **k)),
    "varlen": ((7, 6), (9, 6), lambda q, d, **k: rowmax.maxsim_varlen(q, d, CU_Q, CU_D, **k)),
    "pairs packed": ((7, 6), (9, 6), lambda q, d, **k: rowmax.score_pairs_packed(q, d, CU_Q, CU_D, PAIR_Q, PAIR_D, **k)),
    "ranges": ((4, 6), (9, 6), lambda q, d, **k: rowmax.score_ranges(q, d, OFFSETS, LENGTHS, **k)),
}  # fmt: skip


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradcheck(layout, normalize):
    q_shape, d_shape, score = LAYOUTS[layout]
    q, d = tensors(q_shape, d_shape)
    assert torch.autograd.gradcheck(lambda a, b: score(a, b, normalize=normalize), (q, d))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_backward_gives_the_same_bits(layout):
    q_shape, d_shape, score = LAYOUTS[layout]
    q, d = tensors(q_shape, d_shape, dtype=torch.float32)
    wanted = torch.autograd.grad(score(q, d).sum(), (q, d))
    for backward in BACKWARDS:
        found = torch.autograd.grad(score(q, d, backward=backward).sum(), (q, d))
        assert all(torch.equal(a, b) for a, b in zip(found, wanted))
    found = torch.autograd.grad(score(q, d, backward="unified", deterministic=False).sum(), (q, d))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted))


def test_topk_scores_are_differentiable():
    q, d = tensors((3, 4, 6), (7, 5, 6))
    assert torch.autograd.gradcheck(lambda a, b: rowmax.topk(a, b, 3)[0], (q, d))
    assert torch.autograd.gradcheck(lambda a, b: rowmax.topk(a, b, 3)[0], (q[0].detach().requires_grad_(), d))
    scores, index = rowmax.topk(q, d, 3)
    for name in ("inverse_grid", "recompute"):
        for found, wanted in zip(rowmax.topk(q, d, 3, backward=name), (scores, index), strict=True):
            assert torch.equal(found, wanted)
    with pytest.raises(ValueError, match="unified"):
        rowmax.topk(q, d, 3, backward="unified")
    with torch.no_grad():
        plain, plain_index = rowmax.topk(q, d, 3)
    assert torch.equal(scores, plain) and torch.equal(index, plain_index) and not index.requires_grad


@pytest.mark.parametrize("shape", [(3, 32, 5, 40, 16), (16, 33, 300, 7, 24), (600, 2, 2, 3, 8)])
def test_agrees_with_torch(shape):
    nq, lq, nd, ld, dim = shape
    q, d = tensors((nq, lq, dim), (nd, ld, dim))
    weight = torch.randn(nq, nd, dtype=torch.float64)
    found = torch.autograd.grad((rowmax.maxsim(q, d) * weight).sum(), (q, d))
    wanted = torch.autograd.grad((naive(q, d) * weight).sum(), (q, d))
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_ties_send_the_gradient_to_the_lowest_token():
    generator = torch.Generator().manual_seed(3)
    q, d = (torch.randint(-1, 2, shape, generator=generator).double().requires_grad_() for shape in [(4, 9, 3), (5, 12, 3)])
    found = torch.autograd.grad(rowmax.maxsim(q, d).sum(), (q, d))
    wanted = torch.autograd.grad(naive(q, d).sum(), (q, d))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_narrow_types_have_gradients_of_their_own_type(dtype):
    q, d = tensors((3, 20, 16), (6, 30, 16), dtype=dtype)
    found = torch.autograd.grad(rowmax.maxsim(q, d).sum(), (q, d))
    wide = [t.detach().double().requires_grad_() for t in (q, d)]
    wanted = torch.autograd.grad(naive(*wide).sum(), wide)
    for a, b in zip(found, wanted):
        assert a.dtype is dtype
        torch.testing.assert_close(a.double(), b, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


def test_reruns_and_threads_give_the_same_bits():
    q, d = tensors((40, 33, 24), (30, 50, 24), dtype=torch.float32)
    wanted = torch.autograd.grad(rowmax.maxsim(q, d).sum(), (q, d))
    for threads in (1, 2, 5):
        found = torch.autograd.grad(rowmax.maxsim(q, d, threads=threads).sum(), (q, d))
        assert all(torch.equal(a, b) for a, b in zip(found, wanted))


def test_views_and_broadcasts():
    q, d = tensors((1, 4, 6), (2, 6, 5))
    assert torch.autograd.gradcheck(lambda a, b: rowmax.maxsim(a.expand(3, 4, 6), b.mT), (q, d))


def test_only_what_needs_a_gradient_gets_one():
    q, d = tensors((3, 4, 6), (2, 5, 6))
    for needed, other in ((q, d), (d, q)):
        other.requires_grad_(False)
        rowmax.maxsim(q, d).sum().backward()
        assert needed.grad is not None and other.grad is None
        other.requires_grad_(True)
        needed.grad = None


def saved(call):
    """The tensors that a call keeps for backward."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        call()
    return kept


def test_what_is_saved():
    q, d = tensors((3, 4, 6), (2, 5, 6))
    inputs = {q.data_ptr(), d.data_ptr()}
    extra = [t for t in saved(lambda: rowmax.maxsim(q, d)) if t.data_ptr() not in inputs]
    assert [(t.dtype, t.shape) for t in extra] == [(torch.int32, (3, 2, 4))]
    assert [t for t in saved(lambda: rowmax.maxsim(q, d, backward="recompute")) if t.data_ptr() not in inputs] == []
    with torch.no_grad():
        assert saved(lambda: rowmax.maxsim(q, d)) == []
    with torch.inference_mode():
        assert saved(lambda: rowmax.maxsim(q, d)) == [] and not rowmax.maxsim(q, d).requires_grad
    assert saved(lambda: rowmax.maxsim(q.detach(), d.detach())) == []


def test_the_index_comes_along_without_a_gradient():
    q, d = tensors((3, 4, 6), (2, 5, 6))
    scores, index = rowmax.maxsim(q, d, return_index=True)
    assert scores.requires_grad and not index.requires_grad
    assert torch.autograd.gradcheck(lambda a, b: rowmax.maxsim(a, b, return_index=True)[0], (q, d))


@pytest.mark.parametrize("backward", BACKWARDS)
def test_double_backward_is_an_error(backward):
    q, d = tensors((3, 4, 6), (2, 5, 6))
    (gradient,) = torch.autograd.grad(rowmax.maxsim(q, d, backward=backward).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not implemented"):
        gradient.norm().backward()


def test_changing_an_input_in_place_is_noticed():
    q, d = tensors((3, 4, 6), (2, 5, 6))
    mask = torch.ones(2, 5)
    copy = d * 1
    scores = rowmax.maxsim(q, copy, d_mask=mask)
    copy += 1
    with pytest.raises(RuntimeError, match="inplace"):
        scores.sum().backward()
    scores = rowmax.maxsim(q, d, d_mask=mask)
    mask[0] = 0
    with pytest.raises(RuntimeError, match="inplace"):
        scores.sum().backward()


def test_what_sees_nothing_gets_exactly_zero():
    q, d = tensors((3, 4, 6), (2, 5, 6))
    with torch.no_grad():
        d[1, 2] = torch.nan
    rowmax.maxsim(q, d, q_mask=Q_MASK, d_mask=D_MASK).sum().backward()
    assert (d.grad[1] == 0).all() and (q.grad[2] == 0).all() and (q.grad[~Q_MASK] == 0).all()


def test_empty_shapes():
    for q_shape, d_shape in (((0, 4, 6), (2, 5, 6)), ((3, 4, 6), (0, 5, 6)), ((3, 0, 6), (2, 5, 6)), ((3, 4, 6), (2, 0, 6))):
        q, d = tensors(q_shape, d_shape)
        rowmax.maxsim(q, d).sum().backward()
        assert not q.grad.any() and not d.grad.any()
