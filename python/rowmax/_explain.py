"""Why a score is what it is, and which kernel computes it."""

from __future__ import annotations

from typing import Any, NamedTuple

from rowmax import _native
from rowmax._frameworks import common_framework
from rowmax._native import KernelInfo
from rowmax._options import Precision, given, options, pairing_of


class Explanation(NamedTuple):
    """What every query token of every pair contributed; both have the scores' shape + `[Lq]`."""

    index: Any
    """int32: the winning token, counted from its document's first; -1 for a token that sees nothing."""
    similarity: Any
    """The scores' type: its similarity, 0 where the index is -1. Their sum over the last dimension is the score."""


class VersionInfo(NamedTuple):
    version: str
    """Of the package, "0.1.0"."""
    cuda: bool
    """Whether this build has CUDA kernels."""
    kernels: tuple[str, ...]
    """The kernels this machine can run, in order of preference."""


def explain(
    Q: Any, D: Any, *, cu_seqlens_q: Any = None, cu_seqlens_d: Any = None, q_mask: Any = None, d_mask: Any = None,
    normalize: bool = False, precision: Precision = "highest", validate: bool | None = None, out: Any = None,
    dtype: Any = None, threads: int | None = None, kernel: str | None = None,
) -> Explanation:  # fmt: skip
    """For every query token the winning document token and its similarity; they sum to the score.

    Q, D and keywords as in `maxsim`; either side may instead be packed tokens with `cu_seqlens_q` or `cu_seqlens_d`.
    `out` is a pair (index, similarity). Not differentiable.
    """
    extras = options(normalize, precision, validate=validate, dtype=dtype, threads=threads, kernel=kernel)
    extras |= given(cu_seqlens_q=cu_seqlens_q, cu_seqlens_d=cu_seqlens_d, q_mask=q_mask, d_mask=d_mask)
    return Explanation(*common_framework(Q, D).explain(Q, D, pairing_of(D), extras, out))


def explain_dispatch(
    Q: Any, D: Any, *, cu_seqlens_q: Any = None, cu_seqlens_d: Any = None, q_mask: Any = None, d_mask: Any = None,
    normalize: bool = False, precision: Precision = "highest", validate: bool | None = None, dtype: Any = None,
    threads: int | None = None, kernel: str | None = None,
) -> list[KernelInfo]:  # fmt: skip
    """Every kernel of this build, judged for one call: which one is `chosen`, and what the others lack (`refusal`).

    Arguments as in `explain`; nothing is computed.
    """
    extras = options(normalize, precision, validate=validate, dtype=dtype, threads=threads, kernel=kernel)
    extras |= given(cu_seqlens_q=cu_seqlens_q, cu_seqlens_d=cu_seqlens_d, q_mask=q_mask, d_mask=d_mask)
    return common_framework(Q, D).explain_dispatch(Q, D, pairing_of(D), extras)


def kernels() -> list[KernelInfo]:
    """Every kernel of this build, in order of preference; `available` where this machine can run it."""
    return _native.kernels()


def version_info() -> VersionInfo:
    """What this build is."""
    rows = _native.kernels()
    return VersionInfo(
        _native.version(), any(row.backend == "cuda" for row in rows), tuple(row.name for row in rows if row.available)
    )
