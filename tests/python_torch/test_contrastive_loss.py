"""contrastive_loss, whole and in blocks of documents, against the full similarity tensor."""

import pytest
import torch
from loss_reference import kept, naive_contrastive, same_gradients, tensors
from torch.utils.checkpoint import checkpoint

from rowmax import losses

BLOCKS = [None, 1, 3, 100]
OPTIONS = {
    "plain": {},
    "temperature": {"temperature": 0.05},
    "labels": {"labels": torch.tensor([6, 0, 0, 3])},
    "masks": {"q_mask": kept(4, 3), "d_mask": kept(7, 5)},
    "hard negatives": {"with_negatives": True, "negative_mask": kept(4, 2, 6)},
    "symmetric": {"symmetric": True, "with_negatives": True, "temperature": 0.5},
}


def inputs(option):
    documents = 4 if option == "symmetric" else 7
    q, d, negatives = tensors((4, 3, 6), (documents, 5, 6), (4, 2, 6, 6))
    given = dict(OPTIONS[option])
    return (q, d) + ((negatives,) if given.pop("with_negatives", False) else ()), given


def loss(function, tokens, given, **more):
    q, d, *negatives = tokens
    return function(q, d, **given, **({"negatives": negatives[0]} if negatives else {}), **more)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("option", OPTIONS)
def test_agrees_with_the_full_similarity_tensor(option, block):
    tokens, given = inputs(option)
    wanted = loss(naive_contrastive, tokens, given)
    found = loss(losses.contrastive_loss, tokens, given, block=block, reduction="none")
    assert found.shape == (4,)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    same_gradients(loss(losses.contrastive_loss, tokens, given, block=block), wanted.mean(), tokens)
    same_gradients(loss(losses.contrastive_loss, tokens, given, block=block, reduction="sum"), wanted.sum(), tokens)


@pytest.mark.parametrize("block", [None, 2])
@pytest.mark.parametrize("option", ["masks", "hard negatives", "symmetric"])
def test_gradcheck(option, block):
    tokens, given = inputs(option)

    def per_query(*t):
        return loss(losses.contrastive_loss, t, given, block=block, normalize=True, reduction="none", threads=1)

    assert torch.autograd.gradcheck(per_query, tokens, fast_mode=True)


@pytest.mark.parametrize("block", BLOCKS)
def test_packed_sides_are_the_dense_ones_without_padding(block):
    q, d = tensors((4, 3, 6), (7, 5, 6))
    lengths = torch.tensor([5, 0, 1, 2, 5, 3, 4])
    d_mask = torch.arange(5) < lengths[:, None]
    cu = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    wanted = losses.contrastive_loss(q, d, d_mask=d_mask)
    same_gradients(losses.contrastive_loss(q, d[d_mask], cu_seqlens_d=cu, block=block), wanted, (q, d))
    both = losses.contrastive_loss(
        q.reshape(-1, 6), d[d_mask], cu_seqlens_q=[0, 3, 6, 9, 12], cu_seqlens_d=cu.tolist(), block=block
    )
    same_gradients(both, wanted, (q, d))


@pytest.mark.parametrize("block", BLOCKS)
def test_an_offset_says_where_the_own_documents_begin(block):
    q, d = tensors((4, 3, 6), (7, 5, 6))
    wanted = naive_contrastive(q, d, labels=torch.arange(3, 7)).mean()
    same_gradients(losses.contrastive_loss(q, d, offset=3, block=block), wanted, (q, d))


def test_a_broadcast_mask_and_views_work_in_blocks():
    q, d = tensors((4, 3, 6), (7, 6, 5))
    mask = torch.tensor([[1, 0, 1, 1, 0]])
    wanted = losses.contrastive_loss(q, d.mT, d_mask=mask)
    same_gradients(losses.contrastive_loss(q, d.mT, d_mask=mask, block=3), wanted, (q, d))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_narrow_types_are_scored_and_summed_in_float32(dtype):
    q, d, negatives = tensors((9, 8, 16), (9, 12, 16), (9, 2, 12, 16), dtype=dtype)
    wide = [t.detach().double().requires_grad_() for t in (q, d, negatives)]
    wanted = naive_contrastive(*wide[:2], negatives=wide[2], temperature=0.1).mean()
    for block in (None, 4):
        found = losses.contrastive_loss(q, d, negatives=negatives, temperature=0.1, block=block)
        assert found.dtype is torch.float32
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
        narrow = torch.autograd.grad(found, (q, d, negatives))
        for a, b in zip(narrow, torch.autograd.grad(wanted, wide, retain_graph=True)):
            assert a.dtype is dtype
            torch.testing.assert_close(a.double(), b, rtol=0, atol=8 * torch.finfo(dtype).eps * b.abs().max().item())


