"""The way of a GPU to score other choices than the maximum, block by block: on the CPU, beside the native functions."""

import itertools

import pytest
import torch
from test_selection_gradients import LAYOUTS, tensors

from rowmax import _torch_selection_blocks as blocks
from rowmax._torch_ops import _arguments


def inputs(layout, kind, dtype):
    q_shape, d_shape, options = LAYOUTS[layout]
    q, d = (t.detach() for t in tensors(q_shape, d_shape, dtype=dtype))
    if kind == "ties":
        q, d = q.round(), d.round()
    if kind == "nan":
        d.view(-1)[3] = float("nan")
    extras = options | ({"normalize": True} if kind == "normalize" else {})
    pairing = "grouped" if d.ndim == 4 else "cross"
    return (q, d, pairing), extras, _arguments(extras, q.device)


def alike(got, want):
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        if g.is_floating_point():
            torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-6, equal_nan=True)
        else:
            assert torch.equal(g, w)


@pytest.fixture(params=[1 << 25, 8], ids=["at once", "small blocks"])
def at_once(request, monkeypatch):
    monkeypatch.setattr(blocks, "_SIMILARITIES", request.param)


KINDS = ("plain", "normalize", "ties", "nan")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_and_what_is_kept(layout, kind, at_once):
    for dtype in (torch.float64, torch.float32):
        call, extras, arguments = inputs(layout, kind, dtype)
        for parameters in itertools.product((1, 2, 7), (True, False)):
            want = torch.ops.rowmax.topk_tokens(*call, *arguments, *parameters, True)
            alike(blocks.select("topk_tokens", *call, extras, parameters), want)
        for parameters in itertools.product((1, 3, 8, 100), (True, False)):
            want = torch.ops.rowmax.xtr(*call, *arguments, *parameters, True)
            alike(blocks.select("xtr", *call, extras, parameters), want)
        for temperature in (0.5, 1e-3):
            want = torch.ops.rowmax.smooth(*call, *arguments, temperature, True)
            alike(blocks.select("smooth", *call, extras, (temperature,))[:1], want[:1])
        if kind != "normalize":
            want = torch.ops.rowmax.prefixes(*call, *arguments, (2, 5, 6), True)
            alike(blocks.select("prefixes", *call, extras, ((2, 5, 6),)), want)


@pytest.mark.parametrize("kind", ["plain", "normalize", "ties"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout, kind, at_once):
    call, extras, arguments = inputs(layout, kind, torch.float64)
    for parameters in ((2, True), (3, False)):
        scores, index = torch.ops.rowmax.topk_tokens(*call, *arguments, *parameters, True)
        grad = torch.randn(scores.shape, dtype=scores.dtype)
        rest = (*parameters, index, grad, True, True)
        alike(blocks.topk_tokens_backward(*call, arguments, *rest), torch.ops.rowmax.topk_tokens_backward(*call, *arguments, *rest))
    scores, native = torch.ops.rowmax.smooth(*call, *arguments, 0.5, True)
    grad = torch.randn(scores.shape, dtype=scores.dtype)
    kept = blocks.select("smooth", *call, extras, (0.5,))[1]
    want = torch.ops.rowmax.smooth_backward(*call, *arguments, 0.5, native, grad, True, True)
    alike(blocks.smooth_backward(*call, extras, 0.5, kept, grad, True, True), want)
    for_q, nothing = blocks.smooth_backward(*call, extras, 0.5, kept, grad, True, False)
    assert torch.equal(for_q, blocks.smooth_backward(*call, extras, 0.5, kept, grad, True, True)[0]) and nothing.numel() == 0
