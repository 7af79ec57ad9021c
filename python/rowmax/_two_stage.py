"""Search in two stages: a scan of a coarse form of the documents, then exact scores of the best of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rowmax._bits import maxsim_bits
from rowmax._corpus import Corpus
from rowmax._frameworks import Extras, Framework, common_framework
from rowmax._options import dtype_name, given, options
from rowmax._quantized import maxsim_fp8, maxsim_int8, quantize_fp8, quantize_int8
from rowmax._search import at_least


class _Scan(NamedTuple):
    """What the first stage found, for every query and document."""

    scores: NDArray[Any]
    most: NDArray[Any]
    """No exact score is above this; infinite where nothing bounds it."""


def topk_two_stage(
    Q: Any, D: Any, k: int, *, candidates: int | None = None, cu_seqlens_d: Any = None, q_mask: Any = None,
    d_mask: Any = None, validate: bool | None = None, out: Any = None, dtype: Any = None, threads: int | None = None,
    kernel: str | None = None,
) -> Any:  # fmt: skip
    """The k best documents: a coarse scan of all, then exact scores of `candidates` of them, read in place.

    Returns `(scores [Nq, k], index [Nq, k] int64, exact)`, as `topk` would but for what the scan missed. `exact` is True
    where the result is proved to be that of `topk`: all documents were candidates, or no other document's coarse score is
    near enough to reach the k-th (int8; other forms have no bound).

    D is a pair `(D, coarse)`: documents as in `topk` (`[Nd, Ld, d]`, or packed with `cu_seqlens_d`), and coarse one of
    `quantize_int8(D)` or `quantize_fp8(D)` (a pair), or `sign_bits(D)` in the little order. `candidates` is cut to Nd and at
    least k; None: 4 k and at least k + 32, or for bits 16 k and at least k + 64. Masks and keywords as in `maxsim`; `kernel`
    is that of the exact scores; `out` is a pair (scores, index). The scan holds some 40 bytes for each query and document.
    Scores of torch tensors are differentiable.
    """
    tokens, coarse = _forms(D, cu_seqlens_d is not None)
    framework = common_framework(Q, tokens)
    if Q.ndim not in (2, 3):
        raise ValueError(f"Q must be [Nq, Lq, d] or [Lq, d], got shape {list(Q.shape)}")
    k = at_least(1, "k", k)
    extras = options(validate=validate, dtype=dtype, threads=threads)
    sides = given(q_mask=q_mask, d_mask=d_mask, cu_seqlens_d=cu_seqlens_d)
    scan = _scan(framework, Q, tokens, coarse, sides, extras)
    chosen, rest = _choose(scan, k, candidates, isinstance(coarse, tuple))
    extras |= sides | given(kernel=kernel)
    queries = np.repeat(np.arange(len(chosen)), chosen.shape[1])
    pairs = {"pair_q": framework.made(queries), "pair_d": framework.made(chosen.ravel())}
    exact = framework.score(Q, tokens, "list", extras | pairs).reshape(chosen.shape)
    numbers = framework.numbers(exact)
    order = _ranked(numbers)[:, :k]
    best, index = framework.taken(exact, order), np.take_along_axis(chosen, order, 1)
    proved = bool(chosen.shape[1] == scan.scores.shape[1] or _beats(np.take_along_axis(numbers, order, 1), rest))
    lead = (slice(None),) if Q.ndim == 3 else (0,)
    return *framework.delivered((best[lead], framework.made(index)[lead]), out), proved


def _forms(D: Any, is_packed: bool) -> tuple[Any, Any]:
    if isinstance(D, Corpus):
        raise NotImplementedError("D is a Corpus: corpora do not carry a coarse form yet, pass (tokens, coarse)")
    if not isinstance(D, tuple | list) or len(D) != 2:
        raise TypeError(f"D must be a pair (documents, coarse form), got {type(D).__name__}")
    tokens, coarse = D
    if isinstance(coarse, tuple | list):
        if len(coarse) != 2:
            raise ValueError(f"coarse must be a pair (codes, scale) or sign bits, got {len(coarse)} arrays")
        coarse = tuple(coarse)
    codes = coarse[0] if isinstance(coarse, tuple) else coarse
    if not hasattr(codes, "dtype") or not hasattr(tokens, "dtype"):
        raise TypeError(f"D must be (documents, coarse form), got {type(tokens).__name__} and {type(codes).__name__}")
    if tokens.ndim != (2 if is_packed else 3):
        raise ValueError(
            f"D must be [Nd, Ld, d], or [T, d] with cu_seqlens_d; got shape {list(tokens.shape)} and "
            f"{'' if is_packed else 'no '}cu_seqlens_d"
        )
    dim = tokens.shape[-1]
    if not 1 <= dim <= 4096:
        raise ValueError(f"D has shape {list(tokens.shape)}: the embedding dimension must be 1 to 4096, got {dim}")
    wanted = dim if isinstance(coarse, tuple) else (dim + 7) // 8
    if tuple(codes.shape) != (*tokens.shape[:-1], wanted):
        raise ValueError(
            f"coarse has shape {list(codes.shape)}, but documents {list(tokens.shape)} need {[*tokens.shape[:-1], wanted]}"
        )
    return tokens, coarse


def _scan(framework: Framework, Q: Any, tokens: Any, coarse: Any, sides: Extras, extras: Extras) -> _Scan:
    """Coarse scores as numpy, and what bounds the exact ones."""
    common = {name: value for name, value in extras.items() if name in ("validate", "threads")} | sides
    query = framework.detached(Q)
    kind = dtype_name((coarse[0] if isinstance(coarse, tuple) else coarse).dtype)
    if not isinstance(coarse, tuple):
        scores = maxsim_bits(_short(framework, query, extras), coarse, **common)
    elif kind == "int8":
        codes, scale = quantize_int8(query, dtype=extras.get("dtype"))
        scores = maxsim_int8(codes, scale, *coarse, **common)
    else:
        scores = maxsim_fp8(*quantize_fp8(query, dtype=extras.get("dtype")), *coarse, **common)
    found = np.atleast_2d(framework.numbers(scores).astype(np.float64))
    if kind != "int8" or framework.casts(Q):
        return _Scan(found, np.full(found.shape, np.inf))
    numbers = _numbers(framework, query, extras)
    with np.errstate(all="ignore"):
        difference = numbers - framework.numbers(codes).astype(np.float64) * framework.numbers(scale)[..., None]
        known = {name: _plain(framework, value) for name, value in sides.items()}
        error, size = _int8_error(numbers, difference, known.get("q_mask"))
        largest = _largest_scale(framework.numbers(coarse[1]), found.shape[1], known)
        most = found + error[:, None] * largest
        # Where a sum may leave float32's range, or is not finite, nothing is known.
        ordinary = np.isfinite(most) & (size[:, None] * 127 * largest < 1e37)
    return _Scan(found, np.where(ordinary, most, np.inf))


def _plain(framework: Framework, value: Any) -> Any:
    """A mask or offsets as numpy."""
    return framework.numbers(value) if hasattr(value, "detach") else np.asarray(value)


def _int8_error(
    q: NDArray[Any], difference: NDArray[Any], q_mask: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """By how much the exact score of each query may be above the coarse one, for a document whose largest scale is 1; and
    the sum of its magnitudes.

    q . d - q' . d' = q . (d - d') + (q - q') . d', where no element of d - d' is above scale / 2 and none of d' above
    127 scale. The maximum over tokens moves no more than the similarities do. Rounding: that of both scores, by the bounds
    of docs/numerics.md, where a token's norm is at most 128 scale sqrt(d); and x / scale is rounded before it is a code. What
    is lost below float32's smallest numbers is less than 1e-6 of the smallest scale that _largest_scale() gives.
    """
    d = q.shape[-1]
    magnitude = np.abs(q).sum(-1)
    rounding = 4e-6 * 128 * np.sqrt(d) * np.linalg.norm(q, axis=-1)
    each = magnitude / 2 + 127 * np.abs(difference).sum(-1) + rounding + 1e-6
    each, magnitude = np.atleast_2d(each), np.atleast_2d(magnitude)
    if q_mask is not None:
        each, magnitude = np.where(q_mask != 0, each, 0), np.where(q_mask != 0, magnitude, 0)
    return np.asarray(1.0001 * each.sum(-1)), np.asarray(magnitude.sum(-1))


def _largest_scale(scale: NDArray[Any], documents: int, sides: Extras) -> NDArray[Any]:
    """Of each document's kept tokens; NaN bounds nothing. Never below 1e-30: smaller scales lost digits, or all of them, and
    tokens of scale 0 may hold what is smaller still."""
    scale = np.abs(scale).astype(np.float64)
    scale = np.where(np.isnan(scale), np.inf, np.maximum(scale, 1e-30))
    if scale.ndim == 0:
        return np.full(documents, float(scale))
    if "cu_seqlens_d" in sides:
        starts = np.clip(sides["cu_seqlens_d"].astype(np.int64), 0, scale.size)
        return np.array([scale[a:b].max(initial=1e-30) for a, b in zip(starts[:-1], starts[1:], strict=True)])
    if scale.ndim < 2:
        return np.broadcast_to(scale, (documents,))
    if "d_mask" in sides:
        scale = np.where(sides["d_mask"] != 0, scale, 0)
    return np.asarray(scale.max(-1, initial=1e-30))


def _choose(
    scan: _Scan, k: int, candidates: int | None, scaled: bool
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The candidates of every query in ascending order, and the highest score that any other document may have."""
    count = scan.scores.shape[1]
    default = max(4 * k, k + 32) if scaled else max(16 * k, k + 64)
    wanted = default if candidates is None else at_least(1, "candidates", candidates)
    width = min(max(wanted, k), count)
    # By what they may reach, and among equals by the coarse score; NaN may be anything.
    most = np.where(np.isnan(scan.most), np.inf, scan.most)
    by_score = np.where(np.isnan(scan.scores), np.inf, scan.scores)
    order = np.lexsort((-by_score, -most))
    chosen = np.sort(order[:, :width], 1).astype(np.int64)
    rest = np.take_along_axis(most, order[:, width:], 1).max(1, initial=-np.inf)
    return chosen, rest


def _ranked(scores: NDArray[Any]) -> NDArray[np.int64]:
    """NaN first, then higher scores, then lower documents, in whose order candidates stand."""
    nan = np.isnan(scores)
    return np.asarray(np.lexsort((-np.where(nan, np.inf, scores), ~nan)))


def _beats(best: NDArray[Any], rest: NDArray[Any]) -> bool:
    """Whether every query's last result is above whatever else there may be."""
    if best.shape[1] == 0:
        return True
    last = np.where(np.isnan(best[:, -1]), np.inf, best[:, -1])
    return bool((last > rest).all())


def _numbers(framework: Framework, query: Any, extras: Extras) -> NDArray[Any]:
    numbers = framework.numbers(query)
    if numbers.dtype == np.uint16:  # dtype="bfloat16"
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(numbers, np.float64)


def _short(framework: Framework, query: Any, extras: Extras) -> Any:
    """Queries as maxsim_bits takes them."""
    if dtype_name(query.dtype) in ("float64", "uint16"):
        return framework.made(_numbers(framework, query, extras).astype(np.float32))
    return query
