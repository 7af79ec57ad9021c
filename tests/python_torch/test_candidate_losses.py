"""Losses of scores of a query's own candidates, against torch's own functions."""

import pytest
import torch
from loss_reference import kept, naive_own, same_gradients, tensors
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import rowmax
from rowmax import losses


def scored():
    q, d = tensors((4, 3, 6), (4, 5, 7, 6))
    return q, d, rowmax.maxsim(q, d), naive_own(q, d)


def test_softmax_over_a_positive_and_its_negatives():
    q, d, found, wanted = scored()
    zeros = torch.zeros(4, dtype=torch.int64)
    same_gradients(losses.pairwise_loss(found[:, 0], found[:, 1:]), F.cross_entropy(wanted, zeros), (q, d))
    one = losses.pairwise_loss(found[:, 0], found[:, 1], temperature=0.5)
    same_gradients(one, F.softplus((wanted[:, 1] - wanted[:, 0]) / 0.5).mean(), (q, d))
    each = losses.pairwise_loss(found[:, 0], found[:, 1:], reduction="none")
    torch.testing.assert_close(each, F.cross_entropy(wanted, zeros, reduction="none"))


def test_hinge():
    q, d, found, wanted = scored()
    ones = torch.ones(4, 1, dtype=torch.float64)
    reference = F.margin_ranking_loss(wanted[:, :1].expand(4, 4), wanted[:, 1:], ones, margin=1.5)
    assert 0 < (wanted[:, 1:] - wanted[:, :1] + 1.5 > 0).sum() < 16  # both sides of the hinge
    same_gradients(losses.pairwise_loss(found[:, 0], found[:, 1:], margin=1.5), reference, (q, d))
    assert losses.pairwise_loss(found[:, 0], found[:, 1:], margin=0, reduction="none").shape == (4, 4)
    assert losses.pairwise_loss(found[:, 0], found[:, 1], margin=0, reduction="none").shape == (4,)


def test_kl_divergence():
    q, d, found, wanted = scored()
    (teacher,) = tensors((4, 5), seed=1)
    log_target = torch.log_softmax(teacher.detach() / 2, -1)
    reference = F.kl_div(torch.log_softmax(wanted / 2, -1), log_target, log_target=True, reduction="batchmean")
    loss = losses.kl_distillation_loss(found, teacher, temperature=2)
    same_gradients(loss, reference, (q, d))
    loss.backward()
    assert teacher.grad is None
    assert losses.kl_distillation_loss(teacher, teacher).item() == 0


def test_kl_divergence_of_min_max_scores_ignores_shift_and_scale():
    q, d, found, wanted = scored()
    (teacher,) = tensors((4, 5), seed=1)

    def scaled(x):
        low, high = x.min(-1, keepdim=True).values, x.max(-1, keepdim=True).values
        return (x - low) / (high - low)

    log_target = torch.log_softmax(scaled(teacher.detach()), -1)
    reference = F.kl_div(torch.log_softmax(scaled(wanted), -1), log_target, log_target=True, reduction="batchmean")
    same_gradients(losses.kl_distillation_loss(found, teacher, min_max=True), reference, (q, d))
    same_gradients(losses.kl_distillation_loss(3 * found - 7, 0.1 * teacher + 2, min_max=True), reference, (q, d))


def test_margin_mse():
    q, d, found, wanted = scored()
    teacher = tensors((4, 5), seed=1)[0].detach()
    margins = wanted[:, :1] - wanted[:, 1:], teacher[:, :1] - teacher[:, 1:]
    same_gradients(losses.margin_mse_loss(found, teacher), F.mse_loss(*margins), (q, d))
    each = losses.margin_mse_loss(found, teacher, reduction="none")
    torch.testing.assert_close(each, F.mse_loss(*margins, reduction="none"))


