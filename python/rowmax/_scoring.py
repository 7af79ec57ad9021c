"""MaxSim in every layout: score[i, j] = sum over query tokens s of max over document tokens t of <Q[i, s], D[j, t]>.

The operator is ColBERT's late interaction (Khattab and Zaharia, SIGIR 2020, https://arxiv.org/abs/2004.12832); packed
tokens with `cu_seqlens` follow FlashAttention's convention.
"""

from __future__ import annotations

from typing import Any

from rowmax._frameworks import Extras, common_framework
from rowmax._options import Backward, Precision, given, options, pairing_of, required


def maxsim(
    Q: Any, D: Any, *, q_mask: Any = None, d_mask: Any = None, normalize: bool = False,
    precision: Precision = "highest", backward: Backward = "auto", deterministic: bool = True,
    return_index: bool = False, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """Score every query with every document, or with its own candidates.

    Q x D: `[Nq, Lq, d] x [Nd, Ld, d] -> [Nq, Nd]`; `[Lq, d] x [Nd, Ld, d] -> [Nd]`; `[Lq, d] x [Ld, d] -> []`;
    `[Nq, Lq, d] x [Nq, K, Ld, d] -> [Nq, K]` (each query its own K candidates).
    `q_mask` `[Nq, Lq]` and `d_mask` `[Nd, Ld]` (or `[Nq, K, Ld]`; a leading 1 serves every item) keep the tokens where
    they are True or non-zero. A hidden document token is left out of the maximum, a hidden query token adds nothing.

    The functions that score share these keywords:

    normalize:     score cosines: inverse L2 norms (float32) multiply the similarities; a zero token stays zero.
    precision:     "highest" (float32 inputs are scored to float32 accuracy) or "high" (TF32 allowed where it exists).
    backward:      how torch gradients are found: "auto", "inverse_grid", "lowmem", "recompute" (saves no index), or
                   "unified" (one pass in any order). On the CPU all give the same bits.
    deterministic: gradients have the same bits on every run; "unified" needs False.
    return_index:  also return the winning token of every query token: int32, counted from its document's first token,
                   -1 where a token sees nothing; shape of the scores + `[Lq]`.
    validate:      check the contents of offsets and pair lists. None means True on the CPU and False on CUDA, where it waits
                   for the stream, and is an error while that is captured. Off, lies are clamped.
    out:           where the scores go (with return_index a pair): contiguous, of the inputs' library, of the right shape
                   and type, apart from the inputs' memory.
    dtype:         how to read uint16 arrays ("bfloat16"); any other array must already have this type.
    threads:       None means ROWMAX_THREADS, or else all cores. The bits of the result do not depend on it.
    kernel:        force a kernel by name or prefix ("cpu.avx2"); see `rowmax.kernels()`.

    Tokens are float16, bfloat16, float32 or float64; scores are float32 (float64 for float64). Views whose last dimension
    is contiguous are read in place, broadcast ones (stride 0) too; others are copied. Errors are ValueError (shapes,
    masks, offsets, ranges), TypeError (types, devices, mixtures) and NotImplementedError (valid, but not in this build).
    """
    extras = options(normalize, precision, backward, deterministic, validate, dtype, threads, kernel)
    if q_mask is not None:
        extras["q_mask"] = q_mask
    if d_mask is not None:
        extras["d_mask"] = d_mask
    return common_framework(Q, D).score(Q, D, pairing_of(D), extras, return_index, out, backward)


def maxsim_pairs(
    Q: Any, D: Any, *, q_mask: Any = None, d_mask: Any = None, normalize: bool = False,
    precision: Precision = "highest", backward: Backward = "auto", deterministic: bool = True,
    return_index: bool = False, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """Score query i with document i: `[B, Lq, d] x [B, Ld, d] -> [B]`. Masks and keywords as in `maxsim`."""
    extras = options(normalize, precision, backward, deterministic, validate, dtype, threads, kernel)
    extras |= given(q_mask=q_mask, d_mask=d_mask)
    return common_framework(Q, D).score(Q, D, "zipped", extras, return_index, out, backward)


def maxsim_varlen(
    Q: Any, D: Any, cu_seqlens_q: Any, cu_seqlens_d: Any, *, max_seqlen_q: int | None = None,
    max_seqlen_d: int | None = None, normalize: bool = False, precision: Precision = "highest",
    backward: Backward = "auto", deterministic: bool = True, return_index: bool = False,
    validate: bool | None = None, out: Any = None, dtype: Any = None, threads: int | None = None,
    kernel: str | None = None,
) -> Any:  # fmt: skip
    """Score packed tokens, without padding: `[Tq, d] x [Td, d] -> [Nq, Nd]`.

    `cu_seqlens_q` `[Nq + 1]` and `cu_seqlens_d` `[Nd + 1]` (int32 or int64) rise from 0; item i is rows
    `cu[i]:cu[i + 1]`. The index is `[Nq, Nd, max_seqlen_q]` (default: the longest query), -1 past a query's end.
    A `max_seqlen_q` or `max_seqlen_d` shorter than the longest item is a ValueError; on a GPU, where offsets are not
    read on the host, scores of longer queries are NaN, and `max_seqlen_d` does not matter. Keywords as in `maxsim`.
    """
    extras = options(normalize, precision, backward, deterministic, validate, dtype, threads, kernel)
    extras |= _packed(cu_seqlens_q, cu_seqlens_d, max_seqlen_q, max_seqlen_d)
    return common_framework(Q, D).score(Q, D, "cross", extras, return_index, out, backward)


def score_pairs_packed(
    Q: Any, D: Any, cu_seqlens_q: Any, cu_seqlens_d: Any, pair_q: Any, pair_d: Any, *,
    max_seqlen_q: int | None = None, max_seqlen_d: int | None = None, normalize: bool = False,
    precision: Precision = "highest", backward: Backward = "auto", deterministic: bool = True,
    return_index: bool = False, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """Score listed pairs of packed items: `[P]`, where pair p is query `pair_q[p]` with document `pair_d[p]`.

    Tokens and offsets as in `maxsim_varlen`; `pair_q` and `pair_d` `[P]`, int32 or int64, in any order, repeats allowed.
    Keywords as in `maxsim`.
    """
    extras = options(normalize, precision, backward, deterministic, validate, dtype, threads, kernel)
    extras |= _packed(cu_seqlens_q, cu_seqlens_d, max_seqlen_q, max_seqlen_d)
    extras |= required(pair_q=pair_q, pair_d=pair_d)
    return common_framework(Q, D).score(Q, D, "list", extras, return_index, out, backward)


def score_ranges(
    Q: Any, storage: Any, offsets: Any, lengths: Any, *, q_mask: Any = None, normalize: bool = False,
    precision: Precision = "highest", backward: Backward = "auto", deterministic: bool = True,
    return_index: bool = False, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """Score documents that lie anywhere in one buffer, read in place: `[Lq, d] x [T, d] + [B] + [B] -> [B]`.

    Document i is rows `offsets[i]:offsets[i] + lengths[i]` of `storage` (int32 or int64); they may overlap.
    `[Nq, Lq, d]` queries give `[Nq, B]`. `q_mask` and keywords as in `maxsim`.
    """
    extras = options(normalize, precision, backward, deterministic, validate, dtype, threads, kernel)
    extras |= given(q_mask=q_mask) | required(offsets=offsets, lengths=lengths)
    return common_framework(Q, storage).score(Q, storage, "cross", extras, return_index, out, backward)


def _packed(cu_seqlens_q: Any, cu_seqlens_d: Any, max_seqlen_q: int | None, max_seqlen_d: int | None) -> Extras:
    offsets = required(cu_seqlens_q=cu_seqlens_q, cu_seqlens_d=cu_seqlens_d)
    return offsets | given(max_seqlen_q=max_seqlen_q, max_seqlen_d=max_seqlen_d)
