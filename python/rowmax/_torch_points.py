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
from rowmax._points import into, item_count
from rowmax._torch import TORCH, _needs_dispatcher, apart, refuse_double_backward
from rowmax._torch_arguments import Signature
from rowmax._torch_ops import _register, fill

_OPTIONS = Signature(
    ("p_mask", "r_mask", "cu_seqlens_p", "cu_seqlens_r"),
    {
        "l1": ("bool", False), "search": ("str", "auto"), "validate": ("bool?", None), "threads": ("int", 0),
        "kernel": ("str", ""),
    },
)  # fmt: skip
_SCHEMA = "Tensor P, Tensor R, " + _OPTIONS.schema
_GIVEN = 2 + len(_OPTIONS)


def _arguments(P: Tensor, R: Tensor, extras: Extras) -> tuple[Any, ...]:
    """A call in the order of the schema."""
    if "dtype" in extras:
        P, R = (x.view(torch.bfloat16) if x.dtype is torch.uint16 else x for x in (P, R))
    return P, R, *_OPTIONS.arguments(extras, P.device)


def _native_call(given: tuple[Any, ...]) -> tuple[Tensor, Tensor, Extras]:
    """The inverse of _arguments(), for the native module."""
    P, R, *rest = given
    extras = {name: x.detach() if isinstance(x, Tensor) else x for name, x in _OPTIONS.extras(tuple(rest)).items()}
    return TORCH.detached(P), TORCH.detached(R), extras


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
    distance, index = _run("nearest", P, R, extras, k)
    if out is None:
        return distance, index
    TORCH.split_out(out, True, "(distance, index)")
    _copied(out, {"distance": distance, "index": index})
    return out  # type: ignore[no-any-return]


def chamfer(
    P: Tensor, R: Tensor, extras: Extras, reduction: str, one_sided: bool, wanted: list[str], out: Any
) -> dict[str, Tensor]:
    _refuse_out(out, P, R)
    results = _run("chamfer", P, R, extras, reduction, one_sided)
    return _copied(out, {name: tensor for name, tensor in zip(_RESULTS, results, strict=True) if name in wanted})


def _run(name: str, P: Tensor, R: Tensor, extras: Extras, *how: Any) -> Any:
    """An operator; for plain tensors without its way through the dispatcher, which takes longer than some sets of points."""
    if "dtype" in extras or _needs_dispatcher(P, R) or torch._C._are_functorch_transforms_active():
        return getattr(torch.ops.rowmax, name)(*_arguments(P, R, extras), *how)
    return (_Nearest if name == "nearest" else _Chamfer).apply(P, R, extras, *how)


def _recorded(P: Tensor) -> bool:
    """Whether a backward pass is itself recorded or traced, so that it has to be an operator."""
    return torch.is_grad_enabled() or _needs_dispatcher(P) or torch._C._are_functorch_transforms_active()


_RESULTS = ("value", "distance_p", "distance_r", "index_p", "index_r")


# The implementations.


def _type(P: Tensor) -> torch.dtype:
    return torch.float64 if P.dtype is torch.float64 else torch.float32


