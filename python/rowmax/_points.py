"""Points: the nearest of another set, and the Chamfer distance between two sets.

The idea is Flash-MaxSim's Chamfer operator: an online minimum, and gradients through the inverse of the index.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from rowmax import _native
from rowmax._frameworks import Extras, Framework, common_framework
from rowmax._options import given, integer, one_of, read_as_bfloat16, text, thread_number

Metric = Literal["l2_sq", "l1"]
Reduction = Literal["mean", "sum", "none"]
Search = Literal["auto", "brute", "tree"]


def nearest(
    P: Any, R: Any, k: int = 1, *, metric: Metric = "l2_sq", p_mask: Any = None, r_mask: Any = None,
    cu_seqlens_p: Any = None, cu_seqlens_r: Any = None, search: Search = "auto", validate: bool | None = None,
    out: Any = None, dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The k nearest points of R for every point of P: `[..., N, c] x [..., M, c]` -> distance and index, `[..., N, k]`.

    Distances ascend; the lowest index comes first among equals, NaN before all. They are float32 (float64 for float64
    points); the index is int64, counted from the item's first point. Beyond the points that R has the distance is infinity
    and the index -1. k is at least 1; lists are meant for some hundreds. torch: distances are differentiable.

    P and R are float16, bfloat16, float32 or float64, with 1 to 4096 coordinates and the same leading dimensions. Both sides
    share these keywords with `chamfer`:

    metric:        "l2_sq", the sum of (p - r)^2, or "l1", the sum of |p - r|; by direct differences, so that points 1e-3
                   apart are told apart at coordinates near 1e3.
    p_mask, r_mask: `[..., N]` and `[..., M]` (a leading 1 serves every item) keep points where they are True or non-zero,
                   in any pattern. Points that are not kept are never found, and find nothing.
    cu_seqlens_p, cu_seqlens_r: packed points `[T, c]`: item i is rows `cu[i]:cu[i + 1]` (int32 or int64, rising from 0);
                   results are then `[T, ...]`. One side may be packed and the other dense.
    search:        "brute" looks at every pair, "tree" at a k-d tree (up to 16 coordinates; points with NaN or infinities are
                   searched by brute force), "auto" chooses by the sizes. All give the same bits.
    validate:      check the contents of offsets (the default, but on a GPU, which would have to be waited for); off, lies
                   are clamped.
    out:           where the results go, in the form in which they are returned; an error where a gradient is wanted.
    dtype, threads, kernel: as in `maxsim`.

    Memory is linear in the points. The results depend on neither threads, batch nor layout; gradients are deterministic:
    every row has one owner, found through the inverse of the index.
    """
    number = integer("k", k)
    if number < 1:
        raise ValueError(f"k must be at least 1, got {number}")
    call = _Call(P, R, metric, search, validate, dtype, threads, kernel, out, p_mask, r_mask, cu_seqlens_p, cu_seqlens_r)
    framework, P, R = call.framework, call.P, call.R
    if recorder := framework.recorder(P, R):
        distance, index = recorder.nearest(P, R, call.extras, number, out)
    else:
        distance, index = framework.split_out(out, True, "(distance, index)")
        if out is None:
            shape = (*P.shape[:-1], number)
            distance, index = framework.empty(shape, call.result, P), framework.empty(shape, "int64", P)
        _native.nearest(framework.detached(P), framework.detached(R), call.extras, number, distance, index)
        if out is None:
            distance, index = framework.finished(distance), framework.finished(index)
    if not call.lead:
        return distance, index
    return distance.reshape(*call.lead, *distance.shape[1:]), index.reshape(*call.lead, *index.shape[1:])


