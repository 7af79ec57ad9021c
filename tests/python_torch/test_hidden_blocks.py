"""What maxsim_from_hidden does on a GPU around its kernels, run on the CPU: blocks, and the gradient from gathered winners."""

import pytest
import torch
from hidden_steps import Steps
from test_autograd import D_MASK, Q_MASK, tensors

import rowmax
from rowmax import _torch_hidden_cuda as blocks

FLOAT = torch.float32
CU = torch.tensor([0, 4, 4, 9])
LAYOUTS = {
    "cross": ((3, 4, 6), (2, 5, 7), {}),
    "fewer query tokens than tokens": ((1, 3, 6), (2, 50, 7), {}),
    "more query tokens than tokens": ((3, 20, 6), (4, 9, 7), {}),
    "masked": ((3, 4, 6), (2, 5, 7), {"q_mask": Q_MASK, "d_mask": D_MASK}),
    "one query": ((4, 6), (2, 5, 7), {"d_mask": D_MASK}),
    "one pair": ((4, 6), (5, 7), {}),
    "grouped": ((3, 4, 6), (3, 2, 5, 7), {"d_mask": D_MASK.expand(3, 2, 5)}),
    "one mask for all": ((3, 4, 6), (2, 5, 7), {"d_mask": D_MASK[:1]}),
    "packed": ((3, 4, 6), (9, 7), {"cu_seqlens_d": CU}),
}


def case(layout):
    q_shape, h_shape, options = LAYOUTS[layout]
    inputs = tensors(q_shape, h_shape, (6, 7), (6,), dtype=FLOAT)
    with torch.no_grad():
        if "d_mask" in options:
            inputs[1][~options["d_mask"].expand(inputs[1].shape[:-1]).bool()] = torch.nan
    return inputs, options


@pytest.fixture(autouse=True)
def steps_by_definition(monkeypatch):
    monkeypatch.setattr(blocks, "Steps", Steps)


@pytest.fixture(params=[None, 1], ids=["one block", "a block each"])
def block_bytes(request, monkeypatch):
    if request.param is not None:
        monkeypatch.setattr(blocks, "_BLOCK_BYTES", request.param)
        monkeypatch.setattr(blocks, "_PRODUCT_BLOCK_BYTES", request.param)
        monkeypatch.setattr(blocks, "_BACKWARD_BLOCK_BYTES", request.param)


def extras_of(inputs, options, normalize):
    return options | {"W": inputs[2].detach(), "b": inputs[3].detach()} | ({"normalize_hidden": True} if normalize else {})


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("block_bytes")
def test_scores(layout, normalize):
    inputs, options = case(layout)
    q, h = (t.detach() for t in inputs[:2])
    pairing = "grouped" if h.ndim == 4 else "cross"
    scores, index = blocks._score_blocks(q, h, pairing, extras_of(inputs, options, normalize), True)
    wanted, winners = rowmax.maxsim_from_hidden(*(t.detach() for t in inputs), normalize=normalize, return_index=True, **options)
    torch.testing.assert_close(scores, wanted, rtol=1e-5, atol=1e-6)
    assert torch.equal(index, winners)
    only, none = blocks._score_blocks(q, h, pairing, extras_of(inputs, options, normalize), False)
    assert torch.equal(only, scores) and none is None


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("block_bytes")
def test_gradients(layout, normalize):
    inputs, options = case(layout)
    scores, index = rowmax.maxsim_from_hidden(*inputs, normalize=normalize, return_index=True, **options)
    weight = torch.randn(scores.shape, generator=torch.Generator().manual_seed(7))
    wanted = torch.autograd.grad((scores * weight).sum(), inputs)
    pairing = "grouped" if inputs[1].ndim == 4 else "cross"
    call = (inputs[0], inputs[1], pairing, extras_of(inputs, options, normalize), index, weight)
    found = blocks.backward(*call, (True,) * 4)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    for i in range(4):
        only = blocks.backward(*call, tuple(i == j for j in range(4)))
        assert torch.equal(only[i], found[i]) and all(t is None for t in only[:i] + only[i + 1 :])


def test_rows_that_do_not_start_at_16_bytes():
    x = torch.arange(60.0, dtype=torch.float16).view(3, 20)
    for view in (x, x[:, 3:11], x[:, :15], x[1:, 1:17]):
        moved = blocks._by_16_bytes(view)
        assert moved.shape[-1] % 8 == 0 and moved.data_ptr() % 16 == 0 and moved.stride(0) % 8 == 0
        assert torch.equal(moved[:, : view.shape[1]], view) and not moved[:, view.shape[1] :].any()
    aligned = torch.zeros(5, 64, dtype=torch.float16)
    assert blocks._by_16_bytes(aligned[:, :32]).data_ptr() == aligned.data_ptr()


@pytest.mark.parametrize("shape", [(0, 4, 3, 5), (2, 0, 3, 5), (2, 4, 0, 5), (2, 4, 3, 0)])
def test_nothing_to_add(shape):
    nq, lq, nd, ld = shape
    q, h, w, b = tensors((nq, lq, 6), (nd, ld, 7), (6, 7), (6,), dtype=FLOAT)
    index = torch.full((nq, nd, lq), -1, dtype=torch.int32)
    grads = blocks.backward(q, h, "cross", extras_of((q, h, w, b), {}, True), index, torch.ones(nq, nd), (True,) * 4)
    for grad, t in zip(grads, (q, h, w, b), strict=True):
        assert grad.shape == t.shape and not grad.any()
