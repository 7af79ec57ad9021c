"""Scores and cross entropy block by block of documents: the score matrix never exists.

The forward pass keeps, for each query, the maximum and the sum of exponentials so far; the backward pass scores every block
again and weighs it with the softmax that is then known (the recomputation of FlashAttention, https://arxiv.org/abs/2205.14135,
for a loss). Documents come in shards: those of this process, or those that travel round a ring of processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rowmax._frameworks import Extras
from rowmax._torch import TORCH, _as_computed, _kept, gradients, refuse_double_backward


class Shard(NamedTuple):
    """Documents that lie together: `[Nd, Ld, d]`, packed tokens with `bounds`, or `[Nq, K, Ld, d]` of the queries' own."""

    size: int
    first: int | None = 0
    """The number of its first document, as labels count; None where no label can point."""
    mask: Tensor | None = None
    bounds: list[int] | None = None

    def part(self, tokens: Tensor, begin: int, end: int) -> Tensor:
        """A view of some documents' tokens, or of their gradient."""
        if self.bounds is not None:
            return tokens[self.bounds[begin] : self.bounds[end]]
        return tokens[begin:end] if tokens.ndim == 3 else tokens[:, begin:end]

    def extras(self, begin: int, end: int, device: torch.device) -> Extras:
        if self.bounds is not None:
            cu_seqlens = [bound - self.bounds[begin] for bound in self.bounds[begin : end + 1]]
            return {"cu_seqlens_d": torch.tensor(cu_seqlens, device=device)}
        if self.mask is None:
            return {}
        if self.mask.ndim == 3:
            return {"d_mask": self.mask[:, begin:end]}
        return {"d_mask": self.mask if len(self.mask) == 1 else self.mask[begin:end]}


class Tour:
    """The shards of a source in turn, each with what its gradient is added to."""

    def __init__(self, shard: Shard, tokens: Tensor, with_gradient: bool) -> None:
        self.shard, self.tokens = shard, tokens
        # Every document is in one block, so nothing is added up in the narrow type.
        self.gradient = torch.zeros_like(tokens, memory_format=torch.contiguous_format) if with_gradient else None

    def __iter__(self) -> Iterator[tuple[Shard, Tensor, Tensor | None]]:
        yield self.shard, self.tokens, self.gradient


class Documents:
    """A source of shards: the documents of this process."""

    def __init__(self, tokens: Tensor, given: Extras, pairing: str = "cross") -> None:
        self.tokens, self.pairing = tokens, pairing
        bounds, mask = given.get("cu_seqlens_d"), given.get("d_mask")
        bounds = None if bounds is None else bounds_of(bounds, tokens)
        mask = None if mask is None else mask_of(mask, tokens, pairing)
        size = len(bounds) - 1 if bounds is not None else tokens.shape[1 if pairing == "grouped" else 0]
        self.shard = Shard(size, None if pairing == "grouped" else 0, mask, bounds)

    def tour(self, tokens: Tensor, with_gradient: bool) -> Tour:
        return Tour(self.shard, tokens, with_gradient)


@dataclass
class Call:
    sources: list[Any]
    extras: Extras
    temperature: float
    symmetric: bool
    block: int
    wanted: tuple[bool, ...] | None = None
    """Whose gradients all processes have agreed to find; None: those that this backward pass asks for."""

    def blocks(self, tours: list[Any]) -> Iterator[tuple[str, int | None, Tensor, Extras, Tensor | None]]:
        """(pairing, number of the first document, tokens, extras, where their gradient goes)"""
        for source, tour in zip(self.sources, tours, strict=True):
            for shard, tokens, gradient in tour:
                for begin in range(0, shard.size, self.block):
                    end = min(begin + self.block, shard.size)
                    part = shard.part(tokens, begin, end)
                    extras = self.extras | shard.extras(begin, end, tokens.device)
                    first = None if shard.first is None else shard.first + begin
                    yield source.pairing, first, part, extras, None if gradient is None else shard.part(gradient, begin, end)


