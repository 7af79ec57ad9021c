"""torch.library operators on points, for gradients, `torch.compile`, `torch.export` and tensor subclasses.

    rowmax::nearest, nearest_backward   distances and index, and the gradients of the distances
    rowmax::chamfer, chamfer_backward   value, distances and indices (those not asked for are empty), and their gradients

Eager calls that want no gradient take the shorter way of _points.py; both end in the same native call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rowmax import _native
from rowmax._frameworks import Extras
from rowmax._points import into
from rowmax._torch import TORCH, _needs_dispatcher, refuse_double_backward
from rowmax._torch_ops import _register, fill

_TENSORS = ("p_mask", "r_mask", "cu_seqlens_p", "cu_seqlens_r")
_SCALARS: Extras = {"l1": False, "search": "auto", "validate": None, "threads": 0, "kernel": ""}
_SCHEMA = (
    "Tensor P, Tensor R, "
    + "".join(f"Tensor? {name}, " for name in _TENSORS)
    + "bool l1, str search, bool? validate, int threads, str kernel"
)
_GIVEN = 2 + len(_TENSORS) + len(_SCALARS)


def _arguments(P: Tensor, R: Tensor, extras: Extras) -> tuple[Any, ...]:
    """A call in the order of the schema."""
    if "dtype" in extras:
        P, R = (x.view(torch.bfloat16) if x.dtype is torch.uint16 else x for x in (P, R))
    tensors = (extras.get(name) for name in _TENSORS)
    return (
        P, R, *(t if t is None or isinstance(t, Tensor) else torch.as_tensor(t, device=P.device) for t in tensors),
        *(extras.get(name, default) for name, default in _SCALARS.items()),
    )  # fmt: skip


def _native_call(given: tuple[Any, ...]) -> tuple[Tensor, Tensor, Extras]:
    """The inverse of _arguments(), for the native module."""
    P, R, *rest = given
    extras = {name: t.detach() for name, t in zip(_TENSORS, rest[: len(_TENSORS)], strict=True) if t is not None}
    scalars = zip(_SCALARS.items(), rest[len(_TENSORS) :], strict=True)
    return TORCH.detached(P), TORCH.detached(R), extras | {name: value for (name, usual), value in scalars if value != usual}


def _refuse_out(out: Any, *tensors: Tensor) -> None:
    if out is not None and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise ValueError("out cannot be given when P or R requires grad")


def _copied(out: Any, made: dict[str, Tensor]) -> dict[str, Tensor]:
    """Results, or those copied to `out`, since operators that write to it need not exist."""
    if out is None:
        return made
    for (name, target), source in zip(into(out, list(made)).items(), made.values(), strict=True):
        target, _ = TORCH.split_out(target, False)
        fill(target, source, f"out: {name}")
    return made


def nearest(P: Tensor, R: Tensor, extras: Extras, k: int, out: Any) -> tuple[Tensor, Tensor]:
    _refuse_out(out, P, R)
    distance, index = _run("nearest", *_arguments(P, R, extras), k)
    if out is None:
        return distance, index
    TORCH.split_out(out, True, "(distance, index)")
    _copied(out, {"distance": distance, "index": index})
    return out  # type: ignore[no-any-return]


def chamfer(
    P: Tensor, R: Tensor, extras: Extras, reduction: str, one_sided: bool, wanted: list[str], out: Any
) -> dict[str, Tensor]:
    _refuse_out(out, P, R)
    results = _run("chamfer", *_arguments(P, R, extras), reduction, one_sided)
    return _copied(out, {name: tensor for name, tensor in zip(_RESULTS, results, strict=True) if name in wanted})


def _run(name: str, P: Tensor, R: Tensor, *rest: Any) -> Any:
    """An operator; for plain tensors without its way through the dispatcher, which takes longer than some sets of points."""
    if _needs_dispatcher(P, R) or torch._C._are_functorch_transforms_active():
        return getattr(torch.ops.rowmax, name)(P, R, *rest)
    return (_Nearest if name == "nearest" else _Chamfer).apply(P, R, *rest)


def _backward_operator(name: str, P: Tensor) -> Any:
    """The operator where its call is recorded or traced; else what it runs."""
    if torch.is_grad_enabled() or _needs_dispatcher(P) or torch._C._are_functorch_transforms_active():
        return getattr(torch.ops.rowmax, name)
    return _nearest_backward if name == "nearest_backward" else _chamfer_backward


_RESULTS = ("value", "distance_p", "distance_r", "index_p", "index_r")


# The implementations.


def _type(P: Tensor) -> torch.dtype:
    return torch.float64 if P.dtype is torch.float64 else torch.float32


def _nearest_like(P: Tensor, k: int) -> tuple[Tensor, Tensor]:
    shape = [*P.shape[:-1], k]
    return P.new_empty(shape, dtype=_type(P)), P.new_empty(shape, dtype=torch.int64)


def _nearest(*call: Any) -> tuple[Tensor, Tensor]:
    *given, k = call
    P, R, extras = _native_call(tuple(given))
    distance, index = _nearest_like(P, k)
    _native.nearest(P, R, extras, k, distance, index)
    return distance, index


def _gradients_like(P: Tensor, R: Tensor, for_p: bool, for_r: bool) -> tuple[Tensor, Tensor]:
    return P.new_empty(P.shape if for_p else [0]), R.new_empty(R.shape if for_r else [0])


def _nearest_backward(*call: Any) -> tuple[Tensor, Tensor]:
    *given, k, index, grad_distance, for_p, for_r = call
    P, R, extras = _native_call(tuple(given))
    grad_p, grad_r = _gradients_like(P, R, for_p, for_r)
    wanted = grad_p if for_p else None, grad_r if for_r else None
    _native.nearest_backward(P, R, extras, k, index.detach(), grad_distance.detach().contiguous(), *wanted)
    return grad_p, grad_r


def _chamfer_like(given: tuple[Any, ...], reduction: str, one_sided: bool) -> tuple[Tensor, ...]:
    P, R, cu_seqlens_p = given[0], given[1], given[4]
    nothing, sides = [0], ([P.shape[:-1]] if one_sided else [P.shape[:-1], R.shape[:-1]])
    items = list(P.shape[:-2]) if cu_seqlens_p is None else [cu_seqlens_p.shape[0] - 1]
    points = [*map(list, sides), *[nothing] * (2 - len(sides))]
    shapes = [nothing, *points] if reduction == "none" else [items, nothing, nothing]
    return (
        *(P.new_empty(shape, dtype=_type(P)) for shape in shapes),
        *(P.new_empty(shape, dtype=torch.int64) for shape in points),
    )


def _chamfer(*call: Any) -> tuple[Tensor, ...]:
    *given, reduction, one_sided = call
    results = _chamfer_like(tuple(given), reduction, one_sided)
    P, R, extras = _native_call(tuple(given))
    unwanted = ["value"] if reduction == "none" else ["distance_p", "distance_r"]
    unwanted += ["distance_r", "index_r"] if one_sided else []
    arrays = (None if name in unwanted else array for name, array in zip(_RESULTS, results, strict=True))
    _native.chamfer(P, R, extras, reduction == "mean", one_sided, *arrays)
    return results


def _chamfer_backward(*call: Any) -> tuple[Tensor, Tensor]:
    *given, reduction, one_sided, index_p, index_r, grad_value, grad_distance_p, grad_distance_r, for_p, for_r = call
    P, R, extras = _native_call(tuple(given))
    grad_p, grad_r = _gradients_like(P, R, for_p, for_r)
    indices = index_p.detach(), None if one_sided else index_r.detach()
    value, to_r, to_p = (None if g is None else g.detach().contiguous() for g in (grad_value, grad_distance_p, grad_distance_r))
    wanted = grad_p if for_p else None, grad_r if for_r else None
    _native.chamfer_backward(P, R, extras, reduction == "mean", *indices, value, to_r, to_p, *wanted)
    return grad_p, grad_r


# Their shapes, for tracing.


def _nearest_fake(*call: Any) -> tuple[Tensor, Tensor]:
    return _nearest_like(call[0], call[-1])


def _nearest_backward_fake(*call: Any) -> tuple[Tensor, Tensor]:
    return _gradients_like(call[0], call[1], *call[-2:])


def _chamfer_fake(*call: Any) -> tuple[Tensor, ...]:
    *given, reduction, one_sided = call
    return _chamfer_like(tuple(given), reduction, one_sided)


# The gradients.


def _save_nearest(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *given, ctx.k = inputs
    _save(ctx, given, output[1])
    ctx.mark_non_differentiable(output[1])


def _save_chamfer(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *given, ctx.reduction, ctx.one_sided = inputs
    _save(ctx, given, *output[3:])
    unused = output[:1] if ctx.reduction == "none" else output[1:3]
    ctx.mark_non_differentiable(*unused, *output[3:])


def _save(ctx: Any, given: list[Any], *indices: Tensor) -> None:
    tensors, ctx.scalars = given[: 2 + len(_TENSORS)], given[2 + len(_TENSORS) :]
    ctx.save_for_backward(*tensors, *indices)
    ctx.set_materialize_grads(False)


def _saved(ctx: Any) -> tuple[list[Any], list[Tensor]]:
    """The call that was saved, and its indices."""
    given = [*ctx.saved_tensors[: 2 + len(_TENSORS)], *ctx.scalars]
    return given, list(ctx.saved_tensors[2 + len(_TENSORS) :])


def _delivered(ctx: Any, gradients: tuple[Tensor, Tensor], others: int) -> tuple[Any, ...]:
    wanted = (g if needed else None for g, needed in zip(gradients, ctx.needs_input_grad[:2], strict=True))
    return *wanted, *[None] * others


def _differentiate_nearest(ctx: Any, grad_distance: Tensor | None, _: Any) -> tuple[Any, ...]:
    if grad_distance is None:
        return (None,) * (_GIVEN + 1)
    given, (index,) = _saved(ctx)
    gradients = _backward_operator("nearest_backward", given[0])(*given, ctx.k, index, grad_distance, *ctx.needs_input_grad[:2])
    return _delivered(ctx, gradients, _GIVEN - 1)


def _differentiate_chamfer(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    value, distance_p, distance_r, *_ = grads
    of_distances = (None, distance_p, None if ctx.one_sided else distance_r)  # what is unused may come as zeros
    wanted = of_distances if ctx.reduction == "none" else (value, None, None)
    if all(g is None for g in wanted):
        return (None,) * (_GIVEN + 2)
    given, indices = _saved(ctx)
    how = (ctx.reduction, ctx.one_sided)
    gradients = _backward_operator("chamfer_backward", given[0])(*given, *how, *indices, *wanted, *ctx.needs_input_grad[:2])
    return _delivered(ctx, gradients, _GIVEN)


class _Nearest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output = _nearest(*inputs)
        _save_nearest(ctx, inputs, output)
        return output

    backward = staticmethod(_differentiate_nearest)


class _Chamfer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:  # type: ignore[override]
        output = _chamfer(*inputs)
        _save_chamfer(ctx, inputs, output)
        return output

    backward = staticmethod(_differentiate_chamfer)


_register("nearest", f"({_SCHEMA}, SymInt k) -> (Tensor, Tensor)", _nearest, _nearest_fake)
_register(
    "nearest_backward",
    f"({_SCHEMA}, SymInt k, Tensor index, Tensor grad_distance, bool for_p, bool for_r) -> (Tensor, Tensor)",
    _nearest_backward,
    _nearest_backward_fake,
)
_register(
    "chamfer",
    f"({_SCHEMA}, str reduction, bool one_sided) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _chamfer,
    _chamfer_fake,
)
_register(
    "chamfer_backward",
    f"({_SCHEMA}, str reduction, bool one_sided, Tensor index_p, Tensor index_r, Tensor? grad_value, "
    "Tensor? grad_distance_p, Tensor? grad_distance_r, bool for_p, bool for_r) -> (Tensor, Tensor)",
    _chamfer_backward,
    _nearest_backward_fake,
)
torch.library.register_autograd("rowmax::nearest", _differentiate_nearest, setup_context=_save_nearest)
torch.library.register_autograd("rowmax::chamfer", _differentiate_chamfer, setup_context=_save_chamfer)
for _name in ("nearest_backward", "chamfer_backward"):
    torch.library.register_autograd(f"rowmax::{_name}", refuse_double_backward)
