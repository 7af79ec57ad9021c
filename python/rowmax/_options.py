"""The keywords that every scoring function takes, checked and reduced to those that say something."""

from __future__ import annotations

import math
import operator
from typing import Any, Literal, get_args

import numpy as np

from rowmax._frameworks import Extras

Precision = Literal["highest", "high"]
Backward = Literal["auto", "inverse_grid", "lowmem", "unified", "recompute"]


def options(
    normalize: bool = False, precision: str = "highest", backward: str = "auto", deterministic: bool = True,
    validate: bool | None = None, dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> Extras:  # fmt: skip
    """Extras of the keywords that differ from the default; usually none. `validate` None means True on the CPU, False on CUDA."""
    extras: Extras = {}
    if normalize:
        extras["normalize"] = True
    if precision != "highest":
        extras["precision"] = one_of("precision", precision, get_args(Precision))
    if backward != "auto":
        one_of("backward", backward, get_args(Backward))
        if backward == "unified" and deterministic:
            raise ValueError('backward="unified" adds in any order: it needs deterministic=False, got deterministic=True')
    if validate is not None:
        extras["validate"] = bool(validate)
    if dtype is not None:
        extras["dtype"] = dtype_name(dtype)
    if threads is not None:
        extras["threads"] = threads
    if kernel is not None:
        extras["kernel"] = kernel
    return extras


def given(**arguments: Any) -> Extras:
    """Those that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}


def required(**arguments: Any) -> Extras:
    """The same, of arguments without which a layout is another one."""
    for name, value in arguments.items():
        if value is None:
            floats = {"centroids": "float32, float16 or bfloat16", "bucket_weights": "float32, float16 or bfloat16"}
            wanted = "float32" if name.endswith("_scale") else floats.get(name, "int32 or int64")
            raise TypeError(f"{name} must be {wanted}, got None")
    return arguments


def pairing_of(D: Any) -> str:
    """Four dimensions hold every query's own candidates."""
    return "grouped" if D.ndim == 4 else "cross"


def dtype_name(dtype: Any) -> str:
    """"bfloat16" of "bfloat16", torch.bfloat16, ml_dtypes.bfloat16 or a numpy dtype."""
    if isinstance(dtype, str):
        return dtype
    text = str(dtype)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        raise TypeError(f"dtype must be a type or its name, got {dtype!r}") from None


def read_as_bfloat16(X: Any, dtype: Any, name: str = "X") -> bool:
    """Whether `dtype=` says that the uint16 numbers of X are bfloat16; anything else must be X's own type."""
    have, want = dtype_name(X.dtype), None if dtype is None else dtype_name(dtype)
    if want in (None, have):
        return False
    if (have, want) != ("uint16", "bfloat16"):
        raise TypeError(f"{name} is {have} but dtype is {want!r}: numbers are not converted")
    return True


def integer(name: str, value: Any) -> int:
    """A whole number, also of numpy's."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__} {value!r}") from None


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__} {value!r}")
    return value


def real(name: str, value: Any) -> float:
    """A number as a float."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {type(value).__name__} {value!r}") from None


def thread_number(threads: Any) -> int:
    """0: chosen. One beyond 32 bits is as good as the largest."""
    return 0 if threads is None else max(min(integer("threads", threads), 2**31 - 1), -(2**31))


def flattened(X: Any, rank: int, out: Any) -> tuple[Any, tuple[int, ...]]:
    """What has more than four dimensions with those before the last `rank` as one, and these; else X itself and ()."""
    if X.ndim <= 4:
        return X, ()
    if out is not None:
        raise ValueError(f"out goes with at most 4 dimensions, got shape {list(X.shape)}")
    lead = tuple(X.shape[: X.ndim - rank])
    return X.reshape(math.prod(lead), *X.shape[X.ndim - rank :]), lead


def unflattened(result: Any, lead: tuple[int, ...]) -> Any:
    return result.reshape(*lead, *result.shape[1:])


def tokens_of(X: Any) -> Any:
    if X.ndim < 2:
        raise ValueError(f"X must be [..., L, d], got shape {list(X.shape)}")
    return X


def same_dimension(**tokens: Any) -> None:
    """ValueError by the function's own names where two arrays of tokens differ in their last dimension."""
    (first, a), (second, b) = tokens.items()
    if a.ndim and b.ndim and a.shape[-1] != b.shape[-1]:
        differ = f"differ in the embedding dimension: {a.shape[-1]} and {b.shape[-1]}"
        raise ValueError(f"{first} {list(a.shape)} and {second} {list(b.shape)} {differ}")


def one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    return value
