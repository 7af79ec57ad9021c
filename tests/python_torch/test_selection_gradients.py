"""Selection variants of MaxSim: gradients in every layout, torch.compile, opcheck, autocast."""

import pytest
import torch
from torch.library import opcheck

import rowmax
from rowmax import _torch_selection

Q_MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
D_MASK = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
CU_Q, CU_D = torch.tensor([0, 3, 3, 7], dtype=torch.int32), torch.tensor([0, 4, 5, 9])
FUNCTIONS = {
    "topk mean": lambda q, d, **k: rowmax.maxsim_topk_tokens(q, d, 2, **k),
    "topk sum": lambda q, d, **k: rowmax.maxsim_topk_tokens(q, d, 3, reduction="sum", **k),
    "smooth": lambda q, d, **k: rowmax.maxsim_smooth(q, d, 0.5, **k),
    "prefixes": lambda q, d, **k: rowmax.maxsim_prefixes(q, d, (2, 5, 6), **k),
    "xtr": lambda q, d, **k: rowmax.maxsim_xtr(q, d, 3, **k),
    "xtr training": lambda q, d, **k: rowmax.maxsim_xtr(q, d, 3, imputation="none", **k),
}
LAYOUTS = {
    "cross": ((3, 4, 6), (2, 5, 6), {"q_mask": Q_MASK, "d_mask": D_MASK}),
    "one query": ((4, 6), (2, 5, 6), {"d_mask": D_MASK}),
    "one pair": ((4, 6), (5, 6), {}),
    "grouped": ((3, 4, 6), (3, 2, 5, 6), {"q_mask": Q_MASK, "d_mask": D_MASK.expand(3, 2, 5)}),
    "packed": ((7, 6), (9, 6), {"cu_seqlens_q": CU_Q, "cu_seqlens_d": CU_D}),
    "dense and packed": ((3, 4, 6), (9, 6), {"q_mask": Q_MASK, "cu_seqlens_d": CU_D}),
}


