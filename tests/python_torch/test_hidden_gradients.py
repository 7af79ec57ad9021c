"""maxsim_from_hidden of tensors: gradients of Q, H, W and b."""

import resource

import pytest
import torch
from test_autograd import D_MASK, Q_MASK, naive, saved, tensors
from torch.library import opcheck

import rowmax

SHAPES = (3, 4, 6), (2, 5, 7), (6, 7), (6,)


def composed(q, h, w, b=None, normalize=True, **masks):
    d = torch.nn.functional.linear(h, w, b)
    if normalize:
        norm = d.norm(dim=-1, keepdim=True)
        d = torch.where(norm == 0, 0, d / torch.where(norm == 0, 1, norm))
    return naive(q, d, **masks)


LAYOUTS = {
    "cross": ((3, 4, 6), (2, 5, 7), {}),
    "masked": ((3, 4, 6), (2, 5, 7), {"q_mask": Q_MASK, "d_mask": D_MASK}),
    "one query": ((4, 6), (2, 5, 7), {"d_mask": D_MASK}),
    "one pair": ((4, 6), (5, 7), {}),
    "grouped": ((3, 4, 6), (3, 2, 5, 7), {"d_mask": D_MASK.expand(3, 2, 5)}),
    "packed": ((3, 4, 6), (9, 7), {"cu_seqlens_d": torch.tensor([0, 4, 4, 9])}),
}


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradcheck(layout, normalize, biased):
    q_shape, h_shape, options = LAYOUTS[layout]
    inputs = tensors(q_shape, h_shape, (6, 7), *([(6,)] if biased else []))
    assert torch.autograd.gradcheck(lambda *t: rowmax.maxsim_from_hidden(*t, normalize=normalize, **options), inputs)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("shape", [(3, 32, 5, 40, 24, 16), (16, 33, 300, 7, 16, 24), (40, 20, 6, 300, 50, 33)])
def test_agrees_with_torch(shape, normalize):
    nq, lq, nd, ld, hidden, dim = shape
    inputs = tensors((nq, lq, dim), (nd, ld, hidden), (dim, hidden), (dim,))
    weight = torch.randn(nq, nd, dtype=torch.float64)
    found = rowmax.maxsim_from_hidden(*inputs, normalize=normalize)
    wanted = composed(*inputs, normalize=normalize)
    torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-11)
    for a, b in zip(
        torch.autograd.grad((found * weight).sum(), inputs), torch.autograd.grad((wanted * weight).sum(), inputs), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_narrow_types_have_gradients_of_their_own_type(dtype):
    inputs = tensors((3, 20, 16), (6, 30, 24), (16, 24), (16,), dtype=dtype)
    found = torch.autograd.grad(rowmax.maxsim_from_hidden(*inputs).sum(), inputs)
    wide = [t.detach().double().requires_grad_() for t in inputs]
    wanted = torch.autograd.grad(composed(*wide).sum(), wide)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype is dtype
        torch.testing.assert_close(a.double(), b, rtol=2 * torch.finfo(dtype).eps, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_token_chosen_2048_times(dtype):
    q, h, w, b = torch.ones(64, 32, 1), torch.ones(1, 1, 1), torch.ones(1, 1), torch.zeros(1)
    inputs = [t.to(dtype).requires_grad_() for t in (q, h, w, b)]
    rowmax.maxsim_from_hidden(*inputs, normalize=False).sum().backward()
    assert [t.grad.flatten()[0].item() for t in inputs] == [1, 2048, 2048, 2048]


def test_reruns_threads_and_backward_names_give_the_same_bits():
    inputs = tensors((40, 33, 24), (30, 50, 40), (24, 40), (24,), dtype=torch.float32)
    wanted = torch.autograd.grad(rowmax.maxsim_from_hidden(*inputs).sum(), inputs)
    for options in ({"threads": 1}, {"threads": 2}, {"threads": 5}, {"backward": "recompute"}, {"backward": "lowmem"}):
        found = torch.autograd.grad(rowmax.maxsim_from_hidden(*inputs, **options).sum(), inputs)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True)), options


def test_only_what_needs_a_gradient_gets_one():
    inputs = tensors(*SHAPES)
    wanted = torch.autograd.grad(rowmax.maxsim_from_hidden(*inputs).sum(), inputs)
    for i in range(4):
        only = [t.detach().requires_grad_(i == j) for j, t in enumerate(inputs)]
        rowmax.maxsim_from_hidden(*only).sum().backward()
        assert torch.equal(only[i].grad, wanted[i])
        assert all(t.grad is None for t in only[:i] + only[i + 1 :])


def test_what_sees_nothing_and_zero_tokens_get_exactly_zero():
    q, h, w, b = tensors(*SHAPES)
    with torch.no_grad():
        h[1, 2] = torch.nan  # hidden
        h[0, 2] = torch.nan
    rowmax.maxsim_from_hidden(q, h, w, b, q_mask=Q_MASK, d_mask=D_MASK).sum().backward()
    assert (h.grad[1] == 0).all() and (h.grad[0, 2] == 0).all() and (q.grad[2] == 0).all()
    assert all(t.grad.isfinite().all() for t in (q, h, w, b))
    q, h, w, _ = tensors(*SHAPES)
    zero = torch.zeros_like(h).requires_grad_()
    rowmax.maxsim_from_hidden(q, zero, w).sum().backward()
    assert not q.grad.any() and not zero.grad.any() and not w.grad.any()