@torch.compiler.disable
def losses(
    Q: Tensor, sources: list[Any], labels: Tensor, extras: Extras, temperature: float, symmetric: bool, block: int,
    wanted: tuple[bool, ...] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Cross entropies of each query over all documents, and (symmetric) of each document over all queries."""
    check_block(block)
    for source in sources:
        _, source.tokens = _as_computed(Q, source.tokens, extras)
    Q, _ = _as_computed(Q, Q, extras)
    extras = {n: v.clone() if isinstance(v, Tensor) else v for n, v in _kept(extras).items()}
    tokens = [source.tokens for source in sources]
    for source in sources:
        del source.tokens  # the graph holds them, until the backward pass
    call = Call(sources, extras, temperature, symmetric, block, wanted)
    rows, columns, *_ = _Losses.apply(call, Q, labels, *tokens)
    return rows, columns


def check_block(block: int | None) -> None:
    if block is not None and not isinstance(block, int):
        raise TypeError(f"block must be an int or None, got {block!r}")
    if block is not None and block < 1:
        raise ValueError(f"block must be at least 1, got {block}")


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, Q: Tensor, labels: Tensor, *tokens: Tensor) -> tuple[Tensor, ...]:
        like = {"device": Q.device, "dtype": torch.float64 if Q.dtype is torch.float64 else torch.float32}
        highest, total = torch.full(labels.shape, -torch.inf, **like), torch.zeros(labels.shape, **like)
        answer, columns = torch.full(labels.shape, torch.nan, **like), []
        tours = [source.tour(t, False) for source, t in zip(call.sources, tokens, strict=True)]
        for pairing, first, part, extras, _ in call.blocks(tours):
            scores = TORCH.evaluate(Q, part, pairing, extras).div_(call.temperature)
            if first is not None:
                answer = _of_labels(scores, labels, first, answer)
                if call.symmetric:
                    columns.append(-torch.log_softmax(scores, 0)[first:].diagonal())
            if scores.numel():
                highest, total = _with_block(scores, highest, total)
        log_total = total.log()
        ctx.call = call
        ctx.save_for_backward(Q, labels, _finite(highest), log_total, *tokens)
        rows = log_total - (answer - _finite(highest))
        return rows, torch.cat(columns) if columns else rows.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        Q, labels, highest, log_total, *tokens = ctx.saved_tensors
        needed = ctx.needs_input_grad
        wanted = ctx.call.wanted or (needed[1], *needed[3:])
        inputs = (ctx.call, wanted, Q, labels, highest, log_total, *grads, *tokens)
        # Recorded under create_graph=True: a second differentiation has to fail.
        found = _Gradients.apply(*inputs) if torch.is_grad_enabled() else _Gradients.forward(None, *inputs)
        return None, found[0], None, *found[1:]


class _Gradients(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, call: Call, wanted: tuple[bool, ...], Q: Tensor, labels: Tensor, highest: Tensor, log_total: Tensor,
        grad_rows: Tensor, grad_columns: Tensor, *tokens: Tensor,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        for_q = wanted[0]
        grad_q = torch.zeros(Q.shape, dtype=log_total.dtype, device=Q.device) if for_q else None
        tours = [s.tour(t, w) for s, t, w in zip(call.sources, tokens, wanted[1:], strict=True)]
        for pairing, first, part, extras, gradient in call.blocks(tours):
            scores, index = TORCH.evaluate(Q, part, pairing, extras, True)
            scores /= call.temperature
            of_columns = _column_weights(scores, first, grad_columns) if call.symmetric and first is not None else 0
            weights = _weights(scores, labels, first, highest, log_total, grad_rows).add_(of_columns).div_(call.temperature)
            of_q, of_part = gradients(Q, part, pairing, extras, index, weights, for_q, gradient is not None)
            if grad_q is not None:
                grad_q += of_q
            if gradient is not None:
                gradient += of_part
        return None if grad_q is None else grad_q.to(Q.dtype), *(
            None if tour.gradient is None else tour.gradient.to(t.dtype) for tour, t in zip(tours, tokens, strict=True)
        )

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        refuse_double_backward()


def _with_block(scores: Tensor, highest: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """Maximum and sum of exponentials (relative to it) with one more block: the two numbers are kept apart, since a
    float32 logarithm of large scores would lose what the loss is made of."""
    new = torch.maximum(highest, scores.amax(1))
    base = _finite(new)
    return new, total * (highest - base).exp() + (scores - base[:, None]).exp_().sum(1)


def _finite(highest: Tensor) -> Tensor:
    """Where nothing but minus infinity was seen, 0: differences from it stay numbers."""
    return highest.where(highest != -torch.inf, 0)


def _of_labels(scores: Tensor, labels: Tensor, first: int, answer: Tensor) -> Tensor:
    """`answer`, with the scores of the labels that are in this block."""
    column = labels - first
    inside = (column >= 0) & (column < scores.shape[1])
    return scores.gather(1, column.clamp(0, scores.shape[1] - 1)[:, None])[:, 0].where(inside, answer)


def _weights(
    scores: Tensor, labels: Tensor, first: int | None, highest: Tensor, log_total: Tensor, grad_rows: Tensor
) -> Tensor:
    """The gradient of the rows' losses for these scores, in their place: softmax less what is at the label."""
    weights = scores.sub_(highest[:, None]).sub_(log_total[:, None]).exp_().mul_(grad_rows[:, None])
    if first is not None:
        columns = torch.arange(first, first + scores.shape[1], device=scores.device)
        weights -= grad_rows[:, None].where(columns == labels[:, None], 0)
    return weights


def _column_weights(scores: Tensor, first: int, grad_columns: Tensor) -> Tensor:
    weights = torch.softmax(scores, 0)
    weights[first:].diagonal().sub_(1)
    return weights.mul_(grad_columns[first : first + scores.shape[1]])


def mask_of(mask: Any, tokens: Tensor, pairing: str) -> Tensor:
    """A copy: the caller may change the mask before the backward pass. Checked, since a part of a wrong one may fit."""
    mask, wanted = torch.as_tensor(mask, device=tokens.device), tokens.shape[:-1]
    if mask.ndim != len(wanted) or mask.shape[1:] != wanted[1:] or mask.shape[0] not in (1, wanted[0]):
        name, what = ("d_mask", "D") if pairing == "cross" else ("negative_mask", "negatives")
        raise ValueError(
            f"{name} {list(mask.shape)} does not fit {what} {list(tokens.shape)}: it needs one value a token, "
            "with a leading 1 to serve every item"
        )
    return mask.clone()


def bounds_of(cu_seqlens: Any, tokens: Tensor) -> list[int]:
    """Offsets on the host: blocks are cut there."""
    bounds: list[int] = torch.as_tensor(cu_seqlens).tolist()
    if bounds[0] != 0:
        raise ValueError(f"cu_seqlens_d[0] must be 0, got {bounds[0]}")
    for i, (begin, end) in enumerate(zip(bounds, bounds[1:])):
        if end < begin:
            raise ValueError(f"cu_seqlens_d must rise, but [{i + 1}] is {end} after {begin}")
    if bounds[-1] > len(tokens):
        raise ValueError(f"cu_seqlens_d ends at {bounds[-1]}, but D has {len(tokens)} tokens")
    return bounds