def test_large_scores_lose_nothing_in_blocks():
    """The logarithm of a sum of exponentials near 1e5 has no digits left in float32 for a loss near 1."""
    q, d = tensors((6, 4, 8), (6, 5, 8))
    with torch.no_grad():
        q.mul_(0.1)
    far = torch.full((1, 1, 8), 1e4, dtype=torch.float64)
    narrow = [(t.detach() + shift).float().requires_grad_() for t, shift in ((q, 1), (d * 0.01, far))]
    whole, blocks = (losses.contrastive_loss(*narrow, temperature=1.0, block=b) for b in (None, 2))
    assert abs(whole) > 0.1
    torch.testing.assert_close(blocks, whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("block", [None, 5])
def test_reruns_and_threads_give_the_same_bits(block):
    q, d = tensors((24, 9, 16), (24, 20, 16), dtype=torch.float32)

    def run(threads):
        value = losses.contrastive_loss(q, d, temperature=0.1, symmetric=True, block=block, threads=threads)
        return value, *torch.autograd.grad(value, (q, d))

    wanted = run(1)
    for threads in (1, 2, 3):
        assert all(torch.equal(a, b) for a, b in zip(run(threads), wanted))


def saved_bytes(call, *inputs):
    known, total = {t.untyped_storage().data_ptr() for t in inputs}, {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            total[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = call()
    del result
    return sum(total.values())


def test_blocks_save_numbers_of_queries_and_not_of_pairs():
    q, d = tensors((50, 4, 8), (400, 4, 8), dtype=torch.float32)
    assert saved_bytes(lambda: losses.contrastive_loss(q, d), q, d) >= 50 * 400 * 4
    assert saved_bytes(lambda: losses.contrastive_loss(q, d, block=20), q, d) < 50 * 4 * 8


def test_blocks_never_score_more_than_a_block(monkeypatch):
    from rowmax.losses import _blocks

    sizes, evaluate = [], _blocks.TORCH.evaluate

    def watched(*arguments):
        result = evaluate(*arguments)
        sizes.append((result[0] if isinstance(result, tuple) else result).shape)
        return result

    monkeypatch.setattr(_blocks.TORCH, "evaluate", watched)
    q, d, negatives = tensors((4, 3, 6), (7, 5, 6), (4, 5, 5, 6))
    losses.contrastive_loss(q, d, negatives=negatives, block=3).backward()
    assert sizes == [(4, 3), (4, 3), (4, 1), (4, 3), (4, 2)] * 2


@pytest.mark.parametrize("block", [None, 3])
def test_only_what_needs_a_gradient_gets_one(block):
    q, d = tensors((4, 3, 6), (4, 5, 6))
    for needed, other in ((q, d), (d, q)):
        other.requires_grad_(False)
        losses.contrastive_loss(q, d, block=block).backward()
        assert needed.grad is not None and other.grad is None
        other.requires_grad_(True)
        needed.grad = None
    with torch.no_grad():
        assert not losses.contrastive_loss(q, d, block=block).requires_grad


@pytest.mark.parametrize("block", [None, 3])
def test_double_backward_is_an_error(block):
    q, d = tensors((4, 3, 6), (4, 5, 6))
    (gradient,) = torch.autograd.grad(losses.contrastive_loss(q, d, block=block), q, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not implemented"):
        gradient.norm().backward()


def test_changes_before_the_backward_pass():
    q, d = tensors((4, 3, 6), (4, 5, 6))
    mask = kept(4, 5)
    wanted = torch.autograd.grad(losses.contrastive_loss(q, d, d_mask=mask), (q, d))
    value = losses.contrastive_loss(q, d, d_mask=mask, block=2)
    mask.zero_()  # blocks have a copy
    assert all(torch.allclose(a, b) for a, b in zip(torch.autograd.grad(value, (q, d)), wanted))
    copy = d * 1
    value = losses.contrastive_loss(q, copy, block=2)
    copy += 1
    with pytest.raises(RuntimeError, match="inplace"):
        value.backward()


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("block", [None, 3])
def test_checkpointing(block, reentrant):
    q, d = tensors((4, 3, 6), (4, 5, 6))
    wanted = losses.contrastive_loss(q, d, block=block)
    found = checkpoint(lambda a, b: losses.contrastive_loss(a, b, block=block), q, d, use_reentrant=reentrant)
    found.backward()
    for t, wanted_gradient in zip((q, d), torch.autograd.grad(wanted, (q, d))):
        assert torch.equal(t.grad, wanted_gradient)


@pytest.mark.parametrize("block", [None, 3])
def test_autocast(block):
    q, d, negatives = tensors((4, 3, 6), (4, 5, 6), (4, 2, 5, 6), dtype=torch.float32)
    narrow = [t.detach().bfloat16() for t in (q, d, negatives)]
    wanted = losses.contrastive_loss(narrow[0], narrow[1], negatives=narrow[2], block=block)
    with torch.autocast("cpu", torch.bfloat16):
        found = losses.contrastive_loss(q, d, negatives=negatives, block=block)
    assert torch.equal(found, wanted)
    found.backward()
    assert all(t.grad.dtype is torch.float32 and t.grad.any() for t in (q, d, negatives))


def test_compiles_without_a_break_and_with_one_in_blocks():
    q, d, negatives = tensors((4, 3, 6), (4, 5, 6), (4, 2, 5, 6), dtype=torch.float32)

    def whole(a, b, c):
        return losses.contrastive_loss(a, b, negatives=c, temperature=0.1, symmetric=True, normalize=True)

    same_gradients(torch.compile(whole, fullgraph=True, backend="aot_eager")(q, d, negatives), whole(q, d, negatives), (q, d), 1e-6)

    def blocks(a, b):
        return losses.contrastive_loss(a * 2, b, block=2) * 2

    same_gradients(torch.compile(blocks, backend="aot_eager")(q, d), blocks(q, d), (q, d), 1e-6)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="disable"):
        torch.compile(lambda a, b: losses.contrastive_loss(a, b, block=3), backend="aot_eager", fullgraph=True)(q, d)


def test_errors_name_the_argument_and_the_values():
    q, d, negatives = tensors((4, 3, 6), (7, 5, 6), (4, 2, 5, 6))
    wrong = [
        (TypeError, "Q must be a torch tensor, got a builtins.list", {"Q": [1]}),
        (ValueError, r"D must be \[N, L, d\], or \[T, d\] with cu_seqlens_d, got \[5, 6\]", {"D": d[0]}),
        (ValueError, "d_mask and cu_seqlens_d exclude", {"D": d[0], "cu_seqlens_d": [0, 5], "d_mask": [[1] * 5]}),
        (ValueError, "offset 4 and 4 queries need 8 documents, D has 7", {"offset": 4}),
        (ValueError, "offset -1", {"offset": -1}),
        (ValueError, "offset is 2, but labels", {"offset": 2, "labels": torch.arange(4)}),
        (ValueError, r"labels \[3\] must be \[4\]", {"labels": torch.arange(3)}),
        (TypeError, "labels must be int32 or int64, got float32", {"labels": torch.zeros(4)}),
        (ValueError, "labels must name one of 7 documents, got 7", {"labels": torch.arange(4, 8)}),
        (ValueError, "labels must name one of 7 documents, got -1", {"labels": torch.arange(-1, 3)}),
        (ValueError, "symmetric needs .* got 4 queries, 7 documents", {"symmetric": True}),
        (ValueError, "symmetric needs .* got labels", {"symmetric": True, "labels": torch.arange(4), "D": d[:4]}),
        (ValueError, r"negatives \[4, 2, 5, 5\] must be \[4, K, Ln, 6\]", {"negatives": negatives[..., :5]}),
        (TypeError, "negatives are torch.float32", {"negatives": negatives.float()}),
        (ValueError, "temperature must be above 0, got 0", {"temperature": 0}),
        (TypeError, "temperature must be a number", {"temperature": torch.ones(())}),
        (ValueError, "reduction must be one of .* got 'max'", {"reduction": "max"}),
        (ValueError, "block must be at least 1, got 0", {"block": 0}),
        (TypeError, "block must be an int or None, got 1.5", {"block": 1.5}),
        (ValueError, r"d_mask \[4, 5\] does not fit D \[7, 5, 6\]", {"d_mask": torch.ones(4, 5), "block": 3}),
        (ValueError, r"negative_mask \[4, 2\] does not fit",
         {"negatives": negatives, "negative_mask": torch.ones(4, 2), "block": 3}),
        (ValueError, r"cu_seqlens_d\[0\] must be 0, got 1", {"D": d[0], "cu_seqlens_d": [1, 2, 3, 4, 5], "block": 2}),
        (ValueError, r"cu_seqlens_d must rise, but \[2\] is 1 after 2", {"D": d[0], "cu_seqlens_d": [0, 2, 1, 4, 5], "block": 2}),
        (ValueError, "cu_seqlens_d ends at 6, but D has 5 tokens", {"D": d[0], "cu_seqlens_d": [0, 2, 3, 4, 6], "block": 2}),
        (ValueError, "backward must be one of", {"backward": "fast"}),
    ]  # fmt: skip
    for kind, message, change in wrong:
        arguments = {"Q": q, "D": d} | change
        with pytest.raises(kind, match=message):
            losses.contrastive_loss(arguments.pop("Q"), arguments.pop("D"), **arguments)
