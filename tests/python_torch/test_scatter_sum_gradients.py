"""scatter_sum of tensors: gradients, torch.compile, opcheck."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

import rowmax


def sample(lead=(), channels=(3,), sources=11, n=4, dtype=torch.float64, index_dtype=torch.int64):
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(-1, n, (*lead, sources), generator=generator, dtype=index_dtype)
    values = torch.randn((*lead, sources, *channels), generator=generator, dtype=torch.float64).to(dtype)
    return index, values


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_values_of_every_type(dtype):
    index, values = sample(sources=500, n=3, dtype=dtype)
    sums = rowmax.scatter_sum(index, values, 3)
    assert sums.dtype == dtype
    kept = index >= 0
    wanted = torch.zeros(3, 3, dtype=torch.float64).index_add_(0, index[kept], values[kept].double())
    torch.testing.assert_close(sums.double(), wanted, rtol=1e-2 if dtype.itemsize == 2 else 1e-5, atol=1e-2)


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 1, 2, 1)])
@pytest.mark.parametrize("channels", [(), (3,), (2, 2)])
def test_gradients(lead, channels, index_dtype):
    index, values = sample(lead, channels, index_dtype=index_dtype)
    values.requires_grad_()
    assert gradcheck(lambda v: rowmax.scatter_sum(index, v, 4), (values,))
    assert gradgradcheck(lambda v: rowmax.scatter_sum(index, v, 4) ** 2, (values,))
    grid = rowmax.inverse_grid(index, 4)
    assert gradcheck(lambda v: rowmax.scatter_sum(index, v, 4, grid), (values,))


def test_nothing_to_sum():
    values = torch.ones(3, 2, requires_grad=True)
    sums = rowmax.scatter_sum(torch.full((3,), -1), values, 0)
    assert sums.shape == (0, 2)
    (gradient,) = torch.autograd.grad(sums.sum(), values)
    assert gradient.tolist() == [[0, 0]] * 3
    none = torch.ones(0, 2, requires_grad=True)
    assert rowmax.scatter_sum(torch.zeros(0, dtype=torch.int64), none, 2).tolist() == [[0, 0]] * 2


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic):
    torch._dynamo.reset()  # or the compilations of other cases count
    index, values = sample((2,), dtype=torch.float32)
    values.requires_grad_()

    def step(index, values):
        grid = rowmax.inverse_grid(index, 4)
        return rowmax.scatter_sum(index, values, 4, grid).square().sum() + rowmax.scatter_sum(index, values, 5).sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    wanted, got = step(index, values), compiled(index, values)
    assert got == wanted
    assert torch.equal(*[torch.autograd.grad(y, values)[0] for y in (wanted, got)])


def test_opcheck():
    index, values = sample((2,))
    values.requires_grad_()
    opcheck(torch.ops.rowmax.scatter_sum.default, (index, values, 4, None, None, True, 0))
    opcheck(torch.ops.rowmax.scatter_sum.default, (index, values, 4, *rowmax.inverse_grid(index, 4), True, 2))
    table = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    opcheck(torch.ops.rowmax.gather_rows.default, (index, table))


def test_same_bits_eagerly_and_with_gradients():
    index, values = sample(sources=5000, channels=(9,), n=2, dtype=torch.float32)
    once = rowmax.scatter_sum(index, values, 2)
    assert torch.equal(rowmax.scatter_sum(index, values.clone().requires_grad_(), 2), once)
    table = torch.randn(7, 5, requires_grad=True)
    many = torch.randint(0, 7, (4000,))
    grads = [torch.autograd.grad((torch.ops.rowmax.gather_rows(many, table) ** 3).sum(), table)[0] for _ in range(2)]
    assert torch.equal(*grads)


def test_out_dtype_and_errors():
    index, values = sample(dtype=torch.float32)
    out = torch.empty(4, 3)
    assert rowmax.scatter_sum(index, values, 4, out=out) is out
    assert torch.equal(out, rowmax.scatter_sum(index, values, 4))
    with pytest.raises(ValueError, match="out cannot be given when values requires grad"):
        rowmax.scatter_sum(index, values.requires_grad_(), 4, out=out)
    bits = torch.randn(11, 3).bfloat16()
    sums = rowmax.scatter_sum(index, bits.view(torch.uint16), 4, dtype="bfloat16")
    assert torch.equal(sums.view(torch.bfloat16), rowmax.scatter_sum(index, bits, 4))
    with pytest.raises(TypeError, match="index.*torch.*values.*numpy"):
        rowmax.scatter_sum(index, values.detach().numpy(), 4)
