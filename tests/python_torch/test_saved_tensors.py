"""What a backward pass needs is released by it, though its results, and with them the graph, live on."""

import gc
import weakref

import pytest
import torch

import rowmax
from rowmax.losses import contrastive_loss

Q_MASK, D_MASK = [[1, 1, 0], [1, 0, 1]], [[1, 1, 0, 1]] * 2
CU_Q, CU_D = [0, 2, 6], [0, 5, 8]


def tokens(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def memory_of(tensor):
    """Gone when no tensor of it is left, detached ones and views included."""
    return weakref.ref(tensor.untyped_storage())


def masked(operator, *how):
    def call(q, d, given):
        return operator(q, d, *how, q_mask=given[0], d_mask=given[1])

    return call, (2, 3, 4), (2, 4, 4), (torch.tensor(Q_MASK), torch.tensor(D_MASK))


def packed(operator):
    return operator, (6, 4), (8, 4), (torch.tensor(CU_Q), torch.tensor(CU_D))


def points(operator, *how):
    def call(p, r, given):
        return operator(p, r, *how, p_mask=given[0], r_mask=given[1])

    return call, *masked(operator)[1:]


CASES = {
    "maxsim": masked(rowmax.maxsim),
    "maxsim with the index": masked(lambda *a, **k: rowmax.maxsim(*a, return_index=True, **k)),
    "maxsim_pairs": masked(rowmax.maxsim_pairs),
    "maxsim_varlen": packed(lambda q, d, given: rowmax.maxsim_varlen(q, d, *given)),
    "score_pairs_packed": packed(
        lambda q, d, given: rowmax.score_pairs_packed(q, d, *given, torch.tensor([0, 1]), torch.tensor([1, 1]))
    ),
    "maxsim_smooth": masked(rowmax.maxsim_smooth, 0.5),
    "maxsim_topk_tokens": masked(rowmax.maxsim_topk_tokens, 2),
    "maxsim_prefixes": masked(rowmax.maxsim_prefixes, [2, 4]),
    "maxsim_xtr": masked(rowmax.maxsim_xtr, 3),
    "nearest": points(rowmax.nearest, 2),
    "chamfer": points(rowmax.chamfer),
    "packed chamfer": packed(lambda p, r, given: rowmax.chamfer(p, r, cu_seqlens_p=given[0], cu_seqlens_r=given[1])),
    "contrastive_loss": masked(contrastive_loss),
    "contrastive_loss in blocks": masked(lambda *a, **k: contrastive_loss(*a, block=1, **k)),
    "packed contrastive_loss in blocks": packed(
        lambda q, d, given: contrastive_loss(q, d, cu_seqlens_q=given[0], cu_seqlens_d=given[1], block=1)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_released_by_the_backward_pass(name):
    call, q_shape, d_shape, given = CASES[name]
    q, d = (tokens(*shape).requires_grad_() * 1 for shape in (q_shape, d_shape))  # which nobody but the graph keeps
    given = [tensor.clone() for tensor in given]
    names = ("Q", "D", "mask or offsets of Q", "mask or offsets of D")
    watched = {name: memory_of(tensor) for name, tensor in zip(names, (q, d, *given), strict=True)}
    result = call(q, d, given)
    scores = result[0] if isinstance(result, tuple) else result
    assert watched["Q"]() is not None
    del q, d, given, result
    scores.sum().backward()
    gc.collect()
    assert [name for name, reference in watched.items() if reference() is not None] == []
    assert scores.grad_fn is not None
