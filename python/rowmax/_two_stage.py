"""Search in two stages: a scan of a coarse form of the documents, then exact scores of the best of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowmax._bits import maxsim_bits
from rowmax._corpus import Corpus
from rowmax._frameworks import Extras, Framework, common_framework, framework_of
from rowmax._options import dtype_name, given, options, read_as_bfloat16
from rowmax._quantized import maxsim_fp8, maxsim_int8, quantize_fp8, quantize_int8
from rowmax._search import at_least


def topk_two_stage(
    Q: Any, D: Any, k: int, *, candidates: int | None = None, cu_seqlens_d: Any = None, q_mask: Any = None,
    d_mask: Any = None, validate: bool | None = None, out: Any = None, dtype: Any = None, threads: int | None = None,
    kernel: str | None = None,
) -> Any:  # fmt: skip
    """The k best documents: a coarse scan of all, then exact scores of `candidates` of them, read in place.

    Returns `(scores [Nq, k], index [Nq, k] int64, exact)`, as `topk` would but for what the scan missed. `exact` is True
    where the result is proved to be that of `topk`: all documents were candidates, or no other document's coarse score is
    near enough to reach the k-th (int8; other forms have no bound). For tensors on a GPU it may be a tensor of one bool there:
    nothing waits for the device before it is looked at.

    D is a pair `(D, coarse)`: documents as in `topk` (`[Nd, Ld, d]`, or packed with `cu_seqlens_d`), and coarse one of
    `quantize_int8(D)` or `quantize_fp8(D)` (a pair), or `sign_bits(D)` in the little order; or a `Corpus` packed with one
    (of several the first of int8, fp8, bits), which is scanned block by block and may be larger than memory. `candidates`
    is cut to Nd and at least k; None: 4 k and at least k + 32, or for bits 16 k and at least k + 64. Candidates are the documents
    of the highest bounds, where coarse scores have one, or else of the highest coarse scores: NaN first, of equals the lowest
    documents. Masks and keywords as in `maxsim`; `kernel` is that of the exact scores; `out` is a pair (scores, index). The scan
    holds some 40 bytes for each query and document (of a Corpus: of a block, and for each query and candidate).
    Scores of torch tensors are differentiable.
    """
    k = at_least(1, "k", k)
    extras = options(validate=validate, dtype=dtype, threads=threads)
    queries = given(q_mask=q_mask)
    if isinstance(D, Corpus):
        framework = framework_of(Q, "Q")
        tokens, coarse, cu_seqlens_d = _corpus_forms(framework, D, cu_seqlens_d, d_mask)
        have = "bfloat16" if read_as_bfloat16(Q, dtype, "Q") else dtype_name(Q.dtype)
        if have != D.dtype and not framework.casts(Q):
            raise TypeError(f"Q is {have} but D is {D.dtype}: token types are not promoted, convert one of them")
        if D.dtype == "bfloat16":
            extras["dtype"] = D.dtype
    else:
        tokens, coarse = _forms(D, cu_seqlens_d is not None)
        framework = common_framework(Q, tokens)
    if Q.ndim not in (2, 3):
        raise ValueError(f"Q must be [Nq, Lq, d] or [Lq, d], got shape {list(Q.shape)}")
    documents = given(d_mask=d_mask, cu_seqlens_d=cu_seqlens_d)
    scanner = _Scanner(framework, Q, coarse, queries, extras)
    if framework.streams(Q) and not isinstance(D, Corpus):
        extras |= given(kernel=kernel)
        return _on_device(scanner, Q, tokens, coarse, k, candidates, queries, documents, extras, out)
    if isinstance(D, Corpus):
        scans = _corpus_scans(scanner, coarse, cu_seqlens_d, 1 if Q.ndim == 2 else Q.shape[0])
    else:
        scans = iter([(0, scanner.scan(coarse, documents))])
    count = len(D) if isinstance(D, Corpus) else len(cu_seqlens_d) - 1 if cu_seqlens_d is not None else tokens.shape[0]
    width = _width(k, candidates, count, isinstance(coarse, tuple))
    chosen, rest = _choose(scans, width, 1 if Q.ndim == 2 else Q.shape[0])
    extras |= queries | documents | given(kernel=kernel)
    numbers_q = np.repeat(np.arange(len(chosen)), chosen.shape[1])
    pairs = {"pair_q": framework.made(numbers_q, Q), "pair_d": framework.made(chosen.ravel(), Q)}
    exact = framework.score(Q, tokens, "list", extras | pairs).reshape(chosen.shape)
    numbers = framework.numbers(exact)
    order = _ranked(numbers)[:, :k]
    best, index = framework.taken(exact, order), np.take_along_axis(chosen, order, 1)
    beats = scanner.bounded and _beats(np.take_along_axis(numbers, order, 1), rest)
    proved = bool(chosen.shape[1] == count or beats)
    lead = (slice(None),) if Q.ndim == 3 else (0,)
    return *framework.delivered((best[lead], framework.made(index, Q)[lead]), out), proved


def _on_device(
    scanner: _Scanner, Q: Any, tokens: Any, coarse: Any, k: int, candidates: int | None, queries: Extras, documents: Extras,
    extras: Extras, out: Any,
) -> Any:  # fmt: skip
    """Of torch tensors on a GPU, where all stays."""
    import torch

    from rowmax import _torch_two_stage as on_device

    framework = framework_of(Q, "Q")
    found = scanner.scores(coarse, documents)
    found = found[None] if Q.ndim == 2 else found
    width = _width(k, candidates, found.shape[1], isinstance(coarse, tuple))
    keys = scanner.most(found, Q, coarse, documents)
    chosen, rest = on_device.chosen(found if keys is None else keys, width)
    rows = torch.arange(len(chosen), device=Q.device).repeat_interleave(width)
    pairs = queries | documents | {"pair_q": rows, "pair_d": chosen.flatten()}
    exact = framework.score(Q, tokens, "list", extras | pairs).reshape(chosen.shape)
    order = on_device.largest(exact, min(k, width))
    best, index = exact.gather(1, order), chosen.gather(1, order)
    proved = rest is None or (keys is not None and on_device.proved(best, rest))
    lead = (slice(None),) if Q.ndim == 3 else (0,)
    return *framework.delivered((best[lead], index[lead]), out), proved


def _forms(D: Any, is_packed: bool) -> tuple[Any, Any]:
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


def _corpus_forms(framework: Framework, corpus: Corpus, cu_seqlens_d: Any, d_mask: Any) -> tuple[Any, Any, Any]:
    """Tokens, coarse form and offsets of a corpus."""
    if cu_seqlens_d is not None:
        raise ValueError("cu_seqlens_d: a Corpus has its own offsets")
    if d_mask is not None:
        raise ValueError("d_mask: a Corpus holds no hidden tokens")
    if not corpus.coarse_forms:
        raise ValueError('D: this Corpus was packed without a coarse form, see Corpus.pack(..., coarse="int8")')
    coarse = corpus.coarse(corpus.coarse_forms[0])
    adopted = tuple(framework.adopted(x) for x in coarse) if isinstance(coarse, tuple) else framework.adopted(coarse)
    return framework.adopted(corpus.tokens), adopted, corpus.offsets


class _Scanner:
    """A query, ready to be compared with a coarse form."""

    def __init__(self, framework: Framework, Q: Any, coarse: Any, queries: Extras, extras: Extras) -> None:
        self._framework, self._queries = framework, queries
        self._common = {name: value for name, value in extras.items() if name in ("validate", "threads")}
        self._kind = dtype_name(coarse[0].dtype) if isinstance(coarse, tuple) else "bits"
        query = framework.detached(Q)
        self._error: tuple[NDArray[Any], NDArray[Any]] | None = None
        self.bounded = False
        if self._kind == "bits":
            self._query: Any = framework.cast(query, "float32") if dtype_name(query.dtype) == "float64" else query
            self._common |= given(dtype=extras.get("dtype") if self._query is query else None)
        elif self._kind == "int8":
            self._query = quantize_int8(query, dtype=extras.get("dtype"))
            self.bounded = not framework.casts(Q)
            if self.bounded and not framework.streams(Q):
                self._error = self._bounds(_numbers(framework, query, extras))
        else:
            self._query = quantize_fp8(query, dtype=extras.get("dtype"))

    def _bounds(self, numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        codes, scale = (self._framework.numbers(x) for x in self._query)
        with np.errstate(all="ignore"):
            difference = numbers - codes.astype(np.float64) * scale[..., None]
            mask = _plain(self._framework, self._queries["q_mask"]) if "q_mask" in self._queries else None
            return _int8_error(numbers, difference, mask)

    def scores(self, coarse: Any, documents: Extras) -> Any:
        """Of the coarse form."""
        common = self._common | self._queries | documents
        if self._kind == "bits":
            return maxsim_bits(self._query, coarse, **common)
        return (maxsim_int8 if self._kind == "int8" else maxsim_fp8)(*self._query, *coarse, **common)

    def most(self, found: Any, Q: Any, coarse: Any, documents: Extras) -> Any:
        """On a GPU: what no exact score is above; None where nothing bounds them."""
        if not self.bounded:
            return None
        from rowmax import _torch_two_stage

        return _torch_two_stage.most(found, Q, self._query, coarse[1], self._queries, documents)

    def scan(self, coarse: Any, documents: Extras) -> NDArray[Any]:
        """The keys by which candidates are chosen: what exact scores are not above, infinite where nothing is known; of forms
        without a bound the coarse scores."""
        found = np.atleast_2d(self._framework.numbers(self.scores(coarse, documents)).astype(np.float64))
        if self._error is None:
            return found
        error, size = self._error
        with np.errstate(all="ignore"):
            known = {name: _plain(self._framework, value) for name, value in documents.items()}
            largest = _largest_scale(self._framework.numbers(coarse[1]), found.shape[1], known)
            most = found + error[:, None] * largest
            # Where a sum may leave float32's range, or is not finite, nothing is known.
            ordinary = np.isfinite(most) & (size[:, None] * 127 * largest < 1e37)
        return np.where(ordinary, most, np.inf)


def _corpus_scans(scanner: _Scanner, coarse: Any, offsets: Any, queries: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Keys of block after block, each with the number of its first document: documents enough to keep threads busy, few
    enough that little is held."""
    block = max((1 << 20) // max(queries, 1), 256)
    for first in range(0, max(len(offsets) - 1, 1), block):
        starts = np.asarray(offsets[first : first + block + 1])
        rows = slice(int(starts[0]), int(starts[-1]))
        part = tuple(x[rows] for x in coarse) if isinstance(coarse, tuple) else coarse[rows]
        yield first, scanner.scan(part, {"cu_seqlens_d": starts - starts[0]})


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


def _width(k: int, candidates: int | None, count: int, scaled: bool) -> int:
    default = max(4 * k, k + 32) if scaled else max(16 * k, k + 64)
    wanted = default if candidates is None else at_least(1, "candidates", candidates)
    return min(max(wanted, k), count)


def _choose(scans: Iterator[tuple[int, NDArray[Any]]], width: int, queries: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The `width` documents of every query's highest keys, ascending, and the highest key of any other."""
    chosen, kept = np.zeros((queries, 0), np.int64), np.zeros((queries, 0))
    rest = np.full(queries, -np.inf)
    for first, keys in scans:
        new = np.broadcast_to(np.arange(first, first + keys.shape[1]), keys.shape)
        numbers, keys = np.concatenate([chosen, new], 1), np.concatenate([kept, keys], 1)
        order = _ranked(keys)
        rest = np.maximum(rest, np.take_along_axis(keys, order[:, width:], 1).max(1, initial=-np.inf))
        best = np.sort(order[:, :width], 1)  # documents stand in ascending order, before and after
        chosen, kept = np.take_along_axis(numbers, best, 1), np.take_along_axis(keys, best, 1)
    return chosen, rest


def _ranked(scores: NDArray[Any]) -> NDArray[np.int64]:
    """How results of both stages are ordered: NaN first, then higher scores, then lower documents, in whose order they stand."""
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
