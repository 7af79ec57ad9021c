"""One bit a dimension: the signs of tokens, with bits or with numbers on the query's side."""

from __future__ import annotations

from typing import Any, Literal

from rowmax import _native
from rowmax._frameworks import common_framework, framework_of
from rowmax._options import (
    dtype_name,
    flattened,
    given,
    integer,
    one_of,
    options,
    pairing_of,
    read_as_bfloat16,
    same_dimension,
    thread_number,
    tokens_of,
    unflattened,
)

BitOrder = Literal["little", "big"]


def sign_bits(
    X: Any, bit_order: BitOrder = "little", *, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None,
) -> Any:  # fmt: skip
    """One bit a dimension, set where the value is above 0: `X [..., L, d]` -> uint8 `[..., L, ceil(d / 8)]`.

    `bit_order` "little": the first dimension is the lowest bit of the first byte; "big": the highest, as in
    `numpy.packbits`. Bits behind the last dimension are 0. X is of a floating point type on the CPU; `dtype` and `threads`
    as in `maxsim`; `validate` changes nothing.
    """
    one_of("bit_order", bit_order, ("little", "big"))
    framework = framework_of(X, "X")
    X, lead = flattened(tokens_of(X), 2, out)
    if lead:
        return unflattened(sign_bits(X, bit_order, dtype=dtype, threads=threads), lead)
    call = (bit_order == "big", thread_number(threads), read_as_bfloat16(X, dtype))
    if out is None and (made := framework.dispatched("sign_bits", X, *call)) is not None:
        return made
    bits, _ = framework.split_out(out, False)
    if out is None:
        bits = framework.empty((*X.shape[:-1], (X.shape[-1] + 7) // 8), "uint8", X)
    _native.sign_bits(framework.detached(X), *call, bits)
    return framework.finished(bits) if out is None else out


def maxsim_hamming(
    Qb: Any, Db: Any, *, dim: int | None = None, q_mask: Any = None, d_mask: Any = None, cu_seqlens_q: Any = None,
    cu_seqlens_d: Any = None, return_index: bool = False, validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """MaxSim of sign bits on both sides: similarity = d - 2 x Hamming distance, the product of the signs as +1 and -1.

    Qb and Db are uint8 with d / 8 bytes a token, from `sign_bits` in one bit order, in the layouts of `maxsim`; either may be
    packed tokens with `cu_seqlens_q` or `cu_seqlens_d`. `dim` is d where it is no multiple of 8 (None: 8 x bytes); bits behind
    it must be equal on both sides. Scores are exact. Keywords as in `maxsim`; there is no gradient.
    """
    framework = common_framework(Qb, Db, ("Qb", "Db"))
    _check_bytes(Qb=Qb, Db=Db)
    same_dimension(Qb=Qb, Db=Db)
    extras = options(validate=validate, dtype=dtype, threads=threads, kernel=kernel)
    extras["sign_bits"] = 8 * Qb.shape[-1] if dim is None else integer("dim", dim)
    if not 1 <= extras["sign_bits"] <= 4096:
        raise ValueError(f"dim must be at least 1 and at most 4096, got {extras['sign_bits']}")
    extras |= given(q_mask=q_mask, d_mask=d_mask, cu_seqlens_q=cu_seqlens_q, cu_seqlens_d=cu_seqlens_d)
    return framework.score(Qb, Db, pairing_of(Db), extras, return_index, out)


def maxsim_bits(
    Q: Any, Db: Any, *, bit_order: BitOrder = "little", q_mask: Any = None, d_mask: Any = None, cu_seqlens_q: Any = None,
    cu_seqlens_d: Any = None, return_index: bool = False, validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """MaxSim of queries as they are with documents of sign bits: similarity = sum over k of +Q[k] or -Q[k], by the bit.

    Q is float32, float16 or bfloat16 `[.., d]`, Db uint8 `[.., ceil(d / 8)]` from `sign_bits` with this `bit_order`, in the
    layouts of `maxsim`; either may be packed tokens with `cu_seqlens_q` or `cu_seqlens_d`. Differentiable in Q for torch
    tensors. Keywords as in `maxsim`.
    """
    one_of("bit_order", bit_order, ("little", "big"))
    framework = common_framework(Q, Db, ("Q", "Db"))
    _check_bytes(Db=Db)
    if Q.ndim > 0 and Db.shape[-1] != (Q.shape[-1] + 7) // 8:
        takes = f"d = {Q.shape[-1]}, which takes {(Q.shape[-1] + 7) // 8} bytes"
        raise ValueError(f"Db has shape {list(Db.shape)}, but Q {list(Q.shape)} has {takes}")
    extras = options(validate=validate, dtype=dtype, threads=threads, kernel=kernel)
    extras |= {"signs": True} | given(bit_order="little" if bit_order == "little" else None)
    extras |= given(q_mask=q_mask, d_mask=d_mask, cu_seqlens_q=cu_seqlens_q, cu_seqlens_d=cu_seqlens_d)
    return framework.score(Q, Db, pairing_of(Db), extras, return_index, out)


def _check_bytes(**arrays: Any) -> None:
    for name, array in arrays.items():
        if dtype_name(array.dtype) != "uint8":
            raise TypeError(f"{name} must be uint8, got {dtype_name(array.dtype)}: see sign_bits")
        if array.ndim < 2:
            raise ValueError(f"{name} must have 2 to 4 dimensions, got shape {list(array.shape)}")