def tensors(*shapes, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name, layout, normalize):
    if normalize and name == "prefixes":
        pytest.skip("prefixes are not normalised")
    q_shape, d_shape, options = LAYOUTS[layout]
    options = options | ({"normalize": True} if normalize else {})
    q, d = tensors(q_shape, d_shape)
    assert torch.autograd.gradcheck(lambda a, b: FUNCTIONS[name](a, b, **options), (q, d))
    scores = FUNCTIONS[name](q, d, **options)
    for wanted in ((q,), (d,)):
        (one,) = torch.autograd.grad(scores.sum(), wanted, retain_graph=True)
        both = torch.autograd.grad(scores.sum(), (q, d), retain_graph=True)
        assert torch.equal(one, both[0 if wanted[0] is q else 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["topk mean", "smooth", "xtr", "prefixes"])
def test_gradients_of_other_types(name, dtype):
    q, d = tensors((3, 40, 20), (5, 130, 20), dtype=dtype)
    exact = [x.detach().double().requires_grad_() for x in (q, d)]
    score = FUNCTIONS[name] if name != "prefixes" else lambda q, d: rowmax.maxsim_prefixes(q, d, (8, 20))
    wanted = torch.autograd.grad(score(*exact).square().sum(), exact)
    found = torch.autograd.grad(score(q, d).square().sum(), (q, d))
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == dtype
        assert (a.double() - b).abs().max() <= (1e-2 if dtype != torch.float32 else 1e-5) * b.abs().max()


def naive_smooth(q, d, temperature, keep):
    similarity = torch.einsum("qsd,ntd->qnst", q, d) / temperature
    return temperature * similarity.masked_fill(~keep[None, :, None], -torch.inf).logsumexp(-1).sum(-1)


def test_smooth_is_torchs_logsumexp():
    q, d = tensors((4, 33, 24), (6, 150, 24))
    keep = torch.rand(6, 150, generator=torch.Generator().manual_seed(1)) < 0.8
    weights = torch.randn(4, 6, dtype=torch.float64)
    wanted, found = naive_smooth(q, d, 0.7, keep), rowmax.maxsim_smooth(q, d, 0.7, d_mask=keep)
    torch.testing.assert_close(found, wanted)
    for a, b in zip(*(torch.autograd.grad((y * weights).sum(), (q, d)) for y in (found, wanted)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("temperature", [1e-40, 1e-8, 1e-5, 1e-3, 1e3])
def test_smooth_gradients_are_exact_at_any_temperature(temperature):
    """Equal tokens share the gradient, also where temperature x log(2) is lost beside the similarities."""
    generator = torch.Generator().manual_seed(3)
    q, d = (torch.randint(-9, 10, shape, generator=generator).float().requires_grad_() for shape in ((2, 5, 16), (3, 40, 16)))
    twice = torch.cat([d, d], 1)
    found = torch.autograd.grad(rowmax.maxsim_smooth(q, twice, temperature).sum(), (q, d))
    similarity = torch.einsum("qsd,ntd->qnst", q.double(), twice.double())
    share = (similarity - similarity.amax(-1, keepdim=True)).div(temperature).softmax(-1).detach()
    wanted = torch.autograd.grad((similarity * share).sum(), (q, d))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_have_the_same_bits_on_any_threads(name):
    q, d = tensors((5, 70, 33), (7, 120, 33), dtype=torch.float32)
    score = FUNCTIONS[name] if name != "prefixes" else lambda q, d, **k: rowmax.maxsim_prefixes(q, d, (9, 33), **k)
    first = torch.autograd.grad(score(q, d, threads=1).square().sum(), (q, d))
    for threads in (1, 2, 3):
        again = torch.autograd.grad(score(q, d, threads=threads).square().sum(), (q, d))
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_a_documents_gradient_does_not_depend_on_the_others():
    q, d = tensors((3, 40, 16), (4, 60, 16), dtype=torch.float32)
    (together,) = torch.autograd.grad(rowmax.maxsim_smooth(q, d, 0.5).sum(), d)
    alone = d[2:3].detach().requires_grad_()
    (single,) = torch.autograd.grad(rowmax.maxsim_smooth(q, alone, 0.5).sum(), alone)
    assert torch.equal(together[2:3], single)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compile(name, dynamic):
    torch._dynamo.reset()  # or the compilations of other cases count
    q, d = tensors((3, 4, 6), (2, 5, 6), dtype=torch.float32)

    def step(q, d):
        return FUNCTIONS[name](q, d, d_mask=D_MASK).square().sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    wanted, found = step(q, d), compiled(q, d)
    assert torch.equal(wanted, found)
    for a, b in zip(*(torch.autograd.grad(y, (q, d)) for y in (wanted, found)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", ["topk_tokens", "smooth", "prefixes", "xtr"])
def test_opcheck(kind):
    q, d = tensors((3, 4, 6), (2, 5, 6))
    own = {"topk_tokens": (2, True), "smooth": (0.5,), "prefixes": ([2, 6],), "xtr": (3, True)}[kind]
    arguments = _torch_selection._arguments({"d_mask": D_MASK})
    opcheck(getattr(torch.ops.rowmax, kind).default, (q, d, "cross", *arguments, *own, True))


def test_return_index_autocast_and_double_backward():
    q, d = tensors((3, 4, 6), (2, 5, 6), dtype=torch.float32)
    scores, index = rowmax.maxsim_topk_tokens(q, d, 2, return_index=True)
    assert index.dtype == torch.int32 and not index.requires_grad and scores.requires_grad
    assert torch.equal(rowmax.maxsim_topk_tokens(q.detach(), d.detach(), 2), scores.detach())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = rowmax.maxsim_smooth(q, d, 0.5)
    assert cast.dtype == torch.float32
    assert torch.equal(cast, rowmax.maxsim_smooth(q.bfloat16(), d.bfloat16(), 0.5))
    (grad,) = torch.autograd.grad(rowmax.maxsim_smooth(q, d, 0.5).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once"):
        grad.sum().backward()
    with pytest.raises(ValueError, match="out cannot be given"):
        rowmax.maxsim_smooth(q, d, 0.5, out=torch.empty(3, 2))
