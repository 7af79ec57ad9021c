"""Losses over several processes give what one process gives with the joined batch; nothing hangs."""

import pytest
import rank_cases
import ranks
import torch
from loss_reference import naive_contrastive

from rowmax import losses

WORLDS = [2, 3]


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    return request.param


@pytest.fixture(scope="module")
def found(world, tmp_path_factory):
    """What each rank found, for all cases: starting processes takes longest."""
    results = ranks.run(world, rank_cases.every_case, tmp_path_factory.mktemp("ranks"), world)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def padded(d, call):
    """Dense documents and their mask, of a dense or packed part."""
    if "cu_seqlens_d" not in call:
        mask = call.get("d_mask")
        return d, torch.ones(d.shape[:2], dtype=torch.bool) if mask is None else mask
    lengths = call["cu_seqlens_d"].diff()
    mask = torch.arange(8) < lengths[:, None]
    return torch.zeros(*mask.shape, d.shape[-1], dtype=d.dtype).masked_scatter(mask[..., None], d), mask


def together(parts, dim=1):
    longest = max(p.shape[dim] for p in parts)
    fill = [torch.cat([p, p.new_zeros(p.shape[0], longest - p.shape[1], *p.shape[2:])], 1) for p in parts]
    return torch.cat(fill)


def joined(case, world):
    """The losses of the joined batch, and the leaves of its parts."""
    parts = [rank_cases.part(case, rank, world) for rank in range(world)]
    documents = [padded(d, call) for _, d, call in parts]
    first = [sum(len(d) for d, _ in documents[:rank]) for rank in range(world)]
    labels = [call.get("labels", torch.arange(len(q))) + first[i] for i, (q, _, call) in enumerate(parts)]
    more = {}
    for name in ("negatives", "negative_mask", "q_mask"):
        if name in parts[0][2]:
            more[name] = torch.cat([call[name] for _, _, call in parts])
    rows = naive_or_zero(
        torch.cat([q for q, _, _ in parts]), together([d for d, _ in documents]), together([m for _, m in documents]),
        labels=torch.cat(labels), temperature=rank_cases.TEMPERATURE, **more,
    )  # fmt: skip
    return rows, [[q, d, call["negatives"]] if "negatives" in call else [q, d] for q, d, call in parts]


def naive_or_zero(q, d, d_mask, **more):
    """A document without a kept token scores 0: it is one zero token here."""
    hidden = ~d_mask.any(1)
    d = d.where(~hidden[:, None, None], 0)
    return naive_contrastive(q, d, d_mask=d_mask | hidden[:, None], **more)


@pytest.mark.parametrize("block", [None, 2])
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("case", rank_cases.CASES)
def test_equals_one_process_on_the_joined_batch(found, world, case, ring, block):
    rows, leaves = joined(case, world)
    rows.mean().backward()
    total = sum(result[case, ring, block][0] for result in found)
    torch.testing.assert_close(total, rows.mean().detach(), rtol=1e-12, atol=1e-12)
    for result, own in zip(found, leaves, strict=True):
        for gradient, leaf in zip(result[case, ring, block][1], own, strict=True):
            assert (gradient is None) == (not leaf.requires_grad)
            if gradient is not None:
                torch.testing.assert_close(gradient, leaf.grad, rtol=1e-12, atol=1e-12)


