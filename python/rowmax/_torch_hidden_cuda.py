"""maxsim_from_hidden on a GPU, beyond the kernel that projects and scores in one pass.

Forward: what that kernel does not take is projected block by block, in bounded memory, and scored by the other kernels. For
float16 and bfloat16 tokens of up to 128 dimensions the blocks have the same bits as in one pass.

Backward: a document's winning tokens are gathered, each once; they are projected again, and get their gradients as short
documents do. What leads from there to H, W and b are matrix products. Sums are in float32 and in a fixed order, and nothing
is read back: the number of places is the most that there can be, and places that are left over hold zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rowmax import _native
from rowmax._frameworks import Extras
from rowmax._torch import TORCH, gradients

_BLOCK_BYTES = 128 << 20
_BACKWARD_BLOCK_BYTES = 256 << 20
_KERNEL_DIMS = 128
_ONE_PASS_ROWS = 256  # at most so many query tokens
_FEW_SOURCES = 128


def score(Q: Tensor, H: Tensor, pairing: str, extras: Extras, want_index: bool) -> tuple[Tensor, Tensor | None]:
    extras = extras | {name: _last_contiguous(extras[name]) for name in ("W", "b") if name in extras}
    # Who is asked in vain writes a long message.
    few = math.prod(Q.shape[:-1]) <= _ONE_PASS_ROWS or "kernel" in extras
    if few and pairing == "cross" and "cu_seqlens_d" not in extras:
        try:
            return _pair(TORCH.evaluate(Q, H, pairing, extras, want_index), want_index)
        except NotImplementedError:
            if "kernel" in extras:
                raise
    return _score_blocks(Q, H, pairing, extras, want_index)


def _score_blocks(Q: Tensor, H: Tensor, pairing: str, extras: Extras, want_index: bool) -> tuple[Tensor, Tensor | None]:
    shape, index_shape, _ = TORCH.request(Q, H, pairing, extras).result()  # or says what is wrong with the arguments
    if Q.dtype is torch.float64:
        raise NotImplementedError("Q, H: float64 hidden states are scored on the CPU only")
    if 0 in shape or Q.shape[-2] == 0 or H.shape[-2] == 0:
        none = torch.full(index_shape, -1, dtype=torch.int32, device=Q.device) if want_index else None
        return torch.zeros(shape, dtype=torch.float32, device=Q.device), none
    layer = _Layer(extras)
    rest = {name: value for name, value in extras.items() if name not in ("W", "b", "normalize_hidden")}
    if "cu_seqlens_d" in rest or H.ndim == 2:
        return _pair(TORCH.evaluate(Q, layer.tokens(H), pairing, rest, want_index), want_index)
    parts = []
    size = layer.token_bytes(H.dtype) * (H.shape[1:-1].numel())
    for block in _blocks(H.shape[0], size, _BLOCK_BYTES):
        of_block = rest | {name: _rows_of(rest[name], block, H.ndim - 1) for name in ("d_mask",) if name in rest}
        queries = Q
        if pairing == "grouped":
            queries = Q[block]
            if "q_mask" in rest:
                of_block["q_mask"] = _rows_of(rest["q_mask"], block, 2)
        parts.append(_pair(TORCH.evaluate(queries, layer.tokens(H[block]), pairing, of_block, want_index), want_index))
    axis = 0 if pairing == "grouped" or Q.ndim == 2 else 1
    if len(parts) == 1:
        return parts[0]
    scores = torch.cat([part[0] for part in parts], axis)
    return scores, torch.cat([part[1] for part in parts if part[1] is not None], axis) if want_index else None


def _pair(result: Any, want_index: bool) -> tuple[Tensor, Tensor | None]:
    return result if want_index else (result, None)


def _blocks(count: int, size: int, most: int) -> Iterator[slice]:
    """Of `count` items that take `size` bytes each."""
    step = max(1, most // max(size, 1))
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


def _rows_of(mask: Tensor, block: slice, full: int) -> Tensor:
    """Those of a block's items; a leading 1, or no dimension for items, stands for all."""
    return mask[block] if mask.ndim == full and mask.shape[0] > 1 else mask


