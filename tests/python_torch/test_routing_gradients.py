"""Routing, gathering and clustering tensors."""

import pytest
import torch

import rowmax
from rowmax import routing


def layer(x, logits, experts, k, capacity=None):
    """A mixture of linear experts, packed."""
    index, chosen = routing.top_experts(logits, k)
    packed, route = routing.dispatch(x, index, len(experts), capacity=capacity)
    rows = torch.arange(packed.shape[0])
    expert = torch.bucketize(rows, route.cu_seqlens[1:], right=True).clamp(max=len(experts) - 1)
    y = torch.einsum("pc,pco->po", packed, experts[expert])
    return routing.combine(y, route, chosen.softmax(-1))


def dense_layer(x, logits, experts, k):
    chosen, index = logits.topk(k, dim=-1)
    every = torch.einsum("tc,eco->teo", x, experts)
    return (every.gather(1, index[..., None].expand(-1, -1, every.shape[-1])) * chosen.softmax(-1)[..., None]).sum(1)


def sample(tokens=9, d=4, experts=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = ((tokens, d), (tokens, experts), (experts, d, 5))
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_layer_of_experts(k):
    x, logits, experts = sample()
    torch.testing.assert_close(layer(x, logits, experts, k), dense_layer(x, logits, experts, k))
    assert torch.autograd.gradcheck(lambda *a: layer(*a, k), (x, logits, experts))
    assert torch.autograd.gradcheck(lambda *a: layer(*a, k, capacity=2), (x, logits, experts))


def test_gradients_have_the_same_bits_on_every_run():
    x, logits, experts = sample(3000, 16, 5, torch.float32)
    runs = [torch.autograd.grad(layer(x, logits, experts, 2).square().sum(), (x, logits)) for _ in range(3)]
    assert all(torch.equal(a, b) for run in runs for a, b in zip(run, runs[0], strict=True))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic):
    torch._dynamo.reset()  # or the compilations of other cases count
    x, logits, experts = sample(dtype=torch.float32)
    for capacity in (None, 2):
        def step(x, logits, experts, capacity=capacity):
            return layer(x, logits, experts, 2, capacity).square().sum()

        compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        wanted, found = step(x, logits, experts), compiled(x, logits, experts)
        torch.testing.assert_close(found, wanted)
        grads = [torch.autograd.grad(y, (x, logits, experts)) for y in (wanted, found)]
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_added_in_float32(dtype):
    x, logits, _ = sample(200, 8, 4, dtype)
    packed, route = routing.dispatch(x, routing.top_experts(logits, 3)[0], 4)
    weights = torch.rand(200, 3).to(dtype)
    out = routing.combine(packed, route, weights)
    assert out.dtype == dtype
    torch.testing.assert_close(out, (x.float() * weights.float().sum(-1, keepdim=True)).to(dtype), rtol=1e-2, atol=1e-3)


def test_top_1_attention_is_maxsim_and_a_gather():
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, n, d, generator=generator, dtype=torch.float64).requires_grad_() for n, d in ((7, 6), (9, 6), (9, 3)))

    def attend(q, k, v):
        _, index = rowmax.maxsim_pairs(q, k, return_index=True)
        return routing.gather(index, v)

    winners = torch.einsum("bsd,btd->bst", q, k).argmax(-1)
    torch.testing.assert_close(attend(q, k, v), v.gather(1, winners[..., None].expand(-1, -1, 3)))
    assert torch.autograd.gradcheck(lambda v: attend(q, k, v), (v,))


def test_kmeans_of_tensors():
    X = torch.randn(300, 6, generator=torch.Generator().manual_seed(2))
    found = rowmax.kmeans(X, 4)
    wanted = rowmax.kmeans(X.numpy(), 4)
    assert isinstance(found.centroids, torch.Tensor) and found.index.dtype == torch.int64
    assert found.centroids.tolist() == wanted.centroids.tolist() and found.index.tolist() == wanted.index.tolist()
    half = rowmax.kmeans(X.bfloat16(), 4)
    assert half.centroids.dtype == torch.float32
