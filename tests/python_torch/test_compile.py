"""torch.library operators, torch.compile, autocast, tensor subclasses."""

import subprocess
import sys

import pytest
import torch
from test_autograd import LAYOUTS, tensors
from torch.library import opcheck

import rowmax


def same_as_eager(function, *inputs, **options):
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", **options)
    found, wanted = compiled(*inputs), function(*inputs)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    needs = [t for t in inputs if t.requires_grad]
    scores = (found[0], wanted[0]) if isinstance(wanted, tuple) else (found, wanted)
    for a, b in zip(*(torch.autograd.grad(s.sum(), needs) for s in scores)):
        assert torch.equal(a, b)
    return compiled


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fullgraph_forward_and_backward(layout):
    q_shape, d_shape, score = LAYOUTS[layout]
    q, d = tensors(q_shape, d_shape, dtype=torch.float32)
    same_as_eager(lambda a, b: score(a * 2, b, normalize=True), q, d)


@pytest.mark.parametrize("backward", ["inverse_grid", "recompute"])
def test_backward_names(backward):
    q, d = tensors((3, 4, 6), (2, 5, 6))
    same_as_eager(lambda a, b: rowmax.maxsim(a, b, backward=backward), q, d)


def test_index_topk_and_out():
    q, d = tensors((3, 4, 6), (7, 5, 6))
    same_as_eager(lambda a, b: rowmax.maxsim(a, b, return_index=True), q, d)
    same_as_eager(lambda a, b: rowmax.topk(a, b, 3, backward="recompute"), q, d)
    out = torch.empty(3, 7, dtype=torch.float64)
    torch.compile(lambda a, b, o: rowmax.maxsim(a, b, out=o), fullgraph=True, backend="aot_eager")(q.detach(), d.detach(), out)
    assert torch.equal(out, rowmax.maxsim(q, d).detach())


@pytest.mark.parametrize("dynamic", [False, True])
def test_explain_and_the_inverse_grid(dynamic):
    def both(q, d, index):
        why = rowmax.explain(q, d, normalize=True)
        return *why, *rowmax.inverse_grid(index, d.shape[0])

    q, d = (t.detach() for t in tensors((3, 4, 6), (7, 5, 6), dtype=torch.float32))
    index = torch.tensor([[[[[2, -1, 6, 2], [0, 0, 1, 5]]]]])  # five dimensions
    found = torch.compile(both, fullgraph=True, backend="aot_eager", dynamic=dynamic)(q, d, index)
    for a, b in zip(found, both(q, d, index), strict=True):
        assert a.dtype is b.dtype and torch.equal(a, b)
    outs = torch.empty(8, dtype=torch.int64), torch.empty(4, dtype=torch.int64)
    torch.compile(lambda i, *o: rowmax.inverse_grid(i, 7, out=o), fullgraph=True, backend="aot_eager")(index[0, 0, 0, 0], *outs)
    assert outs[0].tolist() == [0, 0, 0, 2, 2, 2, 2, 3] and outs[1].tolist() == [0, 3, 2, -1]


def test_the_length_of_the_longest_query_may_be_unknown():
    q, d = tensors((7, 6), (9, 6))
    cu_q, cu_d = torch.tensor([0, 3, 3, 7]), torch.tensor([0, 4, 5, 9])
    compiled = torch.compile(
        lambda a, b, x, y: rowmax.maxsim_varlen(a, b, x, y, return_index=True), fullgraph=True, backend="aot_eager"
    )
    scores, index = compiled(q, d, cu_q, cu_d)
    wanted, wanted_index = rowmax.maxsim_varlen(q, d, cu_q, cu_d, return_index=True)
    assert torch.equal(scores, wanted) and torch.equal(index, wanted_index)
    assert torch.equal(torch.autograd.grad(scores.sum(), q)[0], torch.autograd.grad(wanted.sum(), q)[0])


def test_dynamic_shapes_compile_once():
    compiled = torch.compile(lambda a, b: rowmax.maxsim(a, b), fullgraph=True, backend="aot_eager", dynamic=True)
    rowmax.maxsim(*tensors((1, 1, 1), (1, 1, 1)))  # the first tensor seen loads the glue
    with torch._dynamo.config.patch(error_on_recompile=True):
        for n in (3, 5, 9):
            rowmax.maxsim(torch.nn.Parameter(torch.ones(1, 1)), torch.ones(1, 1))  # nor does a new type compile again
            q, d = tensors((n, n + 1, 50), (n + 2, n + 3, 50), dtype=torch.float32)
            scores = compiled(q, d)
            assert torch.equal(scores, rowmax.maxsim(q, d))
            gradient = torch.autograd.grad(scores.sum(), d)[0]
            assert torch.equal(gradient, torch.autograd.grad(rowmax.maxsim(q, d).sum(), d)[0])


