"""Kin of MaxSim that keep something else of a query token's similarities than the largest."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

from rowmax._frameworks import Extras, common_framework
from rowmax._options import given, integer, one_of, options, pairing_of, real

Reduction = Literal["mean", "sum"]
Imputation = Literal["last", "none"]


def maxsim_topk_tokens(
    Q: Any, D: Any, k: int, *, reduction: Reduction = "mean", q_mask: Any = None, d_mask: Any = None,
    cu_seqlens_q: Any = None, cu_seqlens_d: Any = None, normalize: bool = False, return_index: bool = False,
    validate: bool | None = None, out: Any = None, dtype: Any = None, threads: int | None = None,
    kernel: str | None = None,
) -> Any:  # fmt: skip
    """The k best document tokens of every query token instead of the best: sum over query tokens of the mean of their
    similarities, or with `reduction="sum"` of their sum.

    Layouts, masks and keywords are those of `maxsim`; either side may be packed tokens with `cu_seqlens_q` or `cu_seqlens_d`.
    A document that keeps fewer than k tokens gives all it keeps, and the mean is over these. k = 1 has the bits of `maxsim`.
    With `return_index` also the tokens: int32, shape of the scores + `[Lq, k]`, best first, the lowest among equals, -1 behind
    the last. A NaN similarity comes first. Differentiable for torch tensors.
    """
    k = _whole(k)
    mean = one_of("reduction", reduction, ("mean", "sum")) == "mean"
    extras = _extras(normalize, validate, dtype, threads, kernel, q_mask, d_mask, cu_seqlens_q, cu_seqlens_d)
    call = ("topk_tokens", Q, D, pairing_of(D), extras, (k, mean), return_index, out)
    return common_framework(Q, D).select(*call)


def maxsim_smooth(
    Q: Any, D: Any, temperature: float, *, q_mask: Any = None, d_mask: Any = None, cu_seqlens_q: Any = None,
    cu_seqlens_d: Any = None, normalize: bool = False, validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """A smooth maximum: score[i, j] = sum over s of temperature x log(sum over t of exp(<Q[i, s], D[j, t]> / temperature)).

    Above `maxsim` by at most temperature x log(Ld) a query token, and equal to it in the limit of `temperature` 0; every
    document token gets its share of the gradient. Neither direction writes the similarities: backward computes them again.
    A query token whose document keeps no token adds 0. float32 inside (float64 for float64): relative errors near 1e-6.
    Layouts, masks and keywords are those of `maxsim`; either side may be packed tokens with `cu_seqlens_q` or `cu_seqlens_d`.
    Differentiable for torch tensors, with the same bits on every run. `temperature` must be positive.

    The backward pass is FlashAttention's idea (Dao et al., 2022, https://arxiv.org/abs/2205.14135) for MaxSim.
    """
    temperature = real("temperature", temperature)
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite, got {temperature}")
    extras = _extras(normalize, validate, dtype, threads, kernel, q_mask, d_mask, cu_seqlens_q, cu_seqlens_d)
    return common_framework(Q, D).select("smooth", Q, D, pairing_of(D), extras, (temperature,), False, out)


def maxsim_prefixes(
    Q: Any, D: Any, dims: Any, *, q_mask: Any = None, d_mask: Any = None, cu_seqlens_q: Any = None,
    cu_seqlens_d: Any = None, return_index: bool = False, validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """MaxSim of the first dimensions of tokens, for several numbers of them, in one pass over the documents.

    `dims` ascend, at most d: `scores[p]` has the bits of `maxsim(Q[..., :dims[p]], D[..., :dims[p]])`, and its shape. With
    `return_index` also the winning tokens, as there. For Matryoshka embeddings (Kusupati et al., 2022,
    https://arxiv.org/abs/2205.13147), whose prefixes are embeddings; they have to be normalised one by one, so there is no
    `normalize`. Layouts, masks and other keywords are those of `maxsim`; either side may be packed tokens with `cu_seqlens_q`
    or `cu_seqlens_d`. Differentiable for torch tensors.
    """
    framework = common_framework(Q, D)
    if not isinstance(dims, Iterable):
        raise TypeError(f"dims must be a list of integers, got {type(dims).__name__} {dims!r}")
    numbers = tuple(integer("dims", dim) for dim in dims)
    d = Q.shape[-1] if Q.ndim else 0
    if not numbers or any(a >= b for a, b in zip((0, *numbers), numbers, strict=False)) or numbers[-1] > d:
        raise ValueError(f"dims must ascend from 1 or more to at most d = {d}, got {list(numbers)}")
    extras = _extras(False, validate, dtype, threads, kernel, q_mask, d_mask, cu_seqlens_q, cu_seqlens_d)
    return framework.select("prefixes", Q, D, pairing_of(D), extras, (numbers,), return_index, out)


def maxsim_xtr(
    Q: Any, D: Any, k: int, *, imputation: Imputation = "last", q_mask: Any = None, d_mask: Any = None,
    cu_seqlens_q: Any = None, cu_seqlens_d: Any = None, normalize: bool = False, return_index: bool = False,
    validate: bool | None = None, out: Any = None, dtype: Any = None, threads: int | None = None,
    kernel: str | None = None,
) -> Any:  # fmt: skip
    """XTR's score: of a query token, only its k best document tokens, of all documents together, are known.

    `[Nq, Lq, d] x [Nd, Ld, d] -> [Nq, Nd]` retrieves among the tokens of all Nd documents, `[Nq, K, Ld, d]` among those of each
    query's own K. Equal similarities: the lowest document, then token, is retrieved first.

    imputation: "last": where a document's tokens were not retrieved, the similarity of the k-th best token stands in for them,
    their upper bound; the score is the mean over query tokens (0 for one whose document keeps no token). "none": they
    add nothing, and the score is the mean over the query tokens that retrieved one of the document's tokens, 0 where there
    is none; how XTR is trained.

    With `return_index` also the document's best token where it was retrieved (int32, scores' shape + `[Lq]`); -1: hidden, sees
    nothing or retrieved nothing, -2: imputed. Layouts, masks and keywords are those of `maxsim`; either side may be packed
    tokens with `cu_seqlens_q` or `cu_seqlens_d`. Differentiable for torch tensors, through the imputed similarity as well.

    Lee et al., "Rethinking the Role of Token Retrieval in Multi-Vector Retrieval", 2023, https://arxiv.org/abs/2304.01982.
    """
    k = _whole(k)
    impute = one_of("imputation", imputation, ("last", "none")) == "last"
    extras = _extras(normalize, validate, dtype, threads, kernel, q_mask, d_mask, cu_seqlens_q, cu_seqlens_d)
    return common_framework(Q, D).select("xtr", Q, D, pairing_of(D), extras, (k, impute), return_index, out)


def _whole(k: Any) -> int:
    whole = integer("k", k)
    if not 1 <= whole < 2**31:
        raise ValueError(f"k must be at least 1 and below 2^31, got {whole}")
    return whole


def _extras(
    normalize: bool, validate: bool | None, dtype: Any, threads: int | None, kernel: str | None, q_mask: Any,
    d_mask: Any, cu_seqlens_q: Any, cu_seqlens_d: Any,
) -> Extras:  # fmt: skip
    extras = options(normalize, validate=validate, dtype=dtype, threads=threads, kernel=kernel)
    return extras | given(q_mask=q_mask, d_mask=d_mask, cu_seqlens_q=cu_seqlens_q, cu_seqlens_d=cu_seqlens_d)
