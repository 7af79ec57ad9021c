"""Tokens of eight bits with scales: quantisers, and MaxSim of their codes."""

from __future__ import annotations

from typing import Any, Literal

from rowmax import _native
from rowmax._frameworks import common_framework, framework_of
from rowmax._options import (
    dtype_name,
    flattened,
    given,
    one_of,
    options,
    pairing_of,
    read_as_bfloat16,
    required,
    same_dimension,
    thread_number,
    tokens_of,
    unflattened,
)

Granularity = Literal["token", "document"]


def quantize_int8(
    X: Any, granularity: Granularity = "token", *, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Tokens as symmetric int8 codes with scales: `X [..., L, d]` -> `(codes int8 [..., L, d], scale float32)`.

    The scale is the largest magnitude / 127, by granularity of each token (`[..., L]`) or of each document, the last two
    dimensions (`[...]`); the code is x / scale, rounded to nearest even, within +-127. A token (document) of zeros has scale 0; one
    that holds a NaN or an infinity has scale NaN and codes 0. X is of a floating point type (uint16 with dtype="bfloat16"
    too; on a GPU not float64, and the same bits come out). `out` is a pair; `threads` as in `maxsim`; `validate` changes
    nothing. Nothing beyond the results is held.
    """
    one_of("granularity", granularity, ("token", "document"))
    return _quantized("quantize_int8", X, granularity == "document", out, dtype, threads)


def _quantized(name: str, X: Any, shared: bool, out: Any, dtype: Any, threads: int | None) -> tuple[Any, Any]:
    """What a quantiser gives, float8 codes as their bits; `shared`: a scale for a document, or float8's for the whole tensor."""
    framework, fp8 = framework_of(X, "X"), name == "quantize_fp8"
    X, lead = flattened(tokens_of(X), 2, out)
    if lead:
        codes, scale = _quantized(name, X, shared, None, dtype, threads)
        return unflattened(codes, lead), unflattened(scale, lead) if scale.ndim else scale
    call = (shared, thread_number(threads), read_as_bfloat16(X, dtype))
    if out is None and (made := framework.dispatched(name, X, *call)) is not None:
        return made[0], made[1]
    codes, scale = framework.split_out(out, True, "(codes, scale)")
    if out is None:
        codes = framework.empty(tuple(X.shape), "uint8" if fp8 else "int8", X)
        scale = framework.empty(tuple(X.shape[: -1 if not shared else 0 if fp8 else -2]), "float32", X)
    X, stream = framework.on_stream(framework.detached(X))
    getattr(_native, name)(X, *call, framework.as_bytes(codes) if fp8 else codes, scale, stream)
    return (framework.finished(codes), framework.finished(scale)) if out is None else (codes, scale)


def maxsim_int8(
    Qi: Any, q_scale: Any, Di: Any, d_scale: Any, *, q_mask: Any = None, d_mask: Any = None, cu_seqlens_q: Any = None,
    cu_seqlens_d: Any = None, return_index: bool = False, validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """MaxSim of int8 codes: similarity = float(integer product) x d_scale, and q_scale after the maximum.

    Qi x Di as in `maxsim`, 4-dimensional candidates and masks too; either side may be packed tokens `[T, d]` with
    `cu_seqlens_q` or `cu_seqlens_d`. Scales are float32: one a token (the tokens' shape without d) or one a document (without
    L and d; packed: a single one), as `quantize_int8` gives them. Products are added up exactly. A NaN scale makes its
    token's similarities NaN. Codes may be -128 too. Keywords as in `maxsim`; there is no gradient.
    """
    framework = common_framework(Qi, Di, ("Qi", "Di"))
    for name, tokens in (("Qi", Qi), ("Di", Di)):
        if dtype_name(tokens.dtype) != "int8":
            raise TypeError(f"{name} must be int8, got {dtype_name(tokens.dtype)}: see quantize_int8")
    same_dimension(Qi=Qi, Di=Di)
    framework.refuse_gradient(q_scale=q_scale, d_scale=d_scale)
    extras = options(validate=validate, dtype=dtype, threads=threads, kernel=kernel)
    extras |= required(q_scale=framework.detached(q_scale), d_scale=framework.detached(d_scale))
    extras |= given(q_mask=q_mask, d_mask=d_mask, cu_seqlens_q=cu_seqlens_q, cu_seqlens_d=cu_seqlens_d)
    return framework.score(Qi, Di, pairing_of(Di), extras, return_index, out)


def quantize_fp8(
    X: Any, granularity: Literal["token", "tensor"] = "token", *, validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Tokens as float8 (e4m3) codes with scales: `X [..., L, d]` -> `(codes [..., L, d], scale float32)`.

    The scale is the largest magnitude / 448, by granularity of each token (`[..., L]`) or of the whole tensor (`[]`); the code is
    x / scale, rounded to nearest even. Zeros, NaN and infinities as in `quantize_int8`. Codes are torch.float8_e4m3fn,
    ml_dtypes.float8_e4m3fn (also for numpy, where it is installed), or else uint8. `out` is a pair, whose codes may be
    uint8; `dtype` and `threads` as in `maxsim`; `validate` changes nothing.
    """
    one_of("granularity", granularity, ("token", "tensor"))
    framework = framework_of(X, "X")
    codes, scale = _quantized("quantize_fp8", X, granularity == "tensor", out, dtype, threads)
    return (framework.as_float8(codes), scale) if out is None else (codes, scale)


def maxsim_fp8(
    Q8: Any, q_scale: Any, D8: Any, d_scale: Any, *, q_mask: Any = None, d_mask: Any = None, cu_seqlens_q: Any = None,
    cu_seqlens_d: Any = None, return_index: bool = False, validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """MaxSim of float8 (e4m3) codes Q8 and D8: similarity = product x d_scale, and q_scale after the maximum.

    Codes as `quantize_fp8` gives them, or their bits as uint8; scales float32, one a token (the tokens' shape without d), one a
    document (without L and d) or one for all (`[]`). Layouts, masks, `cu_seqlens_q` and `cu_seqlens_d` as in `maxsim_int8`.
    On the CPU codes are widened exactly and products added in float32; on a GPU as its float8 unit does (docs/numerics.md).
    Keywords as in `maxsim`; there is no gradient.
    """
    framework = common_framework(Q8, D8, ("Q8", "D8"))
    codes = []
    for name, tokens in (("Q8", Q8), ("D8", D8)):
        if dtype_name(tokens.dtype) not in ("float8_e4m3fn", "uint8"):
            raise TypeError(f"{name} must be float8_e4m3fn or uint8, got {dtype_name(tokens.dtype)}: see quantize_fp8")
        codes.append(framework.as_bytes(tokens))
    if dtype is not None and dtype_name(dtype) != dtype_name(Q8.dtype):
        raise TypeError(f"Q8 is {dtype_name(Q8.dtype)} but dtype is {dtype_name(dtype)!r}: tokens are not converted")
    same_dimension(Q8=Q8, D8=D8)
    framework.refuse_gradient(q_scale=q_scale, d_scale=d_scale)
    extras = options(validate=validate, threads=threads, kernel=kernel)
    extras |= {"fp8": True} | required(q_scale=framework.detached(q_scale), d_scale=framework.detached(d_scale))
    extras |= given(q_mask=q_mask, d_mask=d_mask, cu_seqlens_q=cu_seqlens_q, cu_seqlens_d=cu_seqlens_d)
    return framework.score(codes[0], codes[1], pairing_of(D8), extras, return_index, out)
