"""maxsim_from_hidden of torch tensors, by operators of its own: what differentiates and traces it is torch.library.

    rowmax::score_hidden           scores and, where wanted, the winning tokens
    rowmax::score_hidden_backward  the gradients of Q, H, W and b, from the winning tokens
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, is_autocast_enabled
from torch.autograd import forward_ad

from rowmax import _torch_hidden_cuda
from rowmax._frameworks import Extras
from rowmax._torch import TORCH, _autocast, _read_as, refuse_double_backward
from rowmax._torch_arguments import Signature
from rowmax._torch_ops import _items, _register, _score_dtype, deliver

_OPTIONS = Signature(
    ("q_mask", "d_mask", "cu_seqlens_d"),
    {"normalize_hidden": ("bool", False), "validate": ("bool?", None), "threads": ("int", 0), "kernel": ("str", "")},
)
_SCHEMA = "Tensor Q, Tensor H, Tensor W, Tensor? b, str pairing, " + _OPTIONS.schema
_ARGUMENTS = 5 + len(_OPTIONS)


def score(
    Q: Tensor, H: Tensor, W: Tensor, b: Tensor | None, pairing: str, extras: Extras, return_index: bool, out: Any,
    backward: str,
) -> Any:  # fmt: skip
    Q, H, W, b = _as_computed(Q, H, W, b, extras.pop("dtype", None))
    wanted = any(t is not None and t.requires_grad for t in (Q, H, W, b)) and torch.is_grad_enabled()
    if wanted and out is not None:
        raise ValueError("out cannot be given when Q, H, W or b requires grad")
    _refuse_tangents(Q, H, W, b)
    arguments = _OPTIONS.arguments(extras, Q.device)
    keep = return_index or (wanted and backward != "recompute")
    scores, index = torch.ops.rowmax.score_hidden(Q, H, W, b, pairing, *arguments, keep)
    return deliver(scores, index, return_index, out)


def _as_computed(
    Q: Tensor, H: Tensor, W: Tensor, b: Tensor | None, dtype: str | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """In the type they are scored in: `dtype=` reads uint16 as bfloat16, autocast casts as for a linear layer."""
    tensors = {"Q": Q, "H": H, "W": W} | ({} if b is None else {"b": b})
    if dtype is not None:
        tensors = {name: _read_as(t, name, dtype) for name, t in tensors.items()}
    device = Q.device.type
    if device in ("cpu", "cuda") and is_autocast_enabled(device):
        to = torch.get_autocast_dtype(device)
        tensors = {name: _autocast(t, to) for name, t in tensors.items()}
    return tensors["Q"], tensors["H"], tensors["W"], tensors.get("b")


def _refuse_tangents(*tensors: Tensor | None) -> None:
    if forward_ad._current_level < 0:
        return
    if any(t is not None and forward_ad.unpack_dual(t).tangent is not None for t in tensors):
        raise NotImplementedError("rowmax scores have no forward-mode derivative: use backward()")


def _extras(W: Tensor, b: Tensor | None, rest: tuple[Any, ...]) -> Extras:
    given = _OPTIONS.extras(rest) | {"W": W} | ({} if b is None else {"b": b})
    return {name: value.detach().resolve_neg() if isinstance(value, Tensor) else value for name, value in given.items()}


# The implementations, and the shapes of their results for tracing.


def _score(Q: Tensor, H: Tensor, W: Tensor, b: Tensor | None, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
    *arguments, want_index = rest
    extras = _extras(W, b, tuple(arguments))
    if Q.is_cuda:
        scores, index = _torch_hidden_cuda.score(Q, H, pairing, extras, want_index)
    else:
        found = TORCH.evaluate(Q, H, pairing, extras, want_index)
        scores, index = found if want_index else (found, None)
    return scores, Q.new_empty(0, dtype=torch.int32) if index is None else index


def _backward(
    Q: Tensor, H: Tensor, W: Tensor, b: Tensor | None, pairing: str, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *arguments, index, grad_scores, for_q, for_h, for_w, for_b = rest
    extras = _extras(W, b, tuple(arguments))
    if index is None:
        _, index = _score(Q, H, W, b, pairing, *arguments, True)
    wanted = for_q, for_h, for_w, for_b and b is not None
    if Q.is_cuda:
        found = _torch_hidden_cuda.backward(Q, H, pairing, extras, index, grad_scores, wanted)
        made = [Q.new_empty(0) if grad is None else grad for grad in found]
        return made[0], made[1], made[2], made[3]
    tensors = (Q, H, W, W.new_empty(0) if b is None else b)
    grads = [torch.empty(t.shape if needed else 0, dtype=t.dtype) for t, needed in zip(tensors, wanted, strict=True)]
    results = (grad if needed else None for grad, needed in zip(grads, wanted, strict=True))
    TORCH.request(Q.detach(), H.detach(), pairing, extras).backward(index, grad_scores.contiguous(), *results)
    return grads[0], grads[1], grads[2], grads[3]


def _score_fake(Q: Tensor, H: Tensor, W: Tensor, b: Tensor | None, pairing: str, *rest: Any) -> tuple[Tensor, Tensor]:
    cu_seqlens_d, want_index = rest[_OPTIONS.tensors.index("cu_seqlens_d")], rest[-1]
    documents = _items(H, cu_seqlens_d)
    shape = _items(Q, None) + documents if pairing == "cross" else documents
    index_shape = [*shape, Q.shape[-2]] if want_index else [0]
    return Q.new_empty(shape, dtype=_score_dtype(Q)), Q.new_empty(index_shape, dtype=torch.int32)


def _backward_fake(
    Q: Tensor, H: Tensor, W: Tensor, b: Tensor | None, pairing: str, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    for_q, for_h, for_w, for_b = rest[-4:]
    bias = b.shape if for_b and b is not None else [0]
    return (
        Q.new_empty(Q.shape if for_q else [0]), H.new_empty(H.shape if for_h else [0]),
        W.new_empty(W.shape if for_w else [0]), W.new_empty(bias),
    )  # fmt: skip


# The gradient.


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    Q, H, W, b, pairing, *arguments, want_index = inputs
    tensors, ctx.scalars = _OPTIONS.split(arguments)
    ctx.save_for_backward(Q, H, W, b, output[1] if want_index else None, *tensors)
    ctx.pairing = pairing
    ctx.set_materialize_grads(False)  # or zeros were made for the index, as large as it is
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, grad_scores: Tensor | None, _: Any) -> tuple[Any, ...]:
    if grad_scores is None:
        return (None,) * (_ARGUMENTS + 1)
    Q, H, W, b, index, *tensors = ctx.saved_tensors
    wanted = ctx.needs_input_grad[:4]
    call = (Q, H, W, b, ctx.pairing, *tensors, *ctx.scalars)
    grads = torch.ops.rowmax.score_hidden_backward(*call, index, grad_scores, *wanted)
    found = (grad if needed else None for grad, needed in zip(grads, wanted, strict=True))
    return *found, *[None] * (_ARGUMENTS + 1 - 4)


_register("score_hidden", f"({_SCHEMA}, bool want_index) -> (Tensor, Tensor)", _score, _score_fake)
_register(
    "score_hidden_backward",
    f"({_SCHEMA}, Tensor? index, Tensor grad_scores, bool for_q, bool for_h, bool for_w, bool for_b) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _backward_fake,
)
torch.library.register_autograd("rowmax::score_hidden", _differentiate, setup_context=_save)
torch.library.register_autograd("rowmax::score_hidden_backward", refuse_double_backward)
