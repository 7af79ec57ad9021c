"""maxsim_from_hidden on a GPU, beyond the kernel that projects and scores in one pass.

Forward: what that kernel does not take is projected block by block, in bounded memory, and scored by the other kernels. For
float16 and bfloat16 tokens of up to 128 dimensions the blocks have the same bits as in one pass.

Backward: a document's winning tokens are gathered, each once; they are projected again, and get their gradients as short
documents do. What leads from there to H, W and b are matrix products, with the steps between them in kernels
(_torch_hidden_steps.py). Sums are in float32 and in a fixed order, and nothing is read back: the number of places is the
most that there can be, and places that are left over hold zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rowmax._frameworks import Extras
from rowmax._torch import TORCH, gradients
from rowmax._torch_hidden_steps import Steps

_BLOCK_BYTES = 128 << 20
_PRODUCT_BLOCK_BYTES = 256 << 20  # where torch projects: a block is four launches
_BACKWARD_BLOCK_BYTES = 256 << 20
_KERNEL_DIMS = 128
_ONE_PASS_ROWS = 256  # at most so many query tokens


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
    for block in _blocks(H.shape[0], size, _BLOCK_BYTES if layer.by_kernel else _PRODUCT_BLOCK_BYTES):
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
        self.by_kernel = (
            self.weight.dtype in (torch.float16, torch.bfloat16)
            and self.dim <= _KERNEL_DIMS
            and torch.cuda.get_device_capability(self.weight.device) == (9, 0)
        )

    def token_bytes(self, dtype: torch.dtype) -> int:
        """Of memory that projecting a token takes."""
        if self.by_kernel:
            return 2 * (self.dim + (0 if self.hidden % 8 == 0 else self.hidden))
        return 8 * (self.hidden + self.dim) + 4 * self.dim if dtype is torch.float32 else 6 * self.dim

    def tokens(self, H: Tensor) -> Tensor:
        """[..., d] of [..., hidden], in the same type."""
        lead = H.shape[:-1]
        if not self.by_kernel:
            tokens = Steps(H).rounded_tokens(self.project(H.flatten(0, -2)), self.bias, H.dtype, self.normalize)
            return tokens.view(*lead, self.dim)
        H, weight = _by_16_bytes(_as_items(H)), _by_16_bytes(self.weight)
        tokens = H.new_empty(*H.shape[:-1], (self.dim + 7) // 8 * 8)
        layer: Extras = {"W": weight} if self.bias is None else {"W": weight, "b": self.bias}
        if self.normalize:
            layer["normalize_hidden"] = True
        TORCH.request(H.new_empty(1, self.dim), H, "cross", layer).write_tokens(tokens)
        return tokens.view(*lead, -1)[..., : self.dim]

    def project(self, H: Tensor) -> Tensor:
        """W h of rows: float32, of float32 inputs float64, which no setting of matrix products narrows."""
        return product(H, self.weight.T)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Of 16-bit matrices in float32, of float32 ones in float64: exact factors, sums that are not rounded to 16 bits."""
    if a.dtype is torch.float32:
        return a.double() @ b.double()
    return torch.mm(a, b, out_dtype=torch.float32)


def _by_16_bytes(x: Tensor) -> Tensor:
    """The same rows where they start at multiples of 16 bytes, zeros behind them: else copied."""
    if x.shape[-1] % 8 != 0:
        return torch.nn.functional.pad(x, (0, -x.shape[-1] % 8))
    steps = (step for step, size in zip(x.stride()[:-1], x.shape, strict=False) if size > 1)
    fits = x.stride(-1) == 1 and x.data_ptr() % 16 == 0 and all(step % 8 == 0 for step in steps)
    return x if fits else x.clone(memory_format=torch.contiguous_format)


# The gradient.