def test_what_is_saved():
    inputs = tensors(*SHAPES)
    known = {t.data_ptr() for t in inputs}
    extra = [t for t in saved(lambda: rowmax.maxsim_from_hidden(*inputs)) if t.data_ptr() not in known]
    assert [(t.dtype, t.shape) for t in extra] == [(torch.int32, (3, 2, 4))]
    kept = saved(lambda: rowmax.maxsim_from_hidden(*inputs, backward="recompute"))
    assert [t for t in kept if t.data_ptr() not in known] == []
    with torch.no_grad():
        assert saved(lambda: rowmax.maxsim_from_hidden(*inputs)) == []
        assert not rowmax.maxsim_from_hidden(*inputs).requires_grad


def test_double_backward_and_out_are_errors():
    inputs = tensors(*SHAPES)
    (gradient,) = torch.autograd.grad(rowmax.maxsim_from_hidden(*inputs).sum(), inputs[2], create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not implemented"):
        gradient.norm().backward()
    with pytest.raises(ValueError, match="out cannot be given when Q, H, W or b requires grad"):
        rowmax.maxsim_from_hidden(*inputs, out=torch.empty(3, 2, dtype=torch.float64))
    plain, out = [t.detach() for t in inputs], torch.empty(3, 2, dtype=torch.float64)
    assert rowmax.maxsim_from_hidden(*plain, out=out) is out
    assert torch.equal(out, rowmax.maxsim_from_hidden(*plain))


def test_compiled_in_one_graph():
    inputs = tensors((3, 4, 6), (2, 5, 7), (6, 7), (6,), dtype=torch.float32)

    def loss(q, h, w, b):
        return rowmax.maxsim_from_hidden(q * 2, h, w, b, d_mask=D_MASK).exp()

    for options in ({"backend": "aot_eager"}, {"backend": "aot_eager", "dynamic": True}):
        compiled = torch.compile(loss, fullgraph=True, **options)
        found, wanted = compiled(*inputs), loss(*inputs)
        assert torch.equal(found, wanted)
        for a, b in zip(torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(wanted.sum(), inputs), strict=True):
            assert torch.equal(a, b)


def test_opcheck():
    q, h, w, b = tensors(*SHAPES)
    options = (D_MASK.float(), None, True, None, 0, "")
    for bias in (b, None):
        for want_index in (True, False):
            opcheck(torch.ops.rowmax.score_hidden.default, (q, h, w, bias, "cross", None, *options, want_index))
    q, h, w, b = (t.detach() for t in (q, h, w, b))
    scores, index = rowmax.maxsim_from_hidden(q, h, w, b, d_mask=D_MASK, return_index=True)
    call = (q, h, w, b, "cross", None, *options, index, scores)
    for wanted in ((True, True, True, True), (False, True, False, True), (True, False, True, False)):
        opcheck(torch.ops.rowmax.score_hidden_backward.default, (*call, *wanted))


def test_autocast_casts_as_a_linear_layer_does():
    inputs = tensors(*SHAPES, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        scores = rowmax.maxsim_from_hidden(*inputs)
    assert scores.dtype is torch.float32
    assert torch.equal(scores, rowmax.maxsim_from_hidden(*(t.bfloat16() for t in inputs)))
    scores.sum().backward()
    assert all(t.grad.dtype is torch.float32 for t in inputs)


def test_a_module_learns():
    """One step of gradient descent lowers a loss whose only parameters are the layer's."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(24, 16)
    q, h = torch.nn.functional.normalize(torch.randn(6, 5, 16), dim=-1), torch.randn(6, 9, 24)
    losses = []
    for _ in range(20):
        scores = rowmax.maxsim_from_hidden(q, h, layer.weight, layer.bias)
        loss = torch.nn.functional.cross_entropy(5 * scores, torch.arange(6))
        losses.append(loss.item())
        layer.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter -= 0.05 * parameter.grad
    assert losses[-1] < losses[0] / 2


def test_memory_of_both_passes_is_bounded():
    """Tokens in float32 would take 64 MiB, and hidden states in float32 another 64: neither is ever made."""
    q = torch.randn(2, 8, 512).requires_grad_()
    h = torch.randn(1, 16, 512).expand(2048, 16, 512)
    w = torch.randn(512, 512).requires_grad_()
    small = [t.detach().bfloat16() for t in (q, h, w)]
    small = [small[0].requires_grad_(), small[1], small[2].requires_grad_()]
    warm = [small[0], small[1][:1], small[2]]
    rowmax.maxsim_from_hidden(*warm, threads=1).sum().backward()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rowmax.maxsim_from_hidden(*small, threads=1).sum().backward()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 << 10
