"""The inverse of an index: which sources chose each destination."""

from __future__ import annotations

import math
import operator
from typing import Any

from rowmax._frameworks import framework_of
from rowmax._options import dtype_name


def inverse_grid(
    index: Any, num_destinations: int, *, validate: bool | None = None, out: Any = None, dtype: Any = None
) -> tuple[Any, Any]:
    """Invert a map from sources to destinations, as a CSR.

    `index` is `[..., S]`, int32 or int64, with values in `[-1, num_destinations)`. Returns `row_ptr`
    `[..., num_destinations + 1]` and `source` `[..., S]`, both int64: the sources of destination n are
    `source[..., row_ptr[n]:row_ptr[n + 1]]`, ascending. -1 is dropped, and the tail of `source` is -1; other values
    out of range are a ValueError, or are dropped too when `validate` is False. `out` is a pair, for up to four dimensions;
    `dtype` is the type that `index` must have.

    The idea is the inverse-grid CSR of Flash-MaxSim's backward pass, where it gives every gradient row one owner.
    """
    framework = framework_of(index, "index")
    if dtype is not None and dtype_name(index.dtype) != dtype_name(dtype):
        raise TypeError(f"index is {dtype_name(index.dtype)} but dtype is {dtype_name(dtype)!r}")
    if index.ndim < 1:
        raise ValueError("index must have at least one dimension, got shape []")
    n = operator.index(num_destinations)
    if n < 0:
        raise ValueError(f"num_destinations must not be negative, got {n}")
    if n >= 2**59:
        raise ValueError(f"num_destinations is {n}: row_ptr would not fit 64 bits")
    *lead, sources = index.shape
    if index.ndim > 4:
        if out is not None:
            raise ValueError(f"out goes with an index of at most 4 dimensions, got {index.ndim}")
        index = index.reshape(math.prod(lead), sources)
    row_ptr, source = framework.inverse_grid(index, n, validate is None or bool(validate), out)
    if len(lead) < 4:
        return row_ptr, source
    return row_ptr.reshape(*lead, n + 1), source.reshape(*lead, sources)