def test_narrow_types_groups_and_gathering(world, tmp_path):
    results = ranks.run(world, rank_cases.other_forms, tmp_path, world)
    rows, leaves = joined("unequal batches", world)
    rows.mean().backward()
    for kind, tolerance in (("torch.float32", 1e-6), ("torch.bfloat16", 0.05), ("torch.float16", 0.01)):
        for ring in (False, True):
            total = sum(result[kind, ring][0] for result in results)
            torch.testing.assert_close(total.double(), rows.mean().detach(), rtol=tolerance, atol=tolerance)
            for result, own in zip(results, leaves, strict=True):
                assert [str(g.dtype) for g in result[kind, ring][1]] == [kind] * 2
                for gradient, leaf in zip(result[kind, ring][1], own, strict=True):
                    torch.testing.assert_close(gradient.double(), leaf.grad, rtol=tolerance, atol=tolerance)
    for result in results:
        assert torch.equal(result["autocast"][0], result["torch.bfloat16", False][0])
        assert all(gradient.dtype is torch.float32 and gradient.any() for gradient in result["autocast"][1])
    rows, leaves = joined("ragged masks", world)
    rows.mean().backward()
    for result, own in zip(results, leaves, strict=True):
        for gradient, leaf in zip(result["checkpoint", False] + result["checkpoint", True], own * 2, strict=True):
            torch.testing.assert_close(gradient, leaf.grad, rtol=1e-12, atol=1e-12)
    rows = rows.detach()
    torch.testing.assert_close(torch.cat([r["none"] for r in results]), rows, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(sum(r["sum"] for r in results), rows.sum(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(sum(r["no grad"] for r in results), rows.mean(), rtol=1e-12, atol=1e-12)
    check_gathering(results, world)
    check_group(results, world)


def check_gathering(results, world):
    parts = [rank_cases.part("ragged masks", rank, world) for rank in range(world)]
    tokens = torch.cat([d.detach()[call["d_mask"]] for _, d, call in parts])
    for rank, result in enumerate(results):
        everything, cu_seqlens, first, gradient = result["gather"]
        assert torch.equal(everything, tokens) and first == 3 * rank
        assert torch.equal(cu_seqlens.diff(), torch.cat([call["d_mask"].sum(1) for _, _, call in parts]))
        weight = sum(range(1, world + 1))
        assert torch.equal(gradient, weight * parts[rank][2]["d_mask"][..., None].expand(-1, -1, 6).double())
        assert result["tokens gathered by the ring"] == (0, 1)


def check_group(results, world):
    rows, leaves = joined("ragged masks", 2)
    rows.mean().backward()
    for ring in (False, True):
        for result, own in zip((results[0], results[-1]), leaves, strict=True):
            for gradient, leaf in zip(result["group", ring][1], own, strict=True):
                torch.testing.assert_close(gradient, leaf.grad, rtol=1e-12, atol=1e-12)
    for result in results[1:-1]:
        assert result["group"] == "ValueError: group does not hold this process"


def ids_of(rank):
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(0, 30, (2, 5), generator=generator), torch.randint(0, 30, (2, 5), generator=generator)


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(30, 8), torch.nn.Linear(8, 6)).double()


def test_wrapped_encoders(world, tmp_path):
    model, ids = model_of(), [ids_of(rank) for rank in range(world)]
    q, d = (model(torch.cat(side)) for side in zip(*ids))
    naive_contrastive(q, d).mean().backward()
    for result in ranks.run(world, rank_cases.trained, tmp_path, world, ids_of, model_of):
        assert {name for name, _ in result} == {"DDP", "FSDP2"}
        for gradients in result.values():
            for gradient, weight in zip(gradients, model.parameters(), strict=True):
                torch.testing.assert_close(gradient, weight.grad, rtol=1e-12, atol=1e-12)


def test_what_is_wrong_in_one_process_is_an_error_in_all(world, tmp_path):
    results = ranks.run(world, rank_cases.wrong, tmp_path, world)
    elsewhere = "RuntimeError: rank 1 of the group was called with wrong arguments"
    own = {
        "labels": "ValueError: labels must name one of 3 documents, got 3",
        "fewer documents": "ValueError: offset 0 and 3 queries need 3 documents, D has 2",
        "mixed types": "TypeError: Q is float32 but D is float64",
        "no tensor": "TypeError: Q must be a torch tensor",
        "block": "ValueError: block must be at least 1, got 0",
    }
    for name, message in own.items():
        assert results[1][name].startswith(message), results[1][name]
        assert results[0][name].startswith(elsewhere), results[0][name]
    assert results[0]["gather"].startswith("ValueError: d_mask [2, 5] does not fit D [3, 5, 6]")
    assert results[1]["gather"].startswith("RuntimeError: rank 0 of the group was called")
    for rank in range(world):
        assert results[rank]["dimension"] == "ValueError: rank 0 and rank 1 of the group differ: d = 6 and d = 5"
        assert results[rank]["type"].endswith("differ: D is float64 and D is float32")
        assert results[rank]["ring"].endswith("differ: ring = False and ring = True")
        assert results[rank]["recording"].endswith("differ: gradients are on and gradients are off")


def test_without_a_group():
    with pytest.raises(RuntimeError, match="need torch.distributed.init_process_group"):
        losses.gather_documents(torch.zeros(2, 3, 4))
