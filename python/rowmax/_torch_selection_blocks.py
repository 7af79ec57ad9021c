"""The functions of _selection.py for tensors on a GPU: block by block of documents, by torch's own products and sorts.

A block's similarities are made, used and forgotten, so that memory does not grow with the documents. They are float32
products (float64 for float64), in TF32 where the program lets torch do that. Results have the shapes and the rules of the native
functions; gradients too are made block by block, from what forward kept of each query token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rowmax._frameworks import NUMBERS as _TENSORS
from rowmax._frameworks import Extras
from rowmax._torch import TORCH

_SIMILARITIES = 1 << 25
"""At most so many at once, unless one document has more."""


class _Items(NamedTuple):
    """One side, padded: tokens [..., L, d] and which of them are kept [..., L]."""

    tokens: Tensor
    keep: Tensor


class _Block(NamedTuple):
    """Documents first, first + 1, .. of every query, and their similarities [Nq, documents, Lq, Ld]: -inf where hidden."""

    first: int
    tokens: Tensor
    keep: Tensor
    similarity: Tensor


class _Call:
    def __init__(self, Q: Tensor, D: Tensor, pairing: str, extras: Extras):
        self.Q, self.D = Q, D
        self.grouped = pairing == "grouped"
        self.type = torch.float64 if Q.dtype is torch.float64 else torch.float32
        self.normalize = bool(extras.get("normalize"))
        self.cu_q, self.cu_d = extras.get("cu_seqlens_q"), extras.get("cu_seqlens_d")
        self.q = self._side(Q, self.cu_q, extras.get("q_mask"), False)
        self.documents = self._documents(D, extras.get("d_mask"))
        queries = list(Q.shape[:-2]) if self.cu_q is None else [len(self.cu_q) - 1]
        many = D.ndim > 2 or self.cu_d is not None
        self.scores_shape = [len(D), D.shape[1]] if self.grouped else queries + ([self.documents] if many else [])

    def blocks(self, similarities: bool = True) -> Iterator[_Block]:
        q = self.q.tokens
        rows = q.shape[0] * q.shape[1]
        longest = longest_of(self.cu_d) if self.cu_d is not None else self.D.shape[-2]
        step = max(1, _SIMILARITIES // max(rows * longest, 1))
        for first in range(0, self.documents, step):
            tokens, keep = self._part(first, min(step, self.documents - first), longest)
            if self.grouped:
                similarity = torch.einsum("qsd,qnld->qnsl", q, tokens)
            else:
                products = q.reshape(rows, -1) @ tokens.reshape(-1, tokens.shape[-1]).T
                similarity = products.reshape(*q.shape[:2], *tokens.shape[:2]).transpose(1, 2)
            hidden = ~(keep[:, :, None] if self.grouped else keep[None, :, None])
            yield _Block(first, tokens, keep, similarity.masked_fill(hidden, -torch.inf))

    def sees(self, block: _Block) -> Tensor:
        """[Nq, documents, Lq]: query tokens that are kept and whose document keeps a token."""
        some = block.keep.any(-1) if self.grouped else block.keep.any(-1)[None]
        return some[..., None] & self.q.keep[:, None]

    def shaped(self, pairs: Tensor) -> Tensor:
        """[Nq, documents, ...] in the shape of results."""
        return pairs.reshape((*self.scores_shape, *pairs.shape[2:]))

    def pairs(self, results: Tensor, trailing: int) -> Tensor:
        """The way back; `trailing` dimensions behind those of the scores."""
        tail = results.shape[results.ndim - trailing :]
        return results.reshape((len(self.q.tokens), self.documents, *tail))

    # The sides.

    def _side(self, X: Tensor, cu: Tensor | None, mask: Tensor | None, flat: bool) -> _Items:
        if cu is not None:
            return self._packed(X, cu, 0, len(cu) - 1, longest_of(cu))
        tokens = X.reshape(-1, *X.shape[-2:])
        keep = torch.ones((), dtype=torch.bool, device=X.device) if mask is None else mask != 0
        return _Items(self._computed(tokens), keep.expand(X.shape[:-1]).reshape(tokens.shape[:2]))

    def _documents(self, D: Tensor, mask: Tensor | None) -> int:
        self.d_keep = None
        if self.cu_d is not None:
            return len(self.cu_d) - 1
        shape = D.shape[:-1] if D.ndim > 2 else (1, *D.shape[:-1])
        if mask is not None:
            self.d_keep = (mask != 0).expand(shape if mask.ndim > 1 or D.ndim > 2 else D.shape[:-1]).reshape(shape)
        return int(shape[1] if self.grouped else shape[0])

    def _part(self, first: int, count: int, longest: int) -> _Items:
        if self.cu_d is not None:
            return self._packed(self.D, self.cu_d, first, count, longest)
        D = self.D if self.D.ndim > 2 else self.D[None]
        part = D[:, first : first + count] if self.grouped else D[first : first + count]
        if self.d_keep is None:
            return _Items(self._computed(part), torch.ones(part.shape[:-1], dtype=torch.bool, device=D.device))
        keep = self.d_keep[:, first : first + count] if self.grouped else self.d_keep[first : first + count]
        return _Items(self._computed(part), keep)

    def _rows(self, cu: Tensor, first: int, count: int, longest: int, rows: int) -> tuple[Tensor, Tensor]:
        """Rows of packed tokens [count, longest], and which of them are the items' own."""
        starts = cu.long().clamp(0, rows)
        positions = torch.arange(longest, device=cu.device)
        lengths = (starts[1:] - starts[:-1])[first : first + count, None]
        inside = positions < lengths
        return torch.where(inside, starts[first : first + count, None] + positions, 0), inside

    def _packed(self, X: Tensor, cu: Tensor, first: int, count: int, longest: int) -> _Items:
        rows, inside = self._rows(cu, first, count, longest, len(X))
        if len(X) == 0:
            return _Items(X.new_zeros((count, longest, X.shape[1]), dtype=self.type), inside)
        return _Items(self._computed(X[rows]), inside)

    def _computed(self, tokens: Tensor) -> Tensor:
        tokens = tokens.to(self.type)
        return unit(tokens) if self.normalize else tokens

    # Gradients of tokens as they are computed with, back to those that were given.

    def gradient_of_q(self, gradient: Tensor) -> Tensor:
        return self._given(self.Q, self.cu_q, self._through(self.Q, self.cu_q, 0, gradient), 0)

    def gradient_of_documents(self, block: _Block, gradient: Tensor, into: Tensor) -> None:
        if self.cu_d is not None:
            gradient = self._through(self.D, self.cu_d, block.first, gradient)
            rows, inside = self._rows(self.cu_d, block.first, len(gradient), gradient.shape[1], len(self.D))
            into[rows[inside]] = gradient[inside]
            return
        whole = into if self.D.ndim > 2 else into[None]
        D = self.D if self.D.ndim > 2 else self.D[None]
        here = slice(block.first, block.first + block.keep.shape[1 if self.grouped else 0])
        at = (slice(None), here) if self.grouped else (here,)
        part = D[at].to(self.type)
        whole[at] = through_norm(gradient, part) if self.normalize else gradient

    def _through(self, X: Tensor, cu: Tensor | None, first: int, gradient: Tensor) -> Tensor:
        if not self.normalize:
            return gradient
        if cu is None:
            return through_norm(gradient, X.reshape(gradient.shape).to(self.type))
        rows, _ = self._rows(cu, first, len(gradient), gradient.shape[1], len(X))
        return through_norm(gradient, X[rows].to(self.type)) if len(X) else gradient

    def _given(self, X: Tensor, cu: Tensor | None, gradient: Tensor, first: int) -> Tensor:
        if cu is None:
            return gradient.reshape(X.shape).to(X.dtype)
        made = torch.zeros_like(X, dtype=self.type)
        rows, inside = self._rows(cu, first, len(gradient), gradient.shape[1], len(X))
        made[rows[inside]] = gradient[inside]
        return made.to(X.dtype)


