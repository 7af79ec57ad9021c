"""The exact k best documents, without the score matrix."""

from __future__ import annotations

from typing import Any

from rowmax._corpus import Corpus
from rowmax._frameworks import common_framework, framework_of
from rowmax._options import Backward, Precision, given, integer, options


def topk(
    Q: Any, D: Any, k: int, *, cu_seqlens_d: Any = None, q_mask: Any = None, d_mask: Any = None,
    normalize: bool = False, precision: Precision = "highest", backward: Backward = "auto",
    deterministic: bool = True, chunk: int | None = None, validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """The exact k best documents of every query: `(scores [Nq, k], index [Nq, k] int64)`, best first.

    `Q` is `[Nq, Lq, d]`, or `[Lq, d]` for results without the query dimension. `D` is `[Nd, Ld, d]`, packed tokens
    `[T, d]` with `cu_seqlens_d=`, or a `Corpus`. k is cut to Nd; k < 1 is a ValueError. Equal scores: the lowest
    document first; NaN comes first, as in `torch.topk`. Documents are scored `chunk` at a time (None: chosen), so
    memory does not grow with Nd; the result does not depend on it. Scores of torch tensors are differentiable.
    With Q on a CUDA device, a `Corpus` is streamed there block by block, in memory of two blocks: it may be larger than
    the device's memory; scores and index come back on the device.
    The other keywords are those of `maxsim`; `out` is a pair.
    """
    extras = options(normalize, precision, backward, deterministic, validate, dtype, threads, kernel)
    if isinstance(D, Corpus):
        framework = framework_of(Q, "Q")
        if cu_seqlens_d is not None:
            raise ValueError("cu_seqlens_d: a Corpus has its own offsets")
        if D.dtype == "bfloat16":
            extras["dtype"] = D.dtype
        D, cu_seqlens_d = framework.adopted(D.tokens), D.offsets
        streams = framework.streams(Q)
    else:
        framework = common_framework(Q, D)
        streams = False
    extras |= given(q_mask=q_mask, d_mask=d_mask, cu_seqlens_d=cu_seqlens_d)
    k, chunk = at_least(1, "k", k), at_least(0, "chunk", chunk or 0)
    if streams:
        return framework.search(Q, D, k, chunk, extras, out)
    return framework.topk(Q, D, k, chunk, extras, out, backward)


def at_least(low: int, name: str, value: int) -> int:
    """An integer; one beyond 64 bits is as good as the largest."""
    number = integer(name, value)
    if number < low:
        raise ValueError(f"{name} must be at least {low}, got {number}")
    return min(number, 2**63 - 1)
