"""torch's own rules: torch.func, forward mode, out=, autocast, and what may change before the backward pass."""

import numpy as np
import pytest
import torch

import rowmax


def tensors(dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in ((2, 3, 6), (4, 5, 6))]


@pytest.mark.parametrize("backward", ["auto", "recompute"])
@pytest.mark.parametrize("options", [{}, {"normalize": True, "d_mask": torch.arange(20).reshape(4, 5) % 3}])
def test_func_grad_is_the_gradient(backward, options):
    q, d = tensors()
    wanted = torch.autograd.grad(rowmax.maxsim(q.requires_grad_(), d.requires_grad_(), **options).sum(), (q, d))
    found = torch.func.grad(
        lambda a, b: rowmax.maxsim(a, b, backward=backward, **options).sum(), argnums=(0, 1)
    )(q.detach(), d.detach())  # fmt: skip
    assert all(torch.equal(a, b) for a, b in zip(found, wanted))
    with pytest.raises(RuntimeError, match="once"):
        torch.func.grad(lambda x: torch.func.grad(lambda a: rowmax.maxsim(a, d.detach()).sum())(x).sum())(q.detach())


def test_forward_mode_is_not_silently_zero():
    q, d = tensors()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        for pair in ((dual, d), (q, torch.autograd.forward_ad.make_dual(d, d))):
            with pytest.raises(NotImplementedError, match="forward-mode"):
                rowmax.maxsim(*pair)
        assert rowmax.maxsim(q, d).shape == (2, 4)


def test_out_is_a_write_that_autograd_sees():
    q, d = tensors(torch.float32)
    out = torch.ones(2, 4)
    weight = torch.ones(2, 4, requires_grad=True)
    product = weight * out  # saves out
    rowmax.maxsim(q, d, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with pytest.raises(ValueError, match="out requires grad"):
        rowmax.maxsim(q, d, out=torch.empty(2, 4, requires_grad=True))
    with torch.inference_mode():
        assert torch.equal(rowmax.maxsim(q, d, out=torch.empty(2, 4)), rowmax.maxsim(q, d))


def test_out_of_a_subclass_is_filled():
    class Named(torch.Tensor):
        pass

    q, d = tensors(torch.float32)
    out = (torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64))
    assert rowmax.topk(q.as_subclass(Named), d, 3, out=out) is out
    wanted = rowmax.topk(q, d, 3)
    assert torch.equal(out[0], wanted[0]) and torch.equal(out[1], wanted[1])


def test_explain_follows_autocast():
    q, d = tensors(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores, why = rowmax.maxsim(q, d), rowmax.explain(q, d)
        chosen = [kernel.name for kernel in rowmax.explain_dispatch(q, d) if kernel.chosen]
    torch.testing.assert_close(why.similarity.sum(-1), scores)
    assert torch.equal(rowmax.maxsim(q.bfloat16(), d.bfloat16()), scores)
    assert chosen[0].endswith("bf16")


def test_autocast_of_a_device_that_has_none():
    q, d = tensors(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for pair in ((q.to("meta"), d.to("meta")), (q, d.to("meta"))):
            with pytest.raises(TypeError, match="has no memory to read"):
                rowmax.maxsim(*pair)


def test_lists_and_arrays_may_change_before_backward():
    q, d = tensors()
    mask, offsets = np.ones((2, 3), bool), [0, 3, 6]
    for backward in ("auto", "recompute"):
        a = q.clone().requires_grad_()
        (wanted,) = torch.autograd.grad(rowmax.maxsim(a, d, q_mask=mask.copy()).sum(), a)
        scores = rowmax.maxsim(a, d, q_mask=mask, backward=backward)
        mask[:] = False
        assert torch.equal(torch.autograd.grad(scores.sum(), a)[0], wanted)
        mask[:] = True
        scores = rowmax.maxsim_varlen(a.reshape(6, 6), d.reshape(20, 6), offsets, [0, 5, 10, 15, 20], backward=backward)
        offsets[1] = 1
        assert torch.equal(torch.autograd.grad(scores.sum(), a)[0], wanted)
        offsets[1] = 3


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="no such mode here")
def test_flushed_subnormals_are_the_callers_affair():
    q, d = torch.full((3, 4, 8), 1e-40), torch.ones(500, 9, 8)
    wanted = [rowmax.maxsim(q, d, threads=n) for n in (1, 3)] + [rowmax.topk(q, d, 4)[0]]
    torch.set_flush_denormal(True)
    try:
        found = [rowmax.maxsim(q, d, threads=n) for n in (1, 3)] + [rowmax.topk(q, d, 4)[0]]
        assert float(torch.tensor(1e-40) * 1) == 0, "torch still flushes"
    finally:
        torch.set_flush_denormal(False)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted)) and float(wanted[0].min()) > 0
