"""torch.library operators of the functions in _selection.py, with their gradients.

    rowmax::topk_tokens, rowmax::smooth     and their _backward, which is native
    rowmax::prefixes, rowmax::xtr           whose gradients are those of rowmax::score for parts of it

All take the arguments of rowmax::score (_torch_ops.py), then their own, and return scores and what their gradient needs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rowmax import _torch_selection_blocks
from rowmax._frameworks import Extras, Framework
from rowmax._torch import TORCH, refuse_double_backward
from rowmax._torch_ops import _OPTIONS, _SCHEMA, _arguments, _extras, _query_length, _register, _score_dtype, _score_shape
from rowmax._torch_selection_blocks import of_length, through_norm, unit

_OWN = {"topk_tokens": 2, "smooth": 1, "prefixes": 1, "xtr": 2}
"""How many parameters each has of its own."""


def call(
    kind: str, Q: Tensor, D: Tensor, pairing: str, extras: Extras, parameters: tuple[Any, ...], second: bool
) -> tuple[Tensor, ...]:
    operator = getattr(torch.ops.rowmax, kind)
    return operator(Q, D, pairing, *_arguments(extras, Q.device), *parameters, second)  # type: ignore[no-any-return]


def _split(kind: str, rest: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
    """(arguments of the request, parameters of the operator, the last argument)"""
    *arguments, last = rest
    own = len(arguments) - _OWN[kind]
    return tuple(arguments[:own]), tuple(arguments[own:]), last


def _implementation(kind: str) -> Any:
    def run(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
        arguments, parameters, second = _split(kind, rest)
        if Q.is_cuda:
            scores, kept = _torch_selection_blocks.select(kind, Q, D, pairing, _extras(arguments), parameters)
            return scores, kept if second else Q.new_empty(0)
        results = Framework.select(TORCH, kind, Q, D, pairing, _extras(arguments), parameters, second)
        return results if second else (results, Q.new_empty(0))

    return run


def _fake(kind: str) -> Any:
    def shapes(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
        arguments, parameters, second = _split(kind, rest)
        extras = _extras(arguments)
        scores = _score_shape(Q, D, pairing, extras)
        tokens = [*scores, _query_length(Q, extras)] if second else [0]
        if kind == "prefixes":
            count = len(parameters[0])
            scores, tokens = [count, *scores], [count, *tokens] if second else [0]
        if kind == "smooth" and second:
            tokens = [2, *tokens]
        if kind == "topk_tokens" and second:
            tokens = [*tokens, parameters[0]]
        dtype = _score_dtype(Q)
        kept = torch.int32 if kind != "smooth" else dtype
        return Q.new_empty(scores, dtype=dtype), Q.new_empty(tokens, dtype=kept if second else Q.dtype)

    return shapes


def _native_backward(kind: str) -> Any:
    def run(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
        *call, kept, grad_scores, for_q, for_d = rest
        arguments, parameters, _ = _split(kind, (*call, None))
        if Q.is_cuda:
            backward: Any = getattr(_torch_selection_blocks, f"{kind}_backward")
            given = arguments if kind == "topk_tokens" else _extras(arguments)
            return backward(Q, D, pairing, given, *parameters, kept, grad_scores, for_q, for_d)  # type: ignore[no-any-return]
        grad_q = torch.empty(Q.shape, dtype=Q.dtype, device=Q.device) if for_q else None
        grad_d = torch.empty(D.shape, dtype=D.dtype, device=D.device) if for_d else None
        request = TORCH.request(Q, D, pairing, _extras(arguments))
        getattr(request, f"{kind}_backward")(*parameters, kept.contiguous(), grad_scores.contiguous(), grad_q, grad_d)
        return Q.new_empty(0) if grad_q is None else grad_q, D.new_empty(0) if grad_d is None else grad_d

    return run


def _backward_fake(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
    for_q, for_d = rest[-2:]
    return Q.new_empty(Q.shape if for_q else [0]), D.new_empty(D.shape if for_d else [0])


def _save(kind: str) -> Any:
    def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        Q, D, pairing, *rest = inputs
        arguments, ctx.parameters, second = _split(kind, tuple(rest))
        kept = output[1:] if second else ()
        ctx.count = len(inputs)
        tensors, ctx.scalars = _OPTIONS.split(arguments)
        ctx.save_for_backward(Q, D, *tensors, *kept)
        ctx.pairing = pairing
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[1:])

    return save


def _differentiate(kind: str, gradients: Any) -> Any:
    def differentiate(ctx: Any, grad_scores: Tensor | None, *_: Any) -> tuple[Any, ...]:
        if grad_scores is None:
            return tuple([None] * ctx.count)
        (Q, D), (tensors, kept) = ctx.saved_tensors[:2], _OPTIONS.split(ctx.saved_tensors[2:])
        wanted = ctx.needs_input_grad[:2]
        grad_q, grad_d = gradients(ctx, Q, D, (*tensors, *ctx.scalars), kept, grad_scores, *wanted)
        return (grad_q if wanted[0] else None, grad_d if wanted[1] else None, *[None] * (ctx.count - 2))

    return differentiate


def _of_native(kind: str) -> Any:
    operator = getattr(torch.ops.rowmax, f"{kind}_backward")

    def gradients(ctx: Any, Q: Tensor, D: Tensor, arguments: Any, kept: Any, grad: Tensor, for_q: bool, for_d: bool) -> Any:
        return operator(Q, D, ctx.pairing, *arguments, *ctx.parameters, kept[0], grad, for_q, for_d)

    return gradients


def _of_prefixes(
    ctx: Any, Q: Tensor, D: Tensor, arguments: Any, kept: Any, grad: Tensor, for_q: bool, for_d: bool
) -> tuple[Tensor, Tensor]:
    """Prefix by prefix: each is a score of its own."""
    grad_q, grad_d = torch.zeros_like(Q, dtype=_score_dtype(Q)), torch.zeros_like(D, dtype=_score_dtype(D))
    arguments = of_length(arguments, kept[0].shape[-1])
    for p, dim in enumerate(ctx.parameters[0]):
        call = (Q[..., :dim], D[..., :dim], ctx.pairing, *arguments, kept[0][p].contiguous(), grad[p].contiguous())
        of_q, of_d = torch.ops.rowmax.score_backward(*call, for_q, for_d)
        if for_q:
            grad_q[..., :dim] += of_q
        if for_d:
            grad_d[..., :dim] += of_d
    return grad_q.to(Q.dtype), grad_d.to(D.dtype)


def _of_xtr(
    ctx: Any, Q: Tensor, D: Tensor, arguments: Any, kept: Any, grad: Tensor, for_q: bool, for_d: bool
) -> tuple[Tensor, Tensor]:
    """Of retrieved tokens as in MaxSim, each pair's divided by how many count; and of the imputed similarity, which is
    that of the last token retrieved."""
    index, last_document, last_token = kept
    arguments = of_length(arguments, index.shape[-1])
    counting = (index != -1).sum(-1)
    share = grad / counting.clamp(min=1)
    call = (Q, D, ctx.pairing, *arguments, index.clamp(min=-1), share.contiguous())
    grad_q, grad_d = torch.ops.rowmax.score_backward(*call, for_q, for_d)
    if not ctx.parameters[1]:
        return grad_q, grad_d
    extras = _extras(tuple(arguments))
    imputed = torch.where(index == -2, share.unsqueeze(-1), 0)
    of_q, of_d = _imputed(Q, D, ctx.pairing, extras, imputed, last_document, last_token)
    return (
        (grad_q + of_q).to(Q.dtype) if for_q else grad_q,
        (grad_d + of_d).to(D.dtype) if for_d else grad_d,
    )


def _imputed(
    Q: Tensor, D: Tensor, pairing: str, extras: Extras, imputed: Tensor, last_document: Tensor, last_token: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of sum(weight[q, s] * similarity(Q[q, s], the last token that it retrieved))."""
    dtype, dim = _score_dtype(Q), Q.shape[-1]
    length = last_document.shape[-1]
    queries, pairs = last_document.numel() // max(length, 1), imputed.numel() // max(length, 1)
    of_pair = torch.arange(pairs, device=Q.device) // max(pairs // max(queries, 1), 1)
    flat = imputed.reshape(pairs, length).contiguous()
    weight = torch.ops.rowmax.scatter_sum(of_pair, flat, queries, None, None, False, 0).reshape(-1, 1)
    positions = torch.arange(queries * length, device=Q.device)
    q_rows = _token_rows(Q, extras.get("cu_seqlens_q"), positions // max(length, 1), positions % max(length, 1))
    d_rows = _token_rows(D, extras.get("cu_seqlens_d"), last_document.flatten(), last_token.flatten())
    found = last_document.flatten() >= 0
    q_rows, d_rows = torch.where(found, q_rows, -1), torch.where(found, d_rows, -1)
    tokens_q, tokens_d = Q.reshape(-1, dim).to(dtype), D.reshape(-1, dim).to(dtype)
    q, d = torch.ops.rowmax.gather_rows(q_rows, tokens_q), torch.ops.rowmax.gather_rows(d_rows, tokens_d)
    for_q, for_d = weight * d, weight * q
    if extras.get("normalize"):
        for_q, for_d = through_norm(weight * unit(d), q), through_norm(weight * unit(q), d)
    sums = [
        torch.ops.rowmax.scatter_sum(rows, values, len(tokens), None, None, False, 0)
        for rows, values, tokens in ((q_rows, for_q, tokens_q), (d_rows, for_d, tokens_d))
    ]
    return sums[0].reshape(Q.shape), sums[1].reshape(D.shape)


def _token_rows(tokens: Tensor, cu_seqlens: Tensor | None, item: Tensor, token: Tensor) -> Tensor:
    """Rows of `tokens` as [T, d]."""
    if cu_seqlens is None:
        return item * tokens.shape[-2] + token
    return cu_seqlens.long()[item.clamp(min=0)] + token


def _xtr(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, ...]:
    arguments, (k, impute), second = _split("xtr", rest)
    if Q.is_cuda:
        scores, *kept = _torch_selection_blocks.select("xtr", Q, D, pairing, _extras(arguments), (k, impute))
        return scores, *(tensor if second else tensor.new_empty(0) for tensor in kept)
    request = TORCH.request(Q, D, pairing, _extras(arguments))
    shape, tokens, dtype = request.result()
    scores = TORCH.empty(shape, dtype, Q)
    if not second:
        request.xtr(k, impute, scores)
        return scores, *(Q.new_empty(0, dtype=t) for t in (torch.int32, torch.int64, torch.int32))
    queries = [len(Q)] if Q.ndim == 3 else []
    if "cu_seqlens_q" in _extras(arguments):
        queries = [len(_extras(arguments)["cu_seqlens_q"]) - 1]
    index = TORCH.empty(tokens, "int32", Q)
    last = TORCH.empty((*queries, tokens[-1]), "int64", Q), TORCH.empty((*queries, tokens[-1]), "int32", Q)
    request.xtr(k, impute, scores, index, *last)
    return scores, index, *last


def _xtr_fake(Q: Tensor, D: Tensor, pairing: str, *rest: Any) -> tuple[Tensor, ...]:
    arguments, _, second = _split("xtr", rest)
    extras = _extras(arguments)
    scores = _score_shape(Q, D, pairing, extras)
    length = _query_length(Q, extras) if second else 0
    queries = [extras["cu_seqlens_q"].shape[0] - 1] if "cu_seqlens_q" in extras else list(Q.shape[:-2])
    last = [*queries, length] if second else [0]
    return (
        Q.new_empty(scores, dtype=_score_dtype(Q)),
        Q.new_empty([*scores, length] if second else [0], dtype=torch.int32),
        Q.new_empty(last, dtype=torch.int64),
        Q.new_empty(last, dtype=torch.int32),
    )


def _define(kind: str, own: str, gradients: Any, implementation: Any, fake: Any, results: int = 2) -> None:
    tensors = ", ".join(["Tensor"] * results)
    _register(kind, f"({_SCHEMA}, {own}, bool second) -> ({tensors})", implementation, fake)
    if gradients is None:
        schema = f"({_SCHEMA}, {own}, Tensor kept, Tensor grad_scores, bool for_q, bool for_d) -> (Tensor, Tensor)"
        _register(f"{kind}_backward", schema, _native_backward(kind), _backward_fake)
        torch.library.register_autograd(f"rowmax::{kind}_backward", refuse_double_backward)
        gradients = _of_native(kind)
    torch.library.register_autograd(f"rowmax::{kind}", _differentiate(kind, gradients), setup_context=_save(kind))


_define("topk_tokens", "SymInt k, bool mean", None, _implementation("topk_tokens"), _fake("topk_tokens"))
_define("smooth", "float temperature", None, _implementation("smooth"), _fake("smooth"))
_define("prefixes", "SymInt[] dims", _of_prefixes, _implementation("prefixes"), _fake("prefixes"))
_define("xtr", "int k, bool impute", _of_xtr, _xtr, _xtr_fake, 4)
