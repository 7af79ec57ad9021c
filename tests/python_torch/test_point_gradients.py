"""nearest and chamfer of torch tensors: gradients in every layout, torch.compile, opcheck, what is refused."""

import numpy as np
import pytest
import torch
from torch.library import opcheck

import rowmax

CU_P, CU_R = torch.tensor([0, 3, 3, 7], dtype=torch.int32), torch.tensor([0, 4, 6, 9])
P_MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
R_MASK = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)

LAYOUTS = {
    "one item": ((4, 3), (5, 3), {}),
    "batch": ((3, 4, 2), (3, 5, 2), {}),
    "masked": ((3, 4, 3), (3, 5, 3), {"p_mask": P_MASK, "r_mask": R_MASK}),
    "grouped": ((2, 2, 3, 3), (2, 2, 4, 3), {}),
    "packed": ((8, 3), (9, 3), {"cu_seqlens_p": CU_P, "cu_seqlens_r": CU_R}),
    "packed and dense": ((7, 3), (3, 5, 3), {"cu_seqlens_p": CU_P, "r_mask": R_MASK}),
    "five dimensions": ((2, 1, 2, 3, 3), (2, 1, 2, 4, 3), {}),
    "long": ((2, 3, 300), (2, 4, 300), {}),
}


def tensors(*shapes, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("metric", ["l2_sq", "l1"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradcheck_nearest(layout, metric):
    p_shape, r_shape, keywords = LAYOUTS[layout]
    p, r = tensors(p_shape, r_shape)

    def finite(a, b):
        distance, index = rowmax.nearest(a, b, 3, metric=metric, **keywords)
        return torch.where(index < 0, 0, distance)

    fast = layout == "long"
    assert torch.autograd.gradcheck(finite, (p, r), fast_mode=fast)
    assert torch.autograd.gradcheck(lambda a: finite(a, r.detach()), (p,), fast_mode=fast)
    assert torch.autograd.gradcheck(lambda b: finite(p.detach(), b), (r,), fast_mode=fast)


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradcheck_chamfer(layout, reduction, one_sided):
    p_shape, r_shape, keywords = LAYOUTS[layout]
    p, r = tensors(p_shape, r_shape)
    for metric in ("l2_sq", "l1"):

        def distance(a, b, how=metric):
            return rowmax.chamfer(a, b, metric=how, reduction=reduction, one_sided=one_sided, **keywords)

        assert torch.autograd.gradcheck(distance, (p, r), fast_mode=layout == "long")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_agrees_with_cdist(dtype):
    p, r = tensors((2, 40, 3), (2, 50, 3), dtype=dtype)
    value = rowmax.chamfer(p, r)
    value.sum().backward()
    wide = [x.detach().double().requires_grad_() for x in (p, r)]
    d = torch.cdist(*wide, compute_mode="donot_use_mm_for_euclid_dist").square()
    wanted = d.amin(2).mean(1) + d.amin(1).mean(1)
    wanted.sum().backward()
    assert value.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
    torch.testing.assert_close(value.double(), wanted, rtol=1e-6, atol=1e-6)
    bound = {torch.float16: 2e-3, torch.bfloat16: 1e-2}.get(dtype, 1e-6)
    for x, w in zip((p, r), wide):
        assert x.grad.dtype is dtype
        torch.testing.assert_close(x.grad.double(), w.grad, rtol=bound, atol=bound * 0.1)


def test_results_are_those_of_numpy_with_and_without_gradients():
    p, r = tensors((3, 9, 3), (3, 7, 3), dtype=torch.float32)
    wanted = rowmax.chamfer(p.detach().numpy(), r.detach().numpy(), reduction="none", return_index=True)
    for a, b in ((p, r), (p.detach(), r.detach()), (torch.nn.Parameter(p), r)):
        found = rowmax.chamfer(a, b, reduction="none", return_index=True)
        for x, y in zip((*found[0], *found[1]), (*wanted[0], *wanted[1]), strict=True):
            np.testing.assert_array_equal(x.detach(), y)
        assert found[0][0].requires_grad is a.requires_grad and not found[1][0].requires_grad
    with torch.no_grad():
        assert not rowmax.nearest(p, r)[0].requires_grad
    bits = p.detach().bfloat16()
    again = rowmax.chamfer(bits.view(torch.uint16), bits.view(torch.uint16).flip(1), dtype="bfloat16")
    assert torch.equal(again, rowmax.chamfer(bits, bits.flip(1)))


def test_nothing_to_see_has_no_gradient():
    p, r = tensors((2, 3, 3), (2, 4, 3))
    value = rowmax.chamfer(p, r, r_mask=torch.tensor([[False], [True]]).expand(2, 4))
    value.sum().backward()
    assert value[0] == 0 and not p.grad[0].any() and not r.grad[0].any() and p.grad[1].all()
    lonely = torch.zeros(2, 0, 3, dtype=torch.float64, requires_grad=True)
    rowmax.chamfer(p, lonely).sum().backward()
    assert lonely.grad.shape == (2, 0, 3)


def test_gradients_have_the_same_bits_for_any_threads():
    p, r = tensors((6000, 3), (5000, 3), dtype=torch.float32)
    with torch.no_grad():
        r[:4000] = r[:4000] * 1e-3 + 50  # a few targets are chosen by thousands
    grads = [torch.autograd.grad(rowmax.chamfer(p, r, threads=n), (p, r)) for n in (1, 2, 5, 5)]
    for other in grads[1:]:
        assert all(torch.equal(a, b) for a, b in zip(other, grads[0]))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_fullgraph(backend):
    p, r = tensors((2, 9, 3), (2, 7, 3), dtype=torch.float32)

    def loss(a, b, mask):
        distance, index = rowmax.nearest(a * 2, b, 2, p_mask=mask)
        return rowmax.chamfer(a, b, reduction="sum", metric="l1").sum() + distance[mask].sum(), index

    mask = torch.arange(9) < torch.tensor([[9], [4]])
    found, wanted = torch.compile(loss, fullgraph=True, backend=backend)(p, r, mask), loss(p, r, mask)
    assert torch.equal(found[1], wanted[1])
    torch.testing.assert_close(found[0], wanted[0])
    for a, b in zip(*(torch.autograd.grad(value, (p, r)) for value in (found[0], wanted[0]))):
        torch.testing.assert_close(a, b)


def test_fullgraph_of_other_forms():
    p, r = tensors((8, 3), (9, 3))

    def packed(a, b, cu_p, cu_r, out):
        rowmax.chamfer(a.detach(), b.detach(), cu_seqlens_p=cu_p, cu_seqlens_r=cu_r, out=out)
        return rowmax.chamfer(a, b, cu_seqlens_p=cu_p, cu_seqlens_r=cu_r, reduction="none", return_index=True)

    outs = torch.zeros(2, 3, dtype=torch.float64)
    found = torch.compile(packed, fullgraph=True, backend="aot_eager")(p, r, CU_P, CU_R, outs[0])
    wanted = packed(p, r, CU_P, CU_R, outs[1])
    assert torch.equal(outs[0], outs[1]) and outs[0].any()
    for a, b in zip(found, wanted):
        assert all(torch.equal(x, y) for x, y in zip(a, b))


def test_dynamic_shapes_compile_once():
    compiled = torch.compile(lambda a, b: rowmax.chamfer(a, b), fullgraph=True, backend="aot_eager", dynamic=True)
    rowmax.chamfer(torch.ones(1, 1), torch.ones(1, 1))  # the first tensor seen loads the glue
    with torch._dynamo.config.patch(error_on_recompile=True):
        for n in (3, 5, 9):
            p, r = tensors((n, n + 1, 50), (n, n + 3, 50))
            value = compiled(p, r)
            assert torch.equal(value, rowmax.chamfer(p, r))
            assert torch.autograd.grad(value.sum(), p)[0].any()


def test_opcheck():
    from rowmax import _torch_points

    p, r = tensors((3, 4, 3), (3, 5, 3))
    given = _torch_points._arguments(p, r, {"p_mask": P_MASK, "r_mask": R_MASK})
    opcheck(torch.ops.rowmax.nearest.default, (*given, 2))
    for reduction in ("mean", "none"):
        for one_sided in (False, True):
            opcheck(torch.ops.rowmax.chamfer.default, (*given, reduction, one_sided))
    plain = (p.detach(), r.detach(), *given[2:])
    distance, index = rowmax.nearest(p.detach(), r.detach(), 2)
    opcheck(torch.ops.rowmax.nearest_backward.default, (*plain, 2, index, distance, True, False))
    value, (index_p, index_r) = rowmax.chamfer(p.detach(), r.detach(), return_index=True)
    arguments = (*plain, "mean", False, index_p, index_r, value, None, None, True, True)
    opcheck(torch.ops.rowmax.chamfer_backward.default, arguments)
    packed = _torch_points._arguments(*tensors((8, 3), (9, 3)), {"cu_seqlens_p": CU_P, "cu_seqlens_r": CU_R})
    opcheck(torch.ops.rowmax.chamfer.default, (*packed, "sum", False))


def test_what_is_refused():
    p, r = tensors((3, 4, 3), (3, 5, 3))
    with pytest.raises(ValueError, match="out cannot be given"):
        rowmax.chamfer(p, r, out=torch.empty(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="out cannot be given"):
        rowmax.nearest(p, r, out=(torch.empty(3, 4, 1), torch.empty(3, 4, 1, dtype=torch.int64)))
    (gradient,) = torch.autograd.grad(rowmax.chamfer(p, r).sum(), p, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()
    with pytest.raises(TypeError, match="P is a torch.Tensor but R is a numpy.ndarray"):
        rowmax.chamfer(p, r.detach().numpy())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(p.detach(), torch.ones_like(p))
        with pytest.raises(NotImplementedError, match="forward-mode"):
            rowmax.chamfer(dual, r.detach())