@pytest.mark.parametrize("min_max", [False, True])
def test_hidden_candidates_are_as_good_as_absent(min_max):
    (scores,) = tensors((4, 6))
    teacher = tensors((4, 6), seed=1)[0].detach()
    mask = kept(4, 6)
    poison = torch.where(mask, scores, 1e30)
    each = losses.kl_distillation_loss(poison, teacher, mask=mask, min_max=min_max, reduction="none")
    margins = losses.margin_mse_loss(poison, teacher, mask=mask)
    pairs = 0.0
    for i in range(4):
        own = scores[i : i + 1, mask[i]], teacher[i : i + 1, mask[i]]
        torch.testing.assert_close(each[i], losses.kl_distillation_loss(*own, min_max=min_max), rtol=1e-12, atol=1e-12)
        pairs = pairs + losses.margin_mse_loss(*own, reduction="sum")
    torch.testing.assert_close(margins, pairs / mask[:, 1:].sum(), rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(each.sum() + margins, scores)
    assert gradient.isfinite().all() and (gradient[~mask] == 0).all() and gradient[mask].all()


def every_loss(scores, teacher, mask):
    for min_max in (False, True):
        yield losses.kl_distillation_loss(scores, teacher, mask=mask, min_max=min_max)
    yield losses.margin_mse_loss(scores, teacher, mask=mask)
    if mask is None:
        yield losses.pairwise_loss(scores[:, 0], scores[:, 1:])
        yield losses.pairwise_loss(scores[:, 0], scores[:, 1:], margin=1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_stays_finite(dtype):
    extreme = torch.tensor([[65504, -65504, 3e4, 0], [1e-7, 0, 0, 0], [5, 5, 5, 5], [-6e4, 6e4, 6e4, -6e4]]).to(dtype)
    for teacher in (extreme, extreme.flip(0), -extreme):
        for mask in (None, torch.tensor([[1, 1, 0, 1], [1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 0, 0]])):
            scores = extreme.clone().requires_grad_()
            for loss in every_loss(scores, teacher, mask):
                assert loss.dtype is torch.float32 and loss.isfinite()
                (gradient,) = torch.autograd.grad(loss, scores)
                assert gradient.dtype is dtype
                wide = scores.detach().double().requires_grad_()
            for loss in every_loss(wide, teacher.double(), mask):
                (gradient,) = torch.autograd.grad(loss, wide)
                assert gradient.isfinite().all()


def test_rows_of_equal_or_no_candidates():
    scores = torch.full((2, 3), 4.0, requires_grad=True)
    assert not losses.min_max_scores(scores).any()
    hidden = torch.tensor([[1, 1, 1], [0, 0, 0]])
    teacher = torch.tensor([[0.0, 1, 2], [3, 4, 5]])
    each = losses.kl_distillation_loss(scores, teacher, mask=hidden, reduction="none")
    assert each[0] > 0 and each[1] == 0
    (gradient,) = torch.autograd.grad(each.sum() + losses.margin_mse_loss(scores, teacher, mask=hidden), scores)
    assert gradient[0].any() and (gradient[1] == 0).all()


def test_gradcheck():
    (scores,) = tensors((4, 6))
    teacher = tensors((4, 6), seed=1)[0].detach()
    for mask in (None, kept(4, 6)):
        assert torch.autograd.gradcheck(lambda s: tuple(every_loss(s, teacher, mask)), scores, fast_mode=True)  # noqa: B023


def test_autocast_and_checkpoints():
    q, d = tensors((4, 3, 6), (4, 5, 7, 6), dtype=torch.float32)
    teacher = tensors((4, 5), seed=1)[0].detach().float()

    def step(a, b):
        return sum(every_loss(rowmax.maxsim(a, b), teacher, None))

    wanted = torch.autograd.grad(step(q, d), (q, d))
    found = torch.autograd.grad(checkpoint(step, q, d, use_reentrant=False), (q, d))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted))
    narrow = step(q.bfloat16(), d.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(step(q, d), narrow)


def test_compiles_whole():
    q, d, _, _ = scored()
    teacher = tensors((4, 5), seed=1)[0].detach()

    def step(a, b, t):
        return sum(every_loss(rowmax.maxsim(a, b), t, None))

    same_gradients(torch.compile(step, fullgraph=True, backend="aot_eager")(q, d, teacher), step(q, d, teacher), (q, d))


def test_errors_name_the_argument_and_the_values():
    s, t = torch.zeros(4, 5), torch.zeros(4, 6)
    for message, call in {
        r"teacher \[4, 6\] does not fit scores \[4, 5\]": lambda: losses.kl_distillation_loss(s, t),
        r"mask \[4, 6\] does not fit scores \[4, 5\]": lambda: losses.kl_distillation_loss(s, s, mask=t),
        r"scores must be \[B, K\], got \[4\]": lambda: losses.margin_mse_loss(s[:, 0], s[:, 0]),
        r"scores \[4, 1\] must be \[B, 1 \+ K\]": lambda: losses.margin_mse_loss(s[:, :1], s[:, :1]),
        r"positive \[4, 5\] and negative \[4, 6\]": lambda: losses.pairwise_loss(s, t),
        r"positive \[3\] and negative \[4, 6\]": lambda: losses.pairwise_loss(s[:3, 0], t),
        "temperature must be above 0, got -1": lambda: losses.kl_distillation_loss(s, s, temperature=-1),
        "reduction must be one of 'mean', 'sum', 'none', got 'avg'": lambda: losses.margin_mse_loss(s, s, reduction="avg"),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="teacher must be a torch tensor, got a builtins.list"):
        losses.kl_distillation_loss(s, [1])
