"""The inverse of an index: which sources chose each destination, and sums of what they hold."""

from __future__ import annotations

import math
from typing import Any

from rowmax._frameworks import Framework, common_framework, framework_of
from rowmax._options import dtype_name, integer, read_as_bfloat16, thread_number


def inverse_grid(
    index: Any, num_destinations: int, *, validate: bool | None = None, out: Any = None, dtype: Any = None
) -> tuple[Any, Any]:
    """Invert a map from sources to destinations, as a CSR.

    `index` is `[..., S]`, int32 or int64, with values in `[-1, num_destinations)`. Returns `row_ptr`
    `[..., num_destinations + 1]` and `source` `[..., S]`, both int64: the sources of destination n are
    `source[..., row_ptr[n]:row_ptr[n + 1]]`, ascending. -1 is dropped, and the tail of `source` is -1; other values
    out of range are a ValueError, or are dropped too when `validate` is False (the default on a GPU, which would have to be
    waited for). `out` is a pair, for up to four dimensions;
    `dtype` is the type that `index` must have.

    The idea is the inverse-grid CSR of Flash-MaxSim's backward pass, where it gives every gradient row one owner.
    """
    framework = framework_of(index, "index")
    if dtype is not None and dtype_name(index.dtype) != dtype_name(dtype):
        raise TypeError(f"index is {dtype_name(index.dtype)} but dtype is {dtype_name(dtype)!r}")
    if index.ndim < 1:
        raise ValueError("index must have at least one dimension, got shape []")
    n = _destinations(num_destinations)
    *lead, sources = index.shape
    if index.ndim > 4:
        if out is not None:
            raise ValueError(f"out goes with an index of at most 4 dimensions, got {index.ndim}")
        index = index.reshape(math.prod(lead), sources)
    row_ptr, source = framework.inverse_grid(index, n, _validates(framework, index, validate), out)
    if len(lead) < 4:
        return row_ptr, source
    return row_ptr.reshape(*lead, n + 1), source.reshape(*lead, sources)


def scatter_sum(
    index: Any, values: Any, num_destinations: int, grid: tuple[Any, Any] | None = None, *,
    deterministic: bool = True, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None,
) -> Any:  # fmt: skip
    """Add up the values of all sources that name the same destination, with the same bits on every run.

    `index` is `[..., S]`, int32 or int64; `values` `[..., S]` or `[..., S, C...]`, float16, bfloat16, float32 or float64.
    Returns `[..., num_destinations]` or `[..., num_destinations, C...]` of the type of `values`: row n is the sum of
    `values[..., s, :]` over the s with `index[..., s] == n`, zeros where there is none. Differentiable in `values` for torch
    tensors: the gradient of a source is that of its destination.

    -1 drops a source; other values out of range are a ValueError, or are dropped too when `validate` is False (the default on
    a GPU). float16 and bfloat16 are added in float32 and rounded once. A destination's sources are cut, in ascending order, into
    runs of 256; each run is added in order, then the runs: no bit depends on threads, on the rest of the batch, or on `grid`.

    grid:    what `inverse_grid(index, num_destinations)` gave, where it is needed more than once: the sort is spared.
             One of another index is a ValueError; with `validate=False` it is used unseen, and never read out of bounds.
    deterministic: False lets a GPU add in any order, by atomic additions, where it has few sources a destination on average:
             no sort, other bits on every run. Elsewhere nothing changes.
    out:     where the sums go, for values of at most four dimensions with at most one behind those of `index`.
    dtype:   "bfloat16" for uint16 values that hold it; any other must be the type of `values`.
    threads: as in `maxsim`.

    The idea, one owner for every sum instead of atomic additions, is the inverse-grid CSR of Flash-MaxSim's backward pass.
    """
    framework = common_framework(index, values, ("index", "values"))
    bits = read_as_bfloat16(values, dtype, "values")
    if not bits and dtype_name(values.dtype) not in ("float16", "bfloat16", "float32", "float64"):
        raise TypeError(f"values must be float16, bfloat16, float32 or float64, got {dtype_name(values.dtype)}")
    n = _destinations(num_destinations)
    if index.ndim < 1:
        raise ValueError("index must have at least one dimension, got shape []")
    if tuple(values.shape[: index.ndim]) != tuple(index.shape):
        shapes = f"values {list(values.shape)} does not fit index {list(index.shape)}"
        raise ValueError(f"{shapes}: it must begin with the same shape")
    pair = _checked_grid(framework, grid, tuple(index.shape[:-1]))
    call = (n, pair, _validates(framework, index, validate), thread_number(threads), bits, bool(deterministic))
    *lead, sources = index.shape
    channels = values.shape[index.ndim :]
    if len(channels) <= 1 and values.ndim <= 4:
        return framework.scatter_sum(index, values, *call, out)
    if out is not None:
        shape = list(values.shape)
        raise ValueError(f"out goes with values of at most 4 dimensions, one of them behind those of index, got {shape}")
    batches, width = math.prod(lead), math.prod(channels)
    row_ptr, source = (None if part is None else part.reshape(batches, part.shape[-1]) for part in pair)
    sums = framework.scatter_sum(
        index.reshape(batches, sources), values.reshape(batches, sources, width), n, (row_ptr, source), *call[2:]
    )
    return sums.reshape(*lead, n, *channels)


def _validates(framework: Framework, index: Any, validate: bool | None) -> bool:
    return framework.validates(index) if validate is None else bool(validate)


def _destinations(num_destinations: Any) -> int:
    n = integer("num_destinations", num_destinations)
    if n < 0:
        raise ValueError(f"num_destinations must not be negative, got {n}")
    if n >= 2**59:
        raise ValueError(f"num_destinations is {n}: row_ptr would not fit 64 bits")
    return n


def _checked_grid(framework: Framework, grid: Any, lead: tuple[int, ...]) -> tuple[Any, Any]:
    if grid is None:
        return None, None
    if not isinstance(grid, tuple | list) or len(grid) != 2:
        raise ValueError(f"grid must be a pair (row_ptr, source), got {type(grid).__name__}")
    for part in grid:
        if framework_of(part, "grid") is not framework:
            raise TypeError(f"grid holds {type(part).__name__}, but index is of {framework.name}")
        if tuple(part.shape[:-1]) != lead or part.ndim != len(lead) + 1:
            raise ValueError(f"grid holds {list(part.shape)}, which is not of an index with the leading dimensions {list(lead)}")
    return grid[0], grid[1]