def chamfer(
    P: Any, R: Any, *, metric: Metric = "l2_sq", reduction: Reduction = "mean", one_sided: bool = False, p_mask: Any = None,
    r_mask: Any = None, cu_seqlens_p: Any = None, cu_seqlens_r: Any = None, return_index: bool = False,
    search: Search = "auto", validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """The Chamfer distance of point sets: `[N, c] x [M, c] -> []`, batched `[B, N, c] x [B, M, c] -> [B]`.

    Every point of P to the nearest of R and, unless `one_sided`, every point of R to the nearest of P; the two sums, or means
    over the kept points of each side, are added. A point that is not kept, or sees nothing on the other side, adds 0: an
    empty set has the distance 0 to any. A NaN distance is the nearest. Packed sets give `[B]`.

    reduction:     "mean", "sum", or "none": the distances themselves, a pair `[..., N]`, `[..., M]` (only the first when
                   `one_sided`), 0 where there is none.
    return_index:  also return where the nearest points are: (result, index) with the index a pair `[..., N]`, `[..., M]`
                   (only the first when `one_sided`), int64, counted from the item's first point, -1 where there is none.

    Other keywords as in `nearest`. torch: differentiable in P and R, once; the gradient of "l1" is 0 where coordinates
    are equal. Results are float32 (float64 for float64 points); sums are made in double precision.
    """
    one_of("reduction", reduction, ("mean", "sum", "none"))
    call = _Call(P, R, metric, search, validate, dtype, threads, kernel, out, p_mask, r_mask, cu_seqlens_p, cu_seqlens_r)
    wanted = _wanted(call, reduction, bool(one_sided), bool(return_index))
    framework, P, R = call.framework, call.P, call.R
    if recorder := framework.recorder(P, R):
        made = recorder.chamfer(P, R, call.extras, reduction, bool(one_sided), list(wanted), out)
    else:
        made = _outputs(framework, wanted, out, P)
        arrays = (made.get(name) for name in ("value", "distance_p", "distance_r", "index_p", "index_r"))
        P, R = framework.detached(P), framework.detached(R)
        _native.chamfer(P, R, call.extras, reduction == "mean", bool(one_sided), *arrays)
    if out is not None:
        return out
    if not recorder:
        made = {name: framework.finished(array) for name, array in made.items()}
    if call.lead:
        made = {name: array.reshape(*call.lead, *array.shape[1:]) for name, array in made.items()}
    return _arranged(made)


class _Call:
    """What both functions are given, checked and reduced to what says something."""

    def __init__(
        self, P: Any, R: Any, metric: str, search: str, validate: bool | None, dtype: Any, threads: int | None,
        kernel: str | None, out: Any, p_mask: Any, r_mask: Any, cu_seqlens_p: Any, cu_seqlens_r: Any,
    ) -> None:  # fmt: skip
        self.framework = common_framework(P, R, ("P", "R"))
        arrays = given(p_mask=p_mask, r_mask=r_mask, cu_seqlens_p=cu_seqlens_p, cu_seqlens_r=cu_seqlens_r)
        extras: Extras = {name: self.framework.beside(value, P) for name, value in arrays.items()}
        if (stream := self.framework.stream_of(P)) is not None:
            extras["stream"] = stream
        if one_of("metric", metric, ("l2_sq", "l1")) == "l1":
            extras["l1"] = True
        if one_of("search", search, ("auto", "brute", "tree")) != "auto":
            extras["search"] = search
        if validate is not None:
            extras["validate"] = bool(validate)
        if threads is not None:
            extras["threads"] = thread_number(threads)
        if kernel is not None:
            extras["kernel"] = text("kernel", kernel)
        bits = read_as_bfloat16(P, dtype, "P"), read_as_bfloat16(R, dtype, "R")
        if any(bits):
            extras["dtype"] = "bfloat16"
        self.extras, self.lead = extras, ()
        self.P, self.R = P, R
        if max(P.ndim, R.ndim) > 4:
            self._flatten(out)
        self.result = "float64" if str(P.dtype).endswith("float64") else "float32"

    def _flatten(self, out: Any) -> None:
        """More than two dimensions of items as one."""
        lead = tuple(self.P.shape[:-2])
        if tuple(self.R.shape[:-2]) != lead:
            raise ValueError(f"P {list(self.P.shape)} and R {list(self.R.shape)} differ in the dimensions of their items")
        if out is not None:
            raise ValueError(f"out goes with at most 4 dimensions, got P {list(self.P.shape)}")
        self.lead = lead
        self.P, self.R = (x.reshape(math.prod(lead), *x.shape[-2:]) for x in (self.P, self.R))
        for name in ("p_mask", "r_mask"):
            if name in self.extras:
                self.extras[name] = _flat_mask(name, self.extras[name], lead)

    def items(self) -> tuple[int, ...]:
        """The dimensions of the items, if the arguments are what they should be."""
        offsets = self.extras.get("cu_seqlens_p")
        if offsets is None:
            return tuple(self.P.shape[:-2])
        return (max(item_count(offsets), 0),)


def item_count(cu_seqlens: Any) -> Any:
    """Items that offsets name."""
    return (cu_seqlens.shape[0] if hasattr(cu_seqlens, "shape") else len(cu_seqlens)) - 1


def _flat_mask(name: str, mask: Any, lead: tuple[int, ...]) -> Any:
    """`[*lead, N]`, or one with a single item that serves all, with the items as one dimension."""
    mask = np.asarray(mask) if isinstance(mask, list | tuple) else mask
    shape = tuple(getattr(mask, "shape", ()))
    if len(shape) > 2 and shape[:-1] != lead and math.prod(shape[:-1]) != 1:
        raise ValueError(f"{name} {list(shape)} does not fit items of {list(lead)}, nor has it a leading 1 to serve every item")
    return mask.reshape(-1, shape[-1]) if len(shape) > 2 else mask


def _wanted(call: _Call, reduction: str, one_sided: bool, return_index: bool) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of each result."""
    sides = {"p": tuple(call.P.shape[:-1])} if one_sided else {"p": tuple(call.P.shape[:-1]), "r": tuple(call.R.shape[:-1])}
    wanted: dict[str, tuple[tuple[int, ...], str]] = {}
    if reduction == "none":
        wanted |= {f"distance_{side}": (shape, call.result) for side, shape in sides.items()}
    else:
        wanted["value"] = (call.items(), call.result)
    if return_index:
        wanted |= {f"index_{side}": (shape, "int64") for side, shape in sides.items()}
    return wanted


def _arranged(made: dict[str, Any]) -> Any:
    """Results in the form in which they are returned: value or distances, and perhaps the index."""
    parts = [[array for name, array in made.items() if name.startswith(kind)] for kind in ("value", "distance", "index")]
    both = [part[0] if len(part) == 1 else tuple(part) for part in parts if part]
    return both[0] if len(both) == 1 else tuple(both)


def _outputs(framework: Framework, wanted: dict[str, tuple[tuple[int, ...], str]], out: Any, like: Any) -> dict[str, Any]:
    """New arrays, or those of `out`."""
    if out is None:
        return {name: framework.empty(shape, dtype, like) for name, (shape, dtype) in wanted.items()}
    return {name: framework.split_out(array, False)[0] for name, array in into(out, list(wanted)).items()}


def into(out: Any, names: list[str]) -> dict[str, Any]:
    """The arrays of `out` by their names."""
    form = _arranged({name: name for name in names})
    arrays = _leaves(out, form)
    if arrays is None:
        raise ValueError(f"out must be {_text(form)} here, got {_text(_types(out))}")
    return dict(zip(_leaves(form, form) or [], arrays, strict=True))


def _leaves(value: Any, form: Any) -> list[Any] | None:
    """What is in `value`, if it has this form."""
    if isinstance(form, str):
        return [value]
    if not isinstance(value, tuple | list) or len(value) != len(form):
        return None
    parts = [_leaves(part, inner) for part, inner in zip(value, form, strict=True)]
    return None if None in parts else [leaf for part in parts if part is not None for leaf in part]


def _types(value: Any) -> Any:
    return tuple(map(_types, value)) if isinstance(value, tuple | list) else type(value).__name__


def _text(form: Any) -> str:
    return form if isinstance(form, str) else f"({', '.join(map(_text, form))})"
