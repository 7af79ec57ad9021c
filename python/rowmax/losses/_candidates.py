"""Losses of scores that each query has for its own candidates: pairwise losses, and distillation from a teacher.

Softmax over one positive and its negatives is ColBERT's (https://arxiv.org/abs/2004.12832), the KL divergence ColBERTv2's
(https://arxiv.org/abs/2112.01488), margin-MSE is Hofstätter et al.'s (https://arxiv.org/abs/2010.02666).
"""

from __future__ import annotations

import torch
from torch import Tensor

from rowmax.losses import _arguments as check


def pairwise_loss(
    positive: Tensor, negative: Tensor, *, margin: float | None = None, temperature: float = 1.0,
    reduction: check.Reduction = "mean",
) -> Tensor:  # fmt: skip
    """The positive's score against each negative's.

    positive:    `[B]` scores, as of `maxsim_pairs`.
    negative:    `[B]` or `[B, K]` scores, as of `maxsim` with each query its own candidates.
    margin:      None: cross entropy over the positive and its negatives. A number: the hinge
                 max(0, margin - positive + negative), over all B x K pairs.
    temperature: divides the scores, and so not the margin.
    reduction:   "mean", "sum" or "none" (`[B]`; of the hinge the shape of `negative`).
    """
    check.tensor("positive", positive), check.tensor("negative", negative)
    check.positive("temperature", temperature)
    if positive.ndim != 1 or negative.ndim not in (1, 2) or len(negative) != len(positive):
        raise ValueError(
            f"positive {list(positive.shape)} and negative {list(negative.shape)} must be [B] and [B] or [B, K]"
        )
    first = check.wide(positive)[:, None] / temperature
    rest = check.wide(negative).reshape(len(negative), -1 if negative.numel() else 0) / temperature
    if margin is None:
        return check.reduced(-torch.log_softmax(torch.cat([first, rest], 1), 1)[:, 0], reduction)
    return check.reduced((margin - first + rest).clamp(min=0).reshape(negative.shape), reduction)


def kl_distillation_loss(
    scores: Tensor, teacher: Tensor, *, mask: Tensor | None = None, min_max: bool = False, temperature: float = 1.0,
    reduction: check.Reduction = "mean",
) -> Tensor:  # fmt: skip
    """KL divergence of the student's softmax over each query's candidates from the teacher's: KL(teacher || student).

    scores:      `[B, K]`, as of `maxsim` with each query its own candidates.
    teacher:     `[B, K]`; no gradient flows to it.
    mask:        `[B, K]`, True or non-zero keeps a candidate; a query without any adds 0.
    min_max:     put both through `min_max_scores` first, so that scales do not matter.
    temperature: divides both (after min_max); the loss is not multiplied by its square.
    reduction:   over the queries: "mean", "sum" or "none" (`[B]`).

    Computed in float32 or better whatever the type of the scores.
    """
    scores, teacher, kept = _distillation(scores, teacher, mask)
    check.positive("temperature", temperature)
    if min_max:
        scores, teacher = min_max_scores(scores, mask=kept), min_max_scores(teacher, mask=kept)
    student = torch.log_softmax(_hidden(scores / temperature, kept, -1), -1)
    target = torch.log_softmax(_hidden(teacher / temperature, kept, -1), -1)
    terms = target.exp() * (target - student)
    return check.reduced((terms if kept is None else terms.where(kept, 0)).sum(-1), reduction)


def margin_mse_loss(
    scores: Tensor, teacher: Tensor, *, mask: Tensor | None = None, reduction: check.Reduction = "mean"
) -> Tensor:
    """Squared difference of the student's and the teacher's margins of the positive over each negative.

    scores:    `[B, 1 + K]`: the positive's score in column 0, then the negatives'.
    teacher:   the same from the teacher; no gradient flows to it.
    mask:      `[B, 1 + K]`, True or non-zero keeps a candidate; a hidden positive hides its row.
    reduction: over the margins that are kept: "mean", "sum", or "none" (`[B, K]`, hidden ones 0).
    """
    scores, teacher, kept = _distillation(scores, teacher, mask)
    if scores.shape[1] < 2:
        raise ValueError(f"scores {list(scores.shape)} must be [B, 1 + K] with at least one negative")
    check.one_of_reductions(reduction)
    difference = (scores - teacher)[:, :1] - (scores - teacher)[:, 1:]
    if kept is None:
        return check.reduced(difference.square(), reduction)
    kept = kept[:, :1] & kept[:, 1:]
    squares = difference.where(kept, 0).square()
    return squares.sum() / kept.sum().clamp(min=1) if reduction == "mean" else check.reduced(squares, reduction)


def min_max_scores(scores: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Each row of `[..., K]` moved and scaled to lie between 0 and 1, those that `mask` hides left out; differentiable.

    A row whose scores are all equal becomes 0, without a gradient. float32 or better comes out.
    """
    scores = check.wide(check.tensor("scores", scores))
    kept = _mask(mask, scores)
    low = _hidden(scores, kept, 1).amin(-1, keepdim=True)
    span = _hidden(scores, kept, -1).amax(-1, keepdim=True) - low
    flat = span <= 0
    scaled = (scores - low) / span.where(~flat, 1)
    return scaled.where(~flat if kept is None else kept & ~flat, 0)


def _distillation(scores: Tensor, teacher: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    check.tensor("scores", scores), check.tensor("teacher", teacher)
    if scores.ndim != 2:
        raise ValueError(f"scores must be [B, K], got {list(scores.shape)}")
    check.same_shape("teacher", teacher, "scores", scores)
    scores = check.wide(scores)
    return scores, teacher.detach().to(scores), _mask(mask, scores)


def _mask(mask: Tensor | None, scores: Tensor) -> Tensor | None:
    if mask is None:
        return None
    check.same_shape("mask", check.tensor("mask", mask), "scores", scores)
    return mask != 0


def _hidden(scores: Tensor, kept: Tensor | None, sign: int) -> Tensor:
    """Hidden candidates as the end of the range: an infinity would make NaN of a row without any other."""
    return scores if kept is None else scores.where(kept, sign * torch.finfo(scores.dtype).max)