def _last_contiguous(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _as_items(tokens: Tensor) -> Tensor:
    """[items, length, elements] of one item, of many, or of groups of items."""
    return tokens[None] if tokens.ndim == 2 else tokens.flatten(0, -3)


class _Layer:
    """The linear layer, and the norm behind it."""

    def __init__(self, extras: Extras) -> None:
        self.weight: Tensor = extras["W"].detach()
        bias = extras.get("b")
        self.bias: Tensor | None = None if bias is None else bias.detach()
        self.normalize = bool(extras.get("normalize_hidden", False))
        self.dim, self.hidden = self.weight.shape
        self._by_kernel = (
            self.weight.dtype in (torch.float16, torch.bfloat16)
            and self.dim <= _KERNEL_DIMS
            and torch.cuda.get_device_capability(self.weight.device) == (9, 0)
        )

    def token_bytes(self, dtype: torch.dtype) -> int:
        """Of memory that projecting a token takes."""
        if self._by_kernel:
            return 2 * (self.dim + (0 if self.hidden % 8 == 0 else self.hidden))
        return 8 * (3 * self.dim + (self.hidden if dtype is torch.float32 else 0))

    def tokens(self, H: Tensor) -> Tensor:
        """[..., d] of [..., hidden], in the same type."""
        if not self._by_kernel:
            return self.exact(H).to(H.dtype)
        lead = H.shape[:-1]
        H, weight = _by_16_bytes(_as_items(H)), _by_16_bytes(self.weight)
        tokens = H.new_empty(*H.shape[:-1], (self.dim + 7) // 8 * 8)
        layer: Extras = {"W": weight} if self.bias is None else {"W": weight, "b": self.bias}
        if self.normalize:
            layer["normalize_hidden"] = True
        TORCH.request(H.new_empty(1, self.dim), H, "cross", layer).write_tokens(tokens)
        return tokens.view(*lead, -1)[..., : self.dim]

    def exact(self, H: Tensor) -> Tensor:
        """Before rounding: float32, of float32 inputs float64, which no setting of matrix products narrows."""
        tokens = self.project(H)
        return _unit(tokens)[0] if self.normalize else tokens

    def project(self, H: Tensor) -> Tensor:
        x = product(H.flatten(0, -2), self.weight.T).unflatten(0, H.shape[:-1])
        return x if self.bias is None else x + self.bias


def product(a: Tensor, b: Tensor) -> Tensor:
    """Of 16-bit matrices in float32, of float32 ones in float64: exact factors, sums that are not rounded to 16 bits."""
    if a.dtype is torch.float32:
        return a.double() @ b.double()
    return torch.mm(a, b, out_dtype=torch.float32)


def _unit(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows over their norms, and one over the norms; of a row of zeros both are 0. No square leaves the type's range."""
    largest = torch.linalg.vector_norm(x, torch.inf, dim=-1, keepdim=True)
    scale = torch.where((largest > 0) & (largest < torch.inf), largest, 1)
    x = x / scale
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    inverse = torch.where(norm == 0, 0, 1 / norm)
    return x * inverse, inverse / scale


def _by_16_bytes(x: Tensor) -> Tensor:
    """The same rows where they start at multiples of 16 bytes, zeros behind them: else copied."""
    if x.shape[-1] % 8 != 0:
        return torch.nn.functional.pad(x, (0, -x.shape[-1] % 8))
    steps = (step for step, size in zip(x.stride()[:-1], x.shape, strict=False) if size > 1)
    fits = x.stride(-1) == 1 and x.data_ptr() % 16 == 0 and all(step % 8 == 0 for step in steps)
    return x if fits else x.clone(memory_format=torch.contiguous_format)


def _zeros(rows: int, like: Tensor) -> Tensor:
    zeros = like.new_empty(rows, like.shape[-1])
    if not zeros.is_cuda:
        return zeros.zero_()
    device = zeros.device
    _native.clear(zeros.data_ptr(), zeros.nbytes, device.index, torch.cuda.current_stream(device).cuda_stream)
    return zeros


def _by_words(x: Tensor) -> Tensor:
    """Rows as elements of 8 bytes, where they are whole ones: torch moves a row element by element."""
    count = 8 // x.itemsize
    fits = x.data_ptr() % 8 == 0 and x.stride(-1) == 1 and all(n % count == 0 for n in (x.shape[-1], *x.stride()[:-1]))
    return x.view(torch.int64) if fits and x.storage_offset() % count == 0 else x


# The gradient.


@dataclass
class _Winners:
    """Of `documents` documents the tokens that won, each once: `tokens` [documents, places], `none` in places left over;
    `place` [documents, sources] says which of them each query token chose, -1: none."""

    tokens: Tensor
    place: Tensor
    none: int


def _winners(index: Tensor, length: int) -> _Winners:
    """Of an index [documents, sources] into documents of `length` tokens."""
    sources = index.shape[1]
    if sources <= _FEW_SOURCES:
        return _first_sources(index, length)
    return _distinct(index, length) if sources < length else _all_tokens(index, length)


def _first_sources(index: Tensor, none: int) -> _Winners:
    """A place for each query token, used by the first of those that chose the same."""
    number = torch.arange(index.shape[1], dtype=torch.int32, device=index.device)
    same = index[:, :, None] == index[:, None, :]
    first = torch.where(same, number, index.shape[1]).amin(-1)
    won = index >= 0
    return _Winners(torch.where(won & (first == number), index, none), torch.where(won, first, -1), none)


def _distinct(index: Tensor, none: int) -> _Winners:
    places = index.shape[1]
    key = torch.where(index < 0, none, index)
    ordered, order = key.sort(dim=1, stable=True)
    new = torch.ones_like(ordered)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    number = (new.cumsum(1) - 1).masked_fill_(ordered == none, -1)
    place = torch.empty_like(number).scatter_(1, order, number)
    tokens = torch.full((len(index), places + 1), none, dtype=torch.int64, device=index.device)
    tokens.scatter_(1, torch.where(number < 0, places, number), ordered.long())
    return _Winners(tokens[:, :places], place.int(), none)


def _all_tokens(index: Tensor, length: int) -> _Winners:
    """Where there are no fewer query tokens than a document has tokens: a place for each of these."""
    won = torch.zeros(len(index), length + 1, dtype=torch.bool, device=index.device)
    won.scatter_(1, torch.where(index < 0, length, index).long(), True)
    every = torch.arange(length, device=index.device)
    return _Winners(torch.where(won[:, :length], every, length), index, length)


class _Backward:
    """Gradients for H [documents, length, hidden], or packed [T, hidden] with where documents start, block by block."""

    def __init__(self, H: Tensor, starts: Tensor | None, layer: _Layer, wanted: tuple[bool, ...]) -> None:
        self.H, self.starts, self.layer = H, starts, layer
        self.for_q, self.for_h, self.for_w, self.for_b = wanted
        self.length = len(H) if starts is not None else H.shape[1]
        rows = len(H) if starts is not None else H.shape[0] * H.shape[1]
        self.grad_h = _zeros(rows + 1, H) if self.for_h else None  # one more, for places left over
        double = layer.weight.dtype is torch.float32
        wide = torch.float64 if double else torch.float32
        self.grad_w = torch.zeros(layer.weight.shape, dtype=wide, device=H.device)
        self.grad_b = torch.zeros(layer.dim, dtype=wide, device=H.device)

    def bytes_of_document(self, sources: int) -> int:
        token = self.H.shape[-1] * (24 if self.H.dtype is torch.float32 else 6) + 24 * self.layer.dim
        places = sources if sources <= _FEW_SOURCES else min(sources, self.length)
        return places * token + 48 * sources + (5 * sources * sources if sources <= _FEW_SOURCES else 0)

    def add(self, first: int, index: Tensor, Q: Tensor, grad_scores: Tensor, pairing: str) -> Tensor | None:
        """Documents from `first` on, index [documents, sources]; returns the gradient of Q in float32."""
        winners = _winners(index, self.length)
        rows, hidden = self._gather(first, winners)
        x = self.layer.project(hidden)
        tokens, inverse = _unit(x) if self.layer.normalize else (x, None)
        grad_q, grad = self._of_tokens(winners, tokens.float(), Q, grad_scores, pairing)
        if grad is None:
            return grad_q
        if inverse is not None:
            grad = grad.addcmul(tokens, (grad * tokens).sum(-1, keepdim=True), value=-1).mul_(inverse)
        self._through_layer(rows.flatten(), hidden.flatten(0, 1), grad.flatten(0, 1))
        return grad_q

    def _gather(self, first: int, winners: _Winners) -> tuple[Tensor, Tensor]:
        """Which rows of the gradient the places are, and the hidden states there; zeros in places left over."""
        left_over = winners.tokens == winners.none
        tokens = winners.tokens.masked_fill(left_over, 0)
        if self.starts is not None:
            row = (self.starts[first : first + len(tokens), None] + tokens).clamp(0, len(self.H) - 1)
            hidden, last = _by_words(self.H)[row], len(self.H)
        else:
            document = torch.arange(first, first + len(tokens), device=tokens.device)[:, None]
            row, last = document * self.length + tokens, self.H.shape[0] * self.length
            in_order = self.H.stride(0) == self.length * self.H.stride(1)
            hidden = _by_words(self.H.flatten(0, 1))[row] if in_order else self.H[document, tokens]
        hidden = hidden.masked_fill_(left_over[..., None], 0).view(self.H.dtype)
        return torch.where(left_over, last, row), hidden

    def _of_tokens(
        self, winners: _Winners, tokens: Tensor, Q: Tensor, grad_scores: Tensor, pairing: str
    ) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of Q and of tokens [documents, places, d]: those of short documents."""
        documents, places, dim = tokens.shape
        if pairing == "cross":
            index = winners.place.view(documents, *Q.shape[:2]).transpose(0, 1)
        else:
            index = winners.place.view(len(Q), -1, Q.shape[1])
            tokens = tokens.view(len(Q), -1, places, dim)
        for_tokens = self.for_h or self.for_w or self.for_b
        index = index.int().contiguous()
        grad_q, grad = gradients(Q, tokens, pairing, {}, index, grad_scores, self.for_q, for_tokens)
        return grad_q, None if grad is None else grad.view(documents, places, dim)

    def _through_layer(self, rows: Tensor, hidden: Tensor, grad: Tensor) -> None:
        weight = self.layer.weight
        if self.for_b:
            self.grad_b += grad.sum(0)
        narrow = grad.to(weight.dtype)
        if self.for_w:
            self.grad_w += product(narrow.T, hidden)
        if self.grad_h is not None:
            of_rows = narrow @ weight if narrow.itemsize == 2 else product(narrow, weight).to(weight.dtype)
            _by_words(self.grad_h).index_copy_(0, rows, _by_words(of_rows))

    def results(self, grad_q: Tensor | None, Q: Tensor, H: Tensor) -> list[Tensor | None]:
        dtype = H.dtype
        return [
            None if grad_q is None else grad_q.to(dtype).view(Q.shape),
            None if self.grad_h is None else self.grad_h[:-1].view(H.shape),
            self.grad_w.to(dtype) if self.for_w else None,
            self.grad_b.to(dtype) if self.for_b else None,
        ]


def backward(
    Q: Tensor, H: Tensor, pairing: str, extras: Extras, index: Tensor, grad_scores: Tensor, wanted: tuple[bool, ...]
) -> list[Tensor | None]:
    """Gradients of Q, H, W and b, None where not wanted."""
    starts = extras.get("cu_seqlens_d")
    queries = _as_items(Q.detach()).float()
    documents = H.detach() if starts is not None else _as_items(H.detach())
    steps = _Backward(documents, starts, _Layer(extras), wanted)
    grad_q = torch.zeros_like(queries) if wanted[0] else None
    if index.numel() == 0 or steps.length == 0:
        return steps.results(grad_q, Q, H)
    length = Q.shape[-2]
    if pairing == "cross":
        index = index.view(len(queries), -1, length).transpose(0, 1).flatten(1)  # [documents, sources]
    else:
        index = index.view(-1, length)
    grad_scores = grad_scores.float().reshape(len(queries), -1)
    size = steps.bytes_of_document(index.shape[1])
    group = 1 if pairing == "cross" else grad_scores.shape[1]
    for block in _blocks(len(index) // group, size * group, _BACKWARD_BLOCK_BYTES):
        if pairing == "cross":
            added = steps.add(block.start, index[block], queries, grad_scores[:, block].contiguous(), pairing)
            if grad_q is not None and added is not None:
                grad_q += added
            continue
        of_block = index[block.start * group : block.stop * group]
        added = steps.add(block.start * group, of_block, queries[block], grad_scores[block], pairing)
        if grad_q is not None and added is not None:
            grad_q[block] = added
    return steps.results(grad_q, Q, H)