def test_inductor():
    q, d = tensors((3, 4, 6), (7, 5, 6), dtype=torch.float32)
    compiled = torch.compile(lambda a, b: rowmax.maxsim(torch.relu(a), b).exp(), fullgraph=True)
    wanted = rowmax.maxsim(torch.relu(q), d).exp()
    torch.testing.assert_close(compiled(q, d), wanted)
    found = torch.autograd.grad(compiled(q, d).sum(), (q, d))
    torch.testing.assert_close(found, torch.autograd.grad(wanted.sum(), (q, d)))


def test_the_first_call_may_be_a_compiled_one():
    code = (
        "import torch, rowmax\n"
        "q, d = torch.ones(1, 2, 4), torch.ones(3, 2, 4)\n"
        "f = torch.compile(lambda a, b: rowmax.maxsim(a, b), fullgraph=True, backend='aot_eager')\n"
        "print(f(q, d).tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[[8.0, 8.0, 8.0]]", result.stderr


def operator_arguments(q, d, extras=None):
    from rowmax import _torch_ops

    return q, d, "cross", *_torch_ops._arguments(extras or {})


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("want_index", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_opcheck_score(dtype, want_index, grad):
    q, d = tensors((3, 4, 6), (2, 5, 6), dtype=dtype)
    arguments = operator_arguments(q.detach().requires_grad_(grad), d.detach(), {"d_mask": torch.ones(2, 5)})
    opcheck(torch.ops.rowmax.score.default, (*arguments, want_index, False))


def test_opcheck_the_others():
    q, d = (t.detach() for t in tensors((3, 4, 6), (2, 5, 6)))
    scores, index = rowmax.maxsim(q, d, return_index=True)
    for for_q, for_d in ((True, True), (True, False), (False, True)):
        arguments = (*operator_arguments(q, d), index, scores, for_q, for_d)
        opcheck(torch.ops.rowmax.score_backward.default, arguments)
    opcheck(torch.ops.rowmax.topk.default, (*operator_arguments(q, d), 5, 0))
    opcheck(torch.ops.rowmax.explain.default, operator_arguments(q, d))
    opcheck(torch.ops.rowmax.inverse_grid.default, (index, 5, True))


def test_opcheck_packed():
    q, d = tensors((7, 6), (9, 6))
    extras = {"cu_seqlens_q": torch.tensor([0, 3, 3, 7]), "cu_seqlens_d": torch.tensor([0, 4, 5, 9]), "max_seqlen_q": 4}
    opcheck(torch.ops.rowmax.score.default, (*operator_arguments(q, d, extras), True, False))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_autocast_casts_the_tokens_and_not_the_scores(dtype, compiled):
    q, d = tensors((3, 4, 6), (2, 5, 6), dtype=dtype)

    def score(a, b):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return rowmax.maxsim(a, b)

    scores = (torch.compile(score, fullgraph=True, backend="aot_eager") if compiled else score)(q, d)
    assert scores.dtype is torch.float32
    assert torch.equal(scores, rowmax.maxsim(q.bfloat16(), d.bfloat16()))
    gradient = torch.autograd.grad(scores.sum(), q)[0]
    assert gradient.dtype is dtype and gradient.any()


def test_autocast_leaves_double_alone_and_mixtures_are_cast():
    q, d = tensors((3, 4, 6), (2, 5, 6))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert rowmax.maxsim(q, d).dtype is torch.float64
        rowmax.maxsim(q.float(), d.bfloat16())
        with torch.autocast("cpu", enabled=False), pytest.raises(TypeError):
            rowmax.maxsim(q.float(), d.bfloat16())


def test_subclasses_and_parameters():
    class Tagged(torch.Tensor):
        pass

    q, d = tensors((3, 4, 6), (2, 5, 6))
    wanted = rowmax.maxsim(q, d)
    assert torch.equal(rowmax.maxsim(torch.nn.Parameter(q), d), wanted)
    assert torch.equal(rowmax.maxsim(q.as_subclass(Tagged), d).as_subclass(torch.Tensor), wanted)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = rowmax.maxsim(mode.from_tensor(q), mode.from_tensor(d))
        assert fake.shape == (3, 2) and fake.dtype is torch.float64
