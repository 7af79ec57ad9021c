"""Compressed tokens as torch tensors: the same kind comes out, traced or not."""

import numpy as np
import pytest
import torch

import rowmax

torch.manual_seed(3)
Q = torch.nn.functional.normalize(torch.randn(2, 6, 24), dim=-1)
D = torch.nn.functional.normalize(torch.randn(5, 9, 24), dim=-1)


def test_int8_tensors_in_tensors_out():
    q, x = rowmax.quantize_int8(Q), rowmax.quantize_int8(D)
    for got, wanted in zip(x, rowmax.quantize_int8(D.numpy()), strict=True):
        assert isinstance(got, torch.Tensor)
        np.testing.assert_array_equal(got, wanted)
    assert (x[0].dtype, x[1].dtype) == (torch.int8, torch.float32)
    scores, index = rowmax.maxsim_int8(*q, *x, return_index=True)
    wanted = rowmax.maxsim_int8(*(t.numpy() for t in (*q, *x)), return_index=True)
    np.testing.assert_array_equal(scores, wanted[0])
    np.testing.assert_array_equal(index, wanted[1])
    out = torch.empty(2, 5)
    assert rowmax.maxsim_int8(*q, *x, out=out) is out
    assert torch.equal(out, scores)


def test_int8_of_tensors_that_require_grad_and_of_half_ones():
    codes, scale = rowmax.quantize_int8(Q.clone().requires_grad_(), "document")
    assert not scale.requires_grad
    assert torch.equal(codes, rowmax.quantize_int8(Q, "document")[0])
    half = Q.to(torch.bfloat16)
    assert torch.equal(rowmax.quantize_int8(half)[0], rowmax.quantize_int8(half.float())[0])
    other = rowmax.quantize_int8(D)
    with pytest.raises(NotImplementedError, match="q_scale requires grad"):
        rowmax.maxsim_int8(codes, scale.requires_grad_(), *other)


def test_int8_under_autocast_and_compile():
    q, x = rowmax.quantize_int8(Q), rowmax.quantize_int8(D)
    wanted = rowmax.maxsim_int8(*q, *x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(rowmax.maxsim_int8(*q, *x), wanted)
    compiled = torch.compile(lambda *call: 2 * rowmax.maxsim_int8(*call), fullgraph=True, backend="eager")
    assert torch.equal(compiled(*q, *x), 2 * wanted)