def _empty(shape: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A new tensor; sizes on their own are parsed in half the time of a tuple, which one without dimensions needs."""
    return torch.empty(*shape, dtype=dtype, device=device) if shape else torch.empty((), dtype=dtype, device=device)


def _constant(tensor: Tensor) -> Tensor:
    """A tensor that the native module reads: detached where it has to be."""
    return tensor.detach() if tensor.requires_grad else tensor


def _nearest_like(P: Tensor, k: int) -> tuple[Tensor, Tensor]:
    shape = [*P.shape[:-1], k]
    return P.new_empty(shape, dtype=_type(P)), P.new_empty(shape, dtype=torch.int64)


def _fill_nearest(P: Tensor, R: Tensor, extras: Extras, k: int) -> tuple[Tensor, Tensor]:
    distance, index = _nearest_like(P, k)
    _native.nearest(P, R, extras, k, distance, index)
    return distance, index


def _nearest(*call: Any) -> tuple[Tensor, Tensor]:
    *given, k = call
    return _fill_nearest(*_native_call(tuple(given)), k)


def _gradients_like(P: Tensor, R: Tensor, for_p: bool, for_r: bool) -> tuple[Tensor, Tensor]:
    return tuple(_gradient_like(x, wanted) for x, wanted in ((P, for_p), (R, for_r)))  # type: ignore[return-value]


def _gradient_like(points: Tensor, wanted: bool) -> Tensor:
    if not wanted:
        return points.new_empty([0])
    return torch.empty_like(points) if points.is_contiguous() else points.new_empty(points.shape)


def _wanted(grad_p: Tensor, grad_r: Tensor, for_p: bool, for_r: bool) -> tuple[Tensor | None, Tensor | None]:
    return grad_p if for_p else None, grad_r if for_r else None


def _fill_nearest_gradients(
    P: Tensor, R: Tensor, extras: Extras, k: int, index: Tensor, grad_distance: Tensor, for_p: bool, for_r: bool
) -> tuple[Tensor, Tensor]:
    gradients = _gradients_like(P, R, for_p, for_r)
    given = _constant(index), _constant(grad_distance).contiguous()
    _native.nearest_backward(P, R, extras, k, *given, *_wanted(*gradients, for_p, for_r))
    return gradients


def _nearest_backward(*call: Any) -> tuple[Tensor, Tensor]:
    given, rest = call[:_GIVEN], call[_GIVEN:]
    return _fill_nearest_gradients(*_native_call(given), *rest)


def _chamfer_shapes(P: Tensor, R: Tensor, cu_seqlens_p: Any, reduction: str, one_sided: bool) -> list[Any]:
    """Of all results, None for those that are not made."""
    points = [P.shape[:-1], None if one_sided else R.shape[:-1]]
    if reduction == "none":
        return [None, *points, *points]
    items = P.shape[:-2] if cu_seqlens_p is None else [item_count(cu_seqlens_p)]
    return [items, None, None, *points]


def _result_types(P: Tensor) -> tuple[torch.dtype, ...]:
    return *[_type(P)] * 3, torch.int64, torch.int64


def _chamfer_like(given: tuple[Any, ...], reduction: str, one_sided: bool) -> tuple[Tensor, ...]:
    """Results of the operator: empty where they are not made."""
    P, R, cu_seqlens_p = given[0], given[1], given[4]
    shapes = _chamfer_shapes(P, R, cu_seqlens_p, reduction, one_sided)
    types = _result_types(P)
    return tuple(P.new_empty([0] if shape is None else shape, dtype=t) for shape, t in zip(shapes, types, strict=True))


def _fill_chamfer(P: Tensor, R: Tensor, extras: Extras, reduction: str, one_sided: bool) -> tuple[Tensor | None, ...]:
    shapes = _chamfer_shapes(P, R, extras.get("cu_seqlens_p"), reduction, one_sided)
    types = _result_types(P)
    device = P.device
    results = [None if shape is None else _empty(shape, t, device) for shape, t in zip(shapes, types, strict=True)]
    _native.chamfer(P, R, extras, reduction == "mean", one_sided, *results)
    return tuple(results)


def _chamfer(*call: Any) -> tuple[Tensor, ...]:
    *given, reduction, one_sided = call
    P, R, extras = _native_call(tuple(given))
    made = _fill_chamfer(P, R, extras, reduction, one_sided)
    types = _result_types(P)
    return tuple(P.new_empty([0], dtype=t) if x is None else x for x, t in zip(made, types, strict=True))


def _fill_chamfer_gradients(
    P: Tensor, R: Tensor, extras: Extras, reduction: str, one_sided: bool, index_p: Tensor, index_r: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    *grads, for_p, for_r = rest
    gradients = _gradients_like(P, R, for_p, for_r)
    indices = _constant(index_p), None if one_sided or index_r is None else _constant(index_r)
    value, to_r, to_p = (None if g is None else _constant(g).contiguous() for g in grads)
    wanted = _wanted(*gradients, for_p, for_r)
    _native.chamfer_backward(P, R, extras, reduction == "mean", *indices, value, to_r, to_p, *wanted)
    return gradients


def _chamfer_backward(*call: Any) -> tuple[Tensor, Tensor]:
    given, rest = call[:_GIVEN], call[_GIVEN:]
    return _fill_chamfer_gradients(*_native_call(given), *rest)


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
    P, R, *rest = given
    tensors, ctx.scalars = _OPTIONS.split(rest)
    ctx.save_for_backward(P, R, *tensors, *indices)
    ctx.set_materialize_grads(False)


def _saved(ctx: Any) -> tuple[list[Any], list[Tensor]]:
    """The call that was saved, and its indices."""
    (P, R), (tensors, indices) = ctx.saved_tensors[:2], _OPTIONS.split(ctx.saved_tensors[2:])
    return [P, R, *tensors, *ctx.scalars], list(indices)


def _differentiate_nearest(ctx: Any, grad_distance: Tensor | None, _: Any) -> tuple[Any, ...]:
    if grad_distance is None:
        return (None,) * (_GIVEN + 1)
    given, (index,) = _saved(ctx)
    needed = ctx.needs_input_grad[:2]
    gradients = torch.ops.rowmax.nearest_backward(*given, ctx.k, index, grad_distance, *needed)
    return *_wanted(*gradients, *needed), *[None] * (_GIVEN - 1)


def _wanted_gradients(grads: tuple[Any, ...], reduction: str, one_sided: bool) -> tuple[Any, ...]:
    """Of value and distances; what is unused may come as zeros."""
    value, distance_p, distance_r, *_ = grads
    return (None, distance_p, None if one_sided else distance_r) if reduction == "none" else (value, None, None)


def _differentiate_chamfer(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    how = ctx.reduction, ctx.one_sided
    wanted = _wanted_gradients(grads, *how)
    if all(g is None for g in wanted):
        return (None,) * (_GIVEN + 2)
    given, indices = _saved(ctx)
    needed = ctx.needs_input_grad[:2]
    gradients = torch.ops.rowmax.chamfer_backward(*given, *how, *indices, *wanted, *needed)
    return *_wanted(*gradients, *needed), *[None] * _GIVEN


# The same for plain tensors, which need no operator but where gradients are recorded.


def _keep(ctx: Any, P: Tensor, R: Tensor, extras: Extras, *indices: Tensor | None) -> None:
    ctx.extras, ctx.names, tensors = apart(extras)
    ctx.save_for_backward(P, R, *indices, *tensors)
    ctx.set_materialize_grads(False)


def _kept(ctx: Any, indices: int) -> tuple[Tensor, Tensor, Extras, list[Any]]:
    P, R, *rest = ctx.saved_tensors
    return P, R, ctx.extras | dict(zip(ctx.names, rest[indices:], strict=True)), rest[:indices]


class _Nearest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, P: Tensor, R: Tensor, extras: Extras, k: int) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        distance, index = _fill_nearest(TORCH.detached(P), TORCH.detached(R), extras, k)
        _keep(ctx, P, R, extras, index)
        ctx.k = k
        ctx.mark_non_differentiable(index)
        return distance, index

    @staticmethod
    def backward(ctx: Any, grad_distance: Tensor | None, _: Any) -> tuple[Any, ...]:  # type: ignore[override]
        if grad_distance is None:
            return None, None, None, None
        P, R, extras, (index,) = _kept(ctx, 1)
        needed = ctx.needs_input_grad[:2]
        rest = ctx.k, index, grad_distance, *needed
        if _recorded(P):
            gradients = torch.ops.rowmax.nearest_backward(*_arguments(P, R, extras), *rest)
        else:
            gradients = _fill_nearest_gradients(TORCH.detached(P), TORCH.detached(R), extras, *rest)
        return *_wanted(*gradients, *needed), None, None


class _Chamfer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, P: Tensor, R: Tensor, extras: Extras, reduction: str, one_sided: bool) -> tuple[Any, ...]:  # type: ignore[override]
        made = _fill_chamfer(TORCH.detached(P), TORCH.detached(R), extras, reduction, one_sided)
        _keep(ctx, P, R, extras, *made[3:])
        ctx.how = reduction, one_sided
        ctx.mark_non_differentiable(*(index for index in made[3:] if index is not None))
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:  # type: ignore[override]
        wanted = _wanted_gradients(grads, *ctx.how)
        if all(g is None for g in wanted):
            return (None,) * 5
        P, R, extras, indices = _kept(ctx, 2)
        needed = ctx.needs_input_grad[:2]
        if _recorded(P):
            indices = [P.new_empty([0], dtype=torch.int64) if index is None else index for index in indices]
            call = (*_arguments(P, R, extras), *ctx.how, *indices, *wanted, *needed)
            gradients = torch.ops.rowmax.chamfer_backward(*call)
        else:
            P, R = TORCH.detached(P), TORCH.detached(R)
            gradients = _fill_chamfer_gradients(P, R, extras, *ctx.how, *indices, *wanted, *needed)
        return *_wanted(*gradients, *needed), None, None, None


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