def longest_of(cu: Tensor) -> int:
    """Of packed items. Waits for the device."""
    return int((cu[1:] - cu[:-1]).max().clamp(min=0)) if len(cu) > 1 else 0


def unit(x: Tensor) -> Tensor:
    norm = x.norm(dim=-1, keepdim=True)
    return torch.where(norm > 0, x / norm, 0)


def through_norm(gradient: Tensor, x: Tensor) -> Tensor:
    """A gradient of unit(x) as one of x."""
    norm, direction = x.norm(dim=-1, keepdim=True), unit(x)
    tangent = gradient - (gradient * direction).sum(-1, keepdim=True) * direction
    return torch.where(norm > 0, tangent / norm, 0)


def of_length(arguments: tuple[Any, ...], longest: int) -> tuple[Any, ...]:
    """Arguments of an operator that say how long packed queries are, which on a device nobody looks up again."""
    packed, said = arguments[_TENSORS.index("cu_seqlens_q")] is not None, arguments[len(_TENSORS)]
    return arguments if not packed or said >= 0 else (*arguments[: len(_TENSORS)], longest, *arguments[len(_TENSORS) + 1 :])


def select(kind: str, Q: Tensor, D: Tensor, pairing: str, extras: Extras, parameters: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Scores, and what the gradient needs of them."""
    if kind == "prefixes":
        return _prefixes(Q, D, pairing, extras, *parameters)
    results: tuple[Tensor, ...] = _FUNCTIONS[kind](_Call(Q, D, pairing, extras), *parameters)
    return results


def _prefixes(Q: Tensor, D: Tensor, pairing: str, extras: Extras, dims: list[int]) -> tuple[Tensor, Tensor]:
    """One after the other, by the kernels of MaxSim."""
    if "cu_seqlens_q" in extras and "max_seqlen_q" not in extras:
        extras = extras | {"max_seqlen_q": longest_of(extras["cu_seqlens_q"])}
    parts = [TORCH.evaluate(Q[..., :dim], D[..., :dim], pairing, extras, True) for dim in dims]
    return torch.stack([scores for scores, _ in parts]), torch.stack([index for _, index in parts])


def _topk_tokens(call: _Call, k: int, mean: bool) -> tuple[Tensor, Tensor]:
    scores, index = [], []
    for block in call.blocks():
        values, tokens = torch.sort(block.similarity, dim=-1, descending=True, stable=True)
        values, tokens = values[..., :k], tokens[..., :k]
        keep = block.keep[:, :, None] if call.grouped else block.keep[None, :, None]
        held = keep.expand(block.similarity.shape).gather(-1, tokens) & call.sees(block)[..., None]
        total = torch.where(held, values, 0).sum(-1)
        if mean:
            total = total / held.sum(-1).clamp(min=1)
        scores.append(total.sum(-1))
        chosen = torch.where(held, tokens, -1).int()
        index.append(torch.nn.functional.pad(chosen, (0, k - chosen.shape[-1]), value=-1))
    return call.shaped(_joined(call, scores)), call.shaped(_joined(call, index, (call.q.keep.shape[1], k), torch.int32))


def topk_tokens_backward(
    Q: Tensor, D: Tensor, pairing: str, arguments: tuple[Any, ...], k: int, mean: bool, index: Tensor, grad: Tensor,
    for_q: bool, for_d: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Of the best tokens, then of the next best: each is the gradient of a maximum."""
    share, arguments = grad, of_length(arguments, index.shape[-2])
    if mean:
        share = grad / (index >= 0).sum(-1).amax(-1).clamp(min=1) if index.shape[-2] else grad
    half = Q.dtype in (torch.float16, torch.bfloat16)
    q, d = (Q.float(), D.float()) if half else (Q, D)
    sums = torch.zeros_like(q) if for_q else None, torch.zeros_like(d) if for_d else None
    for j in range(k):
        call = (q, d, pairing, *arguments, index[..., j].contiguous(), share.contiguous())
        parts = torch.ops.rowmax.score_backward(*call, for_q, for_d)
        for total, part in zip(sums, parts, strict=True):
            if total is not None:
                total += part
    return tuple(x.new_empty(0) if s is None else s.to(x.dtype) for s, x in zip(sums, (Q, D), strict=True))


def _weights(similarity: Tensor, largest: Tensor, temperature: float) -> Tensor:
    """exp((similarity - largest) / temperature): 1 for the largest, which may be infinite."""
    return torch.where(similarity == largest, 1, torch.exp((similarity - largest) / temperature))


def _smooth(call: _Call, temperature: float) -> tuple[Tensor, Tensor]:
    scores, largest, sums = [], [], []
    for block in call.blocks():
        most = block.similarity.amax(-1)
        total = _weights(block.similarity, most[..., None], temperature).sum(-1)
        logarithm = torch.log(total)
        value = torch.where(logarithm == 0, most, most + temperature * logarithm)
        scores.append(torch.where(call.sees(block), value, 0).sum(-1))
        largest.append(most)
        sums.append(total)
    shape = (call.q.keep.shape[1],)
    kept = [call.shaped(_joined(call, part, shape)) for part in (largest, sums)]
    return call.shaped(_joined(call, scores)), torch.stack(kept)


def smooth_backward(
    Q: Tensor, D: Tensor, pairing: str, extras: Extras, temperature: float, kept: Tensor, grad: Tensor, for_q: bool, for_d: bool
) -> tuple[Tensor, Tensor]:
    """Similarities are computed again."""
    call = _Call(Q, D, pairing, extras)
    largest, sums = (call.pairs(part, 1) for part in kept)
    grad = call.pairs(grad, 0)
    q = call.q.tokens
    grad_q = torch.zeros_like(q)
    grad_d = torch.zeros_like(D, dtype=call.type) if for_d else None
    for block in call.blocks():
        here = slice(block.first, block.first + block.similarity.shape[1])
        weight = _weights(block.similarity, largest[:, here, :, None], temperature) / sums[:, here, :, None]
        weight = weight * torch.where(call.sees(block), grad[:, here, None], 0)[..., None]
        weight = weight.masked_fill(~(block.keep[:, :, None] if call.grouped else block.keep[None, :, None]), 0)
        side = "qnld" if call.grouped else "nld"
        if for_q:
            grad_q += torch.einsum(f"qnsl,{side}->qsd", weight, block.tokens)
        if grad_d is not None:
            call.gradient_of_documents(block, torch.einsum(f"qnsl,qsd->{side}", weight, q), grad_d)
    return (
        call.gradient_of_q(grad_q) if for_q else Q.new_empty(0),
        D.new_empty(0) if grad_d is None else grad_d.to(D.dtype),
    )


class _Retrieved(NamedTuple):
    """The k-th best token of every query token [Nq, Lq]: its similarity, and its place among all; -1: there are fewer."""

    value: Tensor
    place: Tensor


def _before(value: Tensor, place: Tensor, last: _Retrieved) -> Tensor:
    """Whether a token comes before the last one that was retrieved, or is it: NaN first, the largest, the first place."""
    other, where = last.value[:, None], last.place[:, None]
    nan, other_nan = value.isnan(), other.isnan()
    first = torch.where(nan == other_nan, torch.where(nan | (value == other), place <= where, value > other), nan)
    return first | (where < 0)


def _retrieve(call: _Call, k: int) -> tuple[_Retrieved, int]:
    """... and how many places a document has."""
    q = call.q.tokens
    longest = call.D.shape[-2] if call.cu_d is None else longest_of(call.cu_d)
    values = q.new_empty((*q.shape[:2], 0))
    places = torch.empty((*q.shape[:2], 0), dtype=torch.int64, device=q.device)
    for block in call.blocks():
        count = block.similarity.shape[1]
        near = block.similarity.transpose(1, 2).flatten(2)
        place = torch.arange(count * longest, device=q.device) + block.first * longest
        keep = (block.keep.flatten(1)[:, None] if call.grouped else block.keep.flatten()[None, None]).expand(near.shape)
        values = torch.cat([values, near], -1)
        places = torch.cat([places, torch.where(keep, place, -1)], -1)
        # Hidden tokens are -inf and stand behind all others that are as far.
        order = torch.argsort((places < 0).to(torch.int8), dim=-1, stable=True)
        values, places = values.gather(-1, order), places.gather(-1, order)
        values, order = torch.sort(values, dim=-1, descending=True, stable=True)
        values, places = values[..., :k], places.gather(-1, order)[..., :k]
    if values.shape[-1] < k:
        nothing = torch.full(q.shape[:2], -1, dtype=torch.int64, device=q.device)
        return _Retrieved(q.new_zeros(q.shape[:2]), nothing), longest
    return _Retrieved(values[..., -1], places[..., -1]), longest


def _xtr(call: _Call, k: int, impute: bool) -> tuple[Tensor, ...]:
    last, longest = _retrieve(call, k)
    scores, index = [], []
    for block in call.blocks():
        token = (
            block.similarity.argmax(-1)
            if longest
            else torch.zeros(block.similarity.shape[:-1], dtype=torch.int64, device=call.Q.device)
        )
        best = block.similarity.gather(-1, token[..., None])[..., 0] if longest else torch.zeros_like(token, dtype=call.type)
        documents = torch.arange(block.similarity.shape[1], device=token.device)[None, :, None] + block.first
        sees = call.sees(block)
        retrieved = sees & _before(best, documents * longest + token, last)
        value = torch.where(retrieved, best, torch.where(sees & impute, last.value[:, None], 0))
        counted = call.q.keep[:, None].expand(retrieved.shape) if impute else retrieved
        scores.append(value.sum(-1) / counted.sum(-1).clamp(min=1))
        index.append(torch.where(retrieved, token, torch.where(sees & impute, -2, -1)).int())
    place = torch.where(call.q.keep, last.place, -1)
    shape = call.q.keep.shape if call.Q.ndim > 2 or call.cu_q is not None else call.q.keep.shape[1:]
    if call.grouped:  # counted over all pairs
        document = torch.arange(len(place), device=place.device)[:, None] * call.documents + place // max(longest, 1)
    else:
        document = place // max(longest, 1)
    document = torch.where(place < 0, -1, document).reshape(shape)
    token = torch.where(place < 0, -1, place % max(longest, 1)).int().reshape(shape)
    kept = call.shaped(_joined(call, index, (call.q.keep.shape[1],), torch.int32))
    return call.shaped(_joined(call, scores)), kept, document, token


def _joined(call: _Call, parts: list[Tensor], tail: tuple[int, ...] = (), dtype: torch.dtype | None = None) -> Tensor:
    """Blocks of documents as one."""
    nothing = call.q.tokens.new_empty((len(call.q.tokens), 0, *tail), dtype=dtype or call.type)
    return torch.cat([nothing, *parts], 1)


_FUNCTIONS: dict[str, Any] = {"topk_tokens": _topk_tokens, "smooth": _smooth, "xtr": _xtr}