class _Backward:
    """Gradients for H [documents, length, hidden], or packed [T, hidden] with where documents start, block by block."""

    def __init__(self, H: Tensor, starts: Tensor | None, layer: _Layer, wanted: tuple[bool, ...]) -> None:
        self.H, self.starts, self.layer = H, starts, layer
        self.for_q, self.for_h, self.for_w, self.for_b = wanted
        self.length = H.shape[-2]
        self.steps = Steps(H)
        self.grad_h = self.steps.zeros(H.shape[:-1].numel(), H) if self.for_h else None
        self.grad_w: Tensor | None = None
        self.grad_b: Tensor | None = None

    def places(self, sources: int) -> int:
        """As many tokens as so many query tokens can choose."""
        return min(sources, self.length)

    def bytes_of_document(self, sources: int) -> int:
        double = self.H.dtype is torch.float32
        token = self.H.shape[-1] * (20 if double else 4) + self.layer.dim * (28 if double else 10) + 12
        return self.places(sources) * token + 8 * sources

    def add(self, index: Tensor, block: slice, Q: Tensor, grad_scores: Tensor, pairing: str) -> Tensor | None:
        """Some documents of an index [queries, documents, query tokens]; returns the gradient of Q in float32."""
        documents, dtype = block.stop - block.start, self.H.dtype
        places = self.places(index.shape[0] * index.shape[2])
        place, rows = self.steps.winners(index, block.start, documents, self.length, self.starts, places)
        hidden = self.steps.gather(self.H, rows)
        sums = self.layer.project(hidden)
        tokens, inverse = self.steps.tokens(sums, self.layer.bias, dtype, self.layer.normalize)
        del sums
        items = (documents,) if pairing == "cross" else grad_scores.shape
        place, short = place.view(len(Q), -1, Q.shape[1]), tokens.view(*items, places, -1)
        for_tokens = self.for_h or self.for_w or self.for_b
        grad_q, grad = gradients(Q, short, pairing, {}, place, grad_scores, self.for_q, for_tokens)
        if grad is not None:
            grad = grad.view(len(rows), -1)
            narrow = self.steps.through_norm(grad, tokens, inverse, dtype)
            del tokens, short
            self._through_layer(rows, hidden, grad, narrow)
        return grad_q

    def _through_layer(self, rows: Tensor, hidden: Tensor, grad: Tensor, narrow: Tensor) -> None:
        if self.for_b:
            self.grad_b = _sum(self.grad_b, grad.sum(0))
        del grad
        if self.for_w:
            self.grad_w = _sum(self.grad_w, product(narrow.T, hidden))
        if self.grad_h is not None:
            weight = self.layer.weight
            del hidden
            of_rows = narrow @ weight if narrow.itemsize == 2 else product(narrow, weight).to(weight.dtype)
            self.steps.scatter(of_rows, rows, self.grad_h)

    def results(self, grad_q: Tensor | None, Q: Tensor, H: Tensor) -> list[Tensor | None]:
        dtype, layer = H.dtype, self.layer
        return [
            None if grad_q is None else grad_q.to(dtype).view(Q.shape),
            None if self.grad_h is None else self.grad_h.view(H.shape),
            _rounded(self.grad_w, layer.weight, dtype) if self.for_w else None,
            _rounded(self.grad_b, layer.weight[:, 0], dtype) if self.for_b else None,
        ]


def _sum(before: Tensor | None, more: Tensor) -> Tensor:
    return more if before is None else before.add_(more)


def _rounded(sums: Tensor | None, like: Tensor, dtype: torch.dtype) -> Tensor:
    """Zeros where nothing was added."""
    return like.new_zeros(like.shape) if sums is None else sums.to(dtype)


def backward(
    Q: Tensor, H: Tensor, pairing: str, extras: Extras, index: Tensor, grad_scores: Tensor, wanted: tuple[bool, ...]
) -> list[Tensor | None]:
    """Gradients of Q, H, W and b, None where not wanted."""
    starts = extras.get("cu_seqlens_d")
    if starts is not None:  # as the forward pass reads them: strided ones too, and lies within what there is
        starts = starts.clamp(0, H.shape[-2]).contiguous()
    queries = _as_items(Q.detach()).float()
    documents = _last_contiguous(H.detach() if starts is not None else _as_items(H.detach()))
    extras = extras | {name: _last_contiguous(extras[name]) for name in ("b",) if name in extras}
    steps = _Backward(documents, starts, _Layer(extras), wanted)
    if index.numel() == 0 or steps.length == 0:
        return steps.results(torch.zeros_like(queries) if wanted[0] else None, Q, H)
    grad_scores = grad_scores.float().reshape(len(queries), -1)
    group = 1 if pairing == "cross" else grad_scores.shape[1]
    index = index.view(len(queries) if pairing == "cross" else 1, -1, Q.shape[-2])
    size = steps.bytes_of_document(index.shape[0] * index.shape[2])
    grad_q: Tensor | None = None
    of_queries: list[Tensor] = []
    for block in _blocks(index.shape[1] // group, size * group, _BACKWARD_BLOCK_BYTES):
        of_documents = slice(block.start * group, block.stop * group)
        of_block = (queries, grad_scores[:, block].contiguous()) if pairing == "cross" else (queries[block], grad_scores[block])
        added = steps.add(index, of_documents, *of_block, pairing)
        if added is None:
            continue
        if pairing == "cross":
            grad_q = _sum(grad_q, added)
        else:
            of_queries.append(added)
    if of_queries:
        grad_q = torch.cat(of_queries) if len(of_queries) > 1 else of_queries[0]
    return steps.results(grad_q, Q, H)
