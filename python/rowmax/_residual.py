"""Residual codes (PLAID): a centroid's number and packed bucket numbers a token, decoded while they are scored.

The format is that of ColBERTv2 (Santhanam et al., 2022, https://arxiv.org/abs/2112.01488), fast-plaid and next-plaid.
"""

from __future__ import annotations

from typing import Any, Literal

from rowmax import _native
from rowmax._frameworks import Extras, common_framework, framework_of
from rowmax._options import (
    dtype_name,
    flattened,
    given,
    integer,
    one_of,
    options,
    pairing_of,
    read_as_bfloat16,
    required,
    thread_number,
    unflattened,
)

BitOrder = Literal["colbert", "little"]


def unpack_residual(
    bytes: Any, nbits: int, bit_order: BitOrder = "colbert", *, validate: bool | None = None, out: Any = None,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """Bucket numbers of packed residuals: bytes, uint8 `[..., n]`, -> uint8 `[..., n * 8 / nbits]`, nbits 1, 2, 4 or 8.

    bit_order "colbert": values packed from the top of a byte, each with its lowest bit first, as ColBERTv2, fast-plaid and
    next-plaid write them; "little": the first value in the lowest bits. `out` and `dtype` as in `maxsim`; `validate` changes
    nothing.
    """
    one_of("bit_order", bit_order, ("colbert", "little"))
    number = _nbits(nbits)
    framework = framework_of(bytes, "bytes")
    if dtype is not None and dtype_name(bytes.dtype) != dtype_name(dtype):
        raise TypeError(f"bytes is {dtype_name(bytes.dtype)} but dtype is {dtype_name(dtype)!r}")
    if bytes.ndim < 1:
        raise ValueError("bytes must be [..., n], got shape []")
    bytes, lead = flattened(bytes, 1, out)
    if lead:
        return unflattened(unpack_residual(bytes, number, bit_order), lead)
    if out is None and (made := framework.dispatched("unpack_residual", bytes, number, bit_order == "little")) is not None:
        return made
    values, _ = framework.split_out(out, False)
    if out is None:
        values = framework.empty((*bytes.shape[:-1], bytes.shape[-1] * 8 // number), "uint8", bytes)
    _native.unpack_residual(bytes, number, bit_order == "little", values)
    return framework.finished(values) if out is None else out


def maxsim_residual(
    Q: Any, codes: Any, residuals: Any, doc_lengths: Any, *, centroids: Any, bucket_weights: Any, nbits: int,
    normalize: bool = True, bit_order: BitOrder = "colbert", q_mask: Any = None, return_index: bool = False,
    validate: bool | None = None, out: Any = None, dtype: Any = None, threads: int | None = None,
    kernel: str | None = None,
) -> Any:  # fmt: skip
    """MaxSim with residual documents: token = centroids[code] + bucket_weights[bucket], normalised, all in float32.

    Q is `[Nq, Lq, d]` or `[Lq, d]` (float32, float16, bfloat16), not normalised here; codes `[Nd, Ld]` int32 or int64,
    residuals uint8 `[Nd, Ld, d * nbits / 8]`, doc_lengths `[Nd]`: the tokens of each document that count (None: all);
    centroids `[C, d]` and bucket_weights `[2 ** nbits]` float32, float16 or bfloat16. Scores are `[Nq, Nd]` or `[Nd]`.
    Documents `[Nq, K, Ld]` are each query's own candidates. Tokens are decoded block by block; bit_order as in
    `unpack_residual`. With `validate` (the default on the CPU) a code outside the table and a length beyond Ld are a
    ValueError, otherwise they are clamped. Differentiable in Q for torch tensors. Other keywords as in `maxsim`.
    """
    extras = _tables(centroids, bucket_weights, nbits, normalize, bit_order)
    extras |= required(codes=codes) | given(doc_lengths=doc_lengths, q_mask=q_mask)
    extras |= options(validate=validate, dtype=dtype, threads=threads, kernel=kernel)
    return _score(Q, residuals, extras, return_index, out)


def maxsim_residual_varlen(
    Q: Any, codes: Any, residuals: Any, cu_seqlens_d: Any, *, centroids: Any, bucket_weights: Any, nbits: int,
    normalize: bool = True, bit_order: BitOrder = "colbert", q_mask: Any = None, cu_seqlens_q: Any = None,
    return_index: bool = False, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """`maxsim_residual` of packed documents: codes `[T]`, residuals `[T, d * nbits / 8]`, cu_seqlens_d `[Nd + 1]`.

    Q may be packed too, `[T, d]` with `cu_seqlens_q`. All else as there.
    """
    extras = _tables(centroids, bucket_weights, nbits, normalize, bit_order)
    extras |= required(codes=codes, cu_seqlens_d=cu_seqlens_d) | given(q_mask=q_mask, cu_seqlens_q=cu_seqlens_q)
    extras |= options(validate=validate, dtype=dtype, threads=threads, kernel=kernel)
    return _score(Q, residuals, extras, return_index, out)


def plaid_approx_score(
    centroid_scores: Any, codes: Any, doc_lengths: Any, *, validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None,
) -> Any:  # fmt: skip
    """PLAID's approximate scores: every token stands for its centroid.

    centroid_scores `[C, Lq]` (centroids @ Q.T; float32, float16 or bfloat16), codes `[B, Ld]` and doc_lengths `[B]` (int32 or
    int64) -> `[B]` float32: the sum over query tokens of the largest score among the document's codes; 0 for a document
    without tokens. With `validate` (the default on the CPU) codes outside the table and lengths beyond Ld are a
    ValueError, otherwise they are clamped. `out`, `dtype` and `threads` as in `maxsim`.
    """
    framework = common_framework(centroid_scores, codes, ("centroid_scores", "codes"))
    required(doc_lengths=doc_lengths)
    doc_lengths = framework.beside(doc_lengths, centroid_scores)
    as_bfloat16 = read_as_bfloat16(centroid_scores, dtype, "centroid_scores")
    framework.refuse_gradient(centroid_scores=centroid_scores)
    call = (None if validate is None else bool(validate), thread_number(threads), as_bfloat16)
    if out is None and (
        made := framework.dispatched("plaid_approx_score", centroid_scores, codes, doc_lengths, *call)
    ) is not None:
        return made
    scores, _ = framework.split_out(out, False)
    if out is None:
        scores = framework.empty((codes.shape[0],) if codes.ndim else (), "float32", centroid_scores)
    _native.plaid_approx_score(framework.detached(centroid_scores), codes, doc_lengths, scores, *call)
    return framework.finished(scores) if out is None else out


def _nbits(nbits: Any) -> int:
    number = integer("nbits", nbits)
    if number not in (1, 2, 4, 8):
        raise ValueError(f"nbits must be 1, 2, 4 or 8, got {number}")
    return number


def _tables(centroids: Any, bucket_weights: Any, nbits: int, normalize: bool, bit_order: str) -> Extras:
    one_of("bit_order", bit_order, ("colbert", "little"))
    extras: Extras = {"nbits": _nbits(nbits)}
    if bit_order == "little":
        extras["bit_order"] = bit_order
    if normalize:
        extras["normalize_residuals"] = True
    return extras | required(centroids=centroids, bucket_weights=bucket_weights)


def _score(Q: Any, residuals: Any, extras: Extras, return_index: bool, out: Any) -> Any:
    framework = common_framework(Q, residuals, ("Q", "residuals"))
    tables = {name: extras[name] for name in ("centroids", "bucket_weights")}
    framework.refuse_gradient(**tables)
    extras |= {name: framework.detached(table) for name, table in tables.items()}
    return framework.score(Q, residuals, pairing_of(residuals), extras, return_index, out)
