"""torch.library operators, for `torch.compile`, `torch.export` and tensor subclasses.

    rowmax::score           scores and, where wanted, the winning tokens
    rowmax::score_backward  the gradients of score, from the winning tokens
    rowmax::topk            the k best documents of every query
    rowmax::explain         the winning tokens and their similarities
    rowmax::inverse_grid    the sources of every destination
    rowmax::scatter_sum     sums of the rows that name the same destination
    rowmax::gather_rows     the rows that an index names, which is its gradient, as it is the gradient of this
    rowmax::quantize_int8, quantize_fp8, sign_bits, unpack_residual, plaid_approx_score: what these functions give

Eager calls on plain tensors take the shorter way of _torch.py; both end in the same native call. The operators take
the arguments of the Python functions, with -1, 0 and "" for what was not given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rowmax import _bits, _quantized, _residual
from rowmax._frameworks import NUMBERS as _TENSORS
from rowmax._frameworks import Extras, Framework
from rowmax._torch import TORCH, gradients, refuse_double_backward, saves_16_bits
from rowmax._torch_arguments import Signature

_OPTIONS = Signature(
    _TENSORS,
    {
        "max_seqlen_q": ("SymInt", -1), "max_seqlen_d": ("SymInt", -1), "normalize": ("bool", False),
        "precision": ("str", "highest"), "validate": ("bool?", None), "threads": ("int", 0), "kernel": ("str", ""),
        "nbits": ("int", 0), "bit_order": ("str", ""), "normalize_residuals": ("bool", False), "signs": ("bool", False),
        "fp8": ("bool", False), "sign_bits": ("SymInt", 0),
    },
)  # fmt: skip
_SCHEMA = "Tensor Q, Tensor D, str pairing, " + _OPTIONS.schema
_arguments, _extras = _OPTIONS.arguments, _OPTIONS.extras


def score(Q: Tensor, D: Tensor, pairing: str, extras: Extras, return_index: bool, keep: bool) -> tuple[Tensor, Tensor]:
    """Scores, and the index if it is returned or kept for the gradient; else an empty one."""
    narrow = keep and not return_index and saves_16_bits(D, extras)
    arguments = _arguments(extras, Q.device)
    scores, index = torch.ops.rowmax.score(Q, D, pairing, *arguments, return_index or keep, narrow)
    return scores, index


def topk(Q: Tensor, D: Tensor, k: int, chunk: int, extras: Extras) -> tuple[Tensor, Tensor]:
    scores, index = torch.ops.rowmax.topk(Q, D, "cross", *_arguments(extras, Q.device), k, chunk)
    return scores, index


def explain(Q: Tensor, D: Tensor, pairing: str, extras: Extras, out: Any) -> tuple[Tensor, Tensor]:
    index, similarity = torch.ops.rowmax.explain(Q.detach(), D.detach(), pairing, *_arguments(extras, Q.device))
    return deliver(index, similarity, True, out)  # type: ignore[no-any-return]


def inverse_grid(index: Tensor, n: int, validate: bool, out: Any) -> tuple[Tensor, Tensor]:
    row_ptr, source = torch.ops.rowmax.inverse_grid(index, n, validate)
    return deliver(row_ptr, source, True, out)  # type: ignore[no-any-return]


def scatter_sum(
    index: Tensor, values: Tensor, n: int, grid: tuple[Any, Any], validate: bool, threads: int, deterministic: bool,
    out: Any,
) -> Tensor:  # fmt: skip
    sums = torch.ops.rowmax.scatter_sum(index, values, n, *grid, validate, threads, deterministic)
    return deliver(sums, sums, False, out)  # type: ignore[no-any-return]


def rows(index: Tensor, table: Tensor) -> Tensor:
    return torch.ops.rowmax.gather_rows(index, table)  # type: ignore[no-any-return]


def call(name: str, *arguments: Any) -> Any:
    """An operator without a gradient; what it takes for a tensor may still be a list or an array."""
    given = (a.detach() if isinstance(a, Tensor) else a for a in arguments)
    return getattr(torch.ops.rowmax, name)(*(torch.as_tensor(a) if isinstance(a, list | tuple | np.ndarray) else a for a in given))


def deliver(first: Tensor, second: Tensor, both: bool, out: Any) -> Any:
    """What a function returns, one result or both; `out` is filled by a copy, since operators that write to it need not exist."""
    if out is None:
        return (first, second) if both else first
    for target, source in zip(TORCH.split_out(out, both), (first, second), strict=True):
        if target is not None:
            fill(target, source, "out")
    return out


def fill(target: Tensor, source: Tensor, name: str) -> None:
    """Copies a result to what was given for it, which has to be its like."""
    if target.dtype != source.dtype:
        raise TypeError(f"{name} must be {source.dtype}, got {target.dtype}")
    if target.shape != source.shape:
        raise ValueError(f"{name} must have shape {tuple(source.shape)}, got {tuple(target.shape)}")
    target.copy_(source)


# The implementations, the same for memory of every kind.


def _score(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
    *arguments, want_index, narrow = rest
    result = TORCH.evaluate(Q, D, pairing, _extras(tuple(arguments)), want_index, saved=narrow)
    return result if want_index else (result, Q.new_empty(0, dtype=torch.int32))


def _backward(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
    *arguments, index, grad_scores, for_q, for_d = rest
    grad_q, grad_d = gradients(Q, D, pairing, _extras(tuple(arguments)), index, grad_scores, for_q, for_d)
    return grad_q if for_q else Q.new_empty(0), grad_d if for_d else D.new_empty(0)


def _topk(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
    *arguments, k, chunk = rest
    return Framework.topk(TORCH, Q, D, k, chunk, _extras(tuple(arguments)))


def _explain(Q: Tensor, D: Tensor, pairing: str, *arguments: Any) -> tuple[Tensor, Tensor]:
    return Framework.explain(TORCH, Q, D, pairing, _extras(arguments))


def _grid(index: Tensor, n: int, validate: bool) -> tuple[Tensor, Tensor]:
    return Framework.inverse_grid(TORCH, index, n, validate)


def _sum_sources(
    index: Tensor, values: Tensor, n: int, row_ptr: Tensor | None, source: Tensor | None, validate: bool, threads: int,
    deterministic: bool = True,
) -> Tensor:  # fmt: skip
    grid = (row_ptr, source)
    return Framework.scatter_sum(TORCH, index, values, n, grid, validate, threads, False, deterministic)  # type: ignore[no-any-return]


def _gather_rows(index: Tensor, table: Tensor) -> Tensor:
    axis = index.ndim - 1
    n, channels = table.shape[axis], table.shape[index.ndim :]
    inside = (index >= 0) & (index < n)
    if n == 0 or index.numel() == 0:
        return table.new_zeros((*index.shape, *channels))
    safe = torch.where(inside, index, 0).long().reshape(-1, index.shape[axis])
    safe = safe + n * torch.arange(len(safe), device=index.device)[:, None]
    chosen = table.reshape(-1, *channels).index_select(0, safe.flatten()).reshape(*index.shape, *channels)
    return chosen.masked_fill_(~inside.reshape(*index.shape, *[1] * len(channels)), 0)


def _dtype(bits_are_bfloat16: bool) -> str | None:
    return "bfloat16" if bits_are_bfloat16 else None


def _int8(X: Tensor, by_document: bool, threads: int, bits: bool) -> tuple[Tensor, Tensor]:
    return _quantized.quantize_int8(X, "document" if by_document else "token", threads=threads, dtype=_dtype(bits))


def _fp8(X: Tensor, per_tensor: bool, threads: int, bits: bool) -> tuple[Tensor, Tensor]:
    codes, scale = _quantized.quantize_fp8(X, "tensor" if per_tensor else "token", threads=threads, dtype=_dtype(bits))
    return codes.view(torch.uint8), scale


def _sign_bits(X: Tensor, big: bool, threads: int, bits: bool) -> Tensor:
    return _bits.sign_bits(X, "big" if big else "little", threads=threads, dtype=_dtype(bits))  # type: ignore[no-any-return]


def _unpack(packed: Tensor, nbits: int, little: bool) -> Tensor:
    return _residual.unpack_residual(packed, nbits, "little" if little else "colbert")  # type: ignore[no-any-return]


def _plaid(table: Tensor, codes: Tensor, doc_lengths: Tensor, validate: bool | None, threads: int, bits: bool) -> Tensor:
    return _residual.plaid_approx_score(  # type: ignore[no-any-return]
        table, codes, doc_lengths, validate=validate, threads=threads, dtype=_dtype(bits)
    )


# Their shapes, for tracing.


def _int8_fake(X: Tensor, by_document: bool, *_: Any) -> tuple[Tensor, Tensor]:
    scale = X.shape[: -2 if by_document else -1]
    return X.new_empty(X.shape, dtype=torch.int8), X.new_empty(scale, dtype=torch.float32)


def _fp8_fake(X: Tensor, per_tensor: bool, *_: Any) -> tuple[Tensor, Tensor]:
    scale = () if per_tensor else X.shape[:-1]
    return X.new_empty(X.shape, dtype=torch.uint8), X.new_empty(scale, dtype=torch.float32)


def _sign_bits_fake(X: Tensor, *_: Any) -> Tensor:
    return X.new_empty((*X.shape[:-1], (X.shape[-1] + 7) // 8), dtype=torch.uint8)


def _unpack_fake(packed: Tensor, nbits: int, *_: Any) -> Tensor:
    return packed.new_empty((*packed.shape[:-1], packed.shape[-1] * 8 // nbits))


def _plaid_fake(table: Tensor, codes: Tensor, *_: Any) -> Tensor:
    return table.new_empty(codes.shape[:1], dtype=torch.float32)


def _items(tokens: Tensor, cu_seqlens: Tensor | None) -> list[Any]:
    """The leading dimensions that a side gives to the scores."""
    return [cu_seqlens.shape[0] - 1] if cu_seqlens is not None else list(tokens.shape[:-2])


def _score_dtype(Q: Tensor) -> torch.dtype:
    return torch.float64 if Q.dtype is torch.float64 else torch.float32


def _score_shape(Q: Tensor, D: Tensor, pairing: str, extras: Extras) -> list[Any]:
    queries = _items(Q, extras.get("cu_seqlens_q"))
    if pairing == "list":
        return [extras["pair_q"].shape[0]]
    if "offsets" in extras:
        return queries + [extras["offsets"].shape[0]]
    documents = _items(D, extras.get("cu_seqlens_d"))
    return queries + documents if pairing == "cross" else documents


def _query_length(Q: Tensor, extras: Extras) -> Any:
    if "cu_seqlens_q" not in extras:
        return Q.shape[-2]
    # Without max_seqlen_q the longest query is known only when the offsets are read.
    return extras["max_seqlen_q"] if "max_seqlen_q" in extras else torch.library.get_ctx().new_dynamic_size()


def _score_fake(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
    *arguments, want_index, narrow = rest
    extras = _extras(tuple(arguments))
    shape = _score_shape(Q, D, pairing, extras)
    index_shape = [*shape, _query_length(Q, extras)] if want_index else [0]
    index_dtype = torch.int16 if narrow else torch.int32
    return Q.new_empty(shape, dtype=_score_dtype(Q)), Q.new_empty(index_shape, dtype=index_dtype)


def _backward_fake(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
    *_, for_q, for_d = rest
    return Q.new_empty(Q.shape if for_q else [0]), D.new_empty(D.shape if for_d else [0])


def _topk_fake(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
    *arguments, k, _ = rest
    extras = _extras(tuple(arguments))
    documents = _items(D, extras.get("cu_seqlens_d")) or [1]
    shape = [*_items(Q, extras.get("cu_seqlens_q")), torch.sym_min(k, documents[0])]
    return Q.new_empty(shape, dtype=_score_dtype(Q)), Q.new_empty(shape, dtype=torch.int64)


def _explain_fake(Q: Tensor, D: Tensor, pairing: str, *arguments: Any) -> tuple[Tensor, Tensor]:
    extras = _extras(arguments)
    shape = [*_score_shape(Q, D, pairing, extras), _query_length(Q, extras)]
    return Q.new_empty(shape, dtype=torch.int32), Q.new_empty(shape, dtype=_score_dtype(Q))


def _grid_fake(index: Tensor, n: int, validate: bool) -> tuple[Tensor, Tensor]:
    shape = [*index.shape[:-1], n + 1]
    return index.new_empty(shape, dtype=torch.int64), index.new_empty(index.shape, dtype=torch.int64)


def _sum_fake(index: Tensor, values: Tensor, n: int, *_: Any) -> Tensor:
    return values.new_empty([*values.shape[: index.ndim - 1], n, *values.shape[index.ndim :]])


def _rows_fake(index: Tensor, table: Tensor) -> Tensor:
    return table.new_empty([*index.shape, *table.shape[index.ndim :]])


# The gradients of scatter_sum and gather_rows, which are each other.


def _save_sum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _differentiate_sum(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    (index,) = ctx.saved_tensors
    return None, torch.ops.rowmax.gather_rows(index, grad), *[None] * 6


def _save_rows(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    index, table = inputs
    ctx.save_for_backward(index)
    ctx.destinations = table.shape[index.ndim - 1]


def _differentiate_rows(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    (index,) = ctx.saved_tensors
    return None, torch.ops.rowmax.scatter_sum(index, grad, ctx.destinations, None, None, False, 0)


# The gradient of score.


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    Q, D, pairing, *arguments, want_index, _ = inputs
    tensors, scalars = _OPTIONS.split(arguments)
    ctx.save_for_backward(Q, D, output[1] if want_index else None, *tensors)
    ctx.pairing, ctx.scalars = pairing, scalars
    ctx.set_materialize_grads(False)  # or zeros were made for the index, as large as it is
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, grad_scores: Tensor | None, _: Any) -> tuple[Any, ...]:
    if grad_scores is None:
        return (None,) * (5 + len(_OPTIONS))
    Q, D, index, *tensors = ctx.saved_tensors
    call = (Q, D, ctx.pairing, *tensors, *ctx.scalars)
    for_q, for_d = ctx.needs_input_grad[:2]
    grad_q, grad_d = torch.ops.rowmax.score_backward(*call, index, grad_scores, for_q, for_d)
    return grad_q if for_q else None, grad_d if for_d else None, *[None] * len(call)


def _register(name: str, schema: str, implementation: Any, fake: Any) -> None:
    torch.library.define(f"rowmax::{name}", schema, tags=(torch.Tag.pt2_compliant_tag,))
    for device in ("CPU", "CUDA"):
        torch.library.impl(f"rowmax::{name}", device, implementation)
    torch.library.register_fake(f"rowmax::{name}", fake)


_register("score", f"({_SCHEMA}, bool want_index, bool narrow) -> (Tensor, Tensor)", _score, _score_fake)
_register(
    "score_backward",
    f"({_SCHEMA}, Tensor? index, Tensor grad_scores, bool for_q, bool for_d) -> (Tensor, Tensor)",
    _backward,
    _backward_fake,
)
_register("topk", f"({_SCHEMA}, int k, SymInt chunk) -> (Tensor, Tensor)", _topk, _topk_fake)
_register("explain", f"({_SCHEMA}) -> (Tensor, Tensor)", _explain, _explain_fake)
_register(
    "inverse_grid",
    "(Tensor index, SymInt num_destinations, bool validate) -> (Tensor, Tensor)",
    _grid,
    _grid_fake,
)
_register(
    "scatter_sum",
    "(Tensor index, Tensor values, SymInt num_destinations, Tensor? row_ptr, Tensor? source, bool validate, int threads, "
    "bool deterministic=True) -> Tensor",
    _sum_sources,
    _sum_fake,
)
_register("gather_rows", "(Tensor index, Tensor table) -> Tensor", _gather_rows, _rows_fake)
_register("quantize_int8", "(Tensor X, bool by_document, int threads, bool bits) -> (Tensor, Tensor)", _int8, _int8_fake)
_register("quantize_fp8", "(Tensor X, bool per_tensor, int threads, bool bits) -> (Tensor, Tensor)", _fp8, _fp8_fake)
_register("sign_bits", "(Tensor X, bool big, int threads, bool bits) -> Tensor", _sign_bits, _sign_bits_fake)
_register("unpack_residual", "(Tensor bytes, int nbits, bool little) -> Tensor", _unpack, _unpack_fake)
_register(
    "plaid_approx_score",
    "(Tensor centroid_scores, Tensor codes, Tensor doc_lengths, bool? validate, int threads, bool bits) -> Tensor",
    _plaid,
    _plaid_fake,
)
torch.library.register_autograd("rowmax::score", _differentiate, setup_context=_save)
torch.library.register_autograd("rowmax::score_backward", refuse_double_backward)
torch.library.register_autograd("rowmax::scatter_sum", _differentiate_sum, setup_context=_save_sum)
torch.library.register_autograd("rowmax::gather_rows", _differentiate_rows, setup_context=_save_rows)
