"""PLAID: search of residual documents that looks at few of them. Its steps, indexes in folders, and the whole search.

Santhanam, Khattab, Potts and Zaharia, "PLAID: An Efficient Engine for Late Interaction Retrieval", 2022,
https://arxiv.org/abs/2205.09707.
"""

from __future__ import annotations

import math
import os
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rowmax import _native
from rowmax._corpus import Corpus, Path, is_packed, path_bytes
from rowmax._frameworks import common_framework, framework_of
from rowmax._options import integer, read_as_bfloat16, real, required, thread_number
from rowmax._search import at_least


def plaid_probe(
    centroid_scores: Any, nprobe: int, *, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None,
) -> Any:  # fmt: skip
    """The `nprobe` best centroids of every query token, PLAID's first step.

    centroid_scores `[C, Lq]` (centroids @ Q.T; float32, float16 or bfloat16) -> int64 `[Lq, min(nprobe, C)]`, best first;
    equal scores: the lowest centroid; NaN first. On the CPU, or torch tensors on a GPU; `out`, `dtype` and `threads` as in
    `maxsim`; `validate` changes nothing.
    """
    framework = framework_of(centroid_scores, "centroid_scores")
    nprobe = at_least(1, "nprobe", nprobe)
    as_bfloat16 = read_as_bfloat16(centroid_scores, dtype, "centroid_scores")
    cells, _ = framework.split_out(out, False)
    if out is None:
        shape = tuple(centroid_scores.shape)
        cells = framework.empty((shape[1], min(nprobe, shape[0])) if len(shape) == 2 else (), "int64", centroid_scores)
    _native.plaid_probe(framework.detached(centroid_scores), nprobe, thread_number(threads), as_bfloat16, cells)
    return framework.finished(cells) if out is None else out


def plaid_candidates(
    cells: Any, ivf: Any, ivf_lengths: Any, num_documents: int, *, validate: bool | None = None
) -> Any:
    """The documents in the lists of some centroids, ascending, each once: int64 `[B]`.

    cells are centroids, int32 or int64 of any shape, as `plaid_probe` gives them; `ivf` `[entries]` holds the documents of all
    lists, one list behind the other, and `ivf_lengths` `[C]` how many each has (int32 or int64), as in the files of an index of
    `num_documents`.
    With `validate` (the default on the CPU) a centroid, a length or a document out of range is a ValueError, otherwise it is
    passed over. Tensors on a GPU stay there; how many documents there are is waited for.
    """
    framework = framework_of(cells, "cells")
    required(ivf=ivf, ivf_lengths=ivf_lengths)
    num_documents = at_least(0, "num_documents", num_documents)
    if framework.streams(cells):
        from rowmax import _torch_plaid

        return _torch_plaid.candidates(cells, ivf, ivf_lengths, num_documents, validate)
    found = _native.plaid_candidates(
        cells, ivf, ivf_lengths, num_documents, validate is None or bool(validate)
    )
    return framework.made(found)


def plaid_approx_score_packed(
    centroid_scores: Any, codes: Any, cu_seqlens_d: Any, documents: Any = None, *, threshold: float | None = None,
    validate: bool | None = None, out: Any = None, dtype: Any = None, threads: int | None = None,
) -> Any:  # fmt: skip
    """`plaid_approx_score` of packed documents: codes `[T]`, cu_seqlens_d `[N + 1]` (int32 or int64).

    `documents` `[B]` says which are scored (None: all) -> `[B]` float32. With `threshold`, centroids whose scores are below it
    for every query token are left out, as PLAID prunes them; a document of such tokens alone scores minus infinity. All else
    as there.
    """
    framework = common_framework(centroid_scores, codes, ("centroid_scores", "codes"))
    required(cu_seqlens_d=cu_seqlens_d)
    cu_seqlens_d = framework.beside(cu_seqlens_d, centroid_scores)
    documents = None if documents is None else framework.beside(documents, centroid_scores)
    framework.refuse_gradient(centroid_scores=centroid_scores)
    as_bfloat16 = read_as_bfloat16(centroid_scores, dtype, "centroid_scores")
    scores, _ = framework.split_out(out, False)
    if out is None:
        count = len(cu_seqlens_d) - 1 if documents is None else len(documents)
        scores = framework.empty((max(count, 0),), "float32", centroid_scores)
    call = (_threshold(threshold), None if validate is None else bool(validate), thread_number(threads), as_bfloat16)
    _native.plaid_approx_score_packed(framework.detached(centroid_scores), codes, cu_seqlens_d, documents, *call, scores)
    return framework.finished(scores) if out is None else out


class PlaidChunk(NamedTuple):
    """Documents of an index, one behind the other; numpy views of its files."""

    codes: Any
    """`[T]` int32 or int64"""
    residuals: Any
    """uint8 `[T, d * nbits / 8]`"""
    cu_seqlens: Any
    """int64 `[N + 1]`"""


class PlaidIndex:
    """A folder that fast-plaid, next-plaid or ColBERTv2 wrote, opened for reading: nothing is loaded before it is used.

    Open one with `PlaidIndex.open`, search it with `plaid_search`. Its arrays are those that `maxsim_residual_varlen` and the
    steps of a search take; documents are numbered through all chunks.
    """

    def __init__(self, native: _native.PlaidIndex, path: bytes) -> None:
        self._native = native
        self._path = path

    def __reduce__(self) -> Any:
        """Pickled and copied by its path: another process maps the same files."""
        return PlaidIndex.open, (os.fsdecode(self._path),)

    @staticmethod
    def open(path: Path) -> PlaidIndex:
        """Open a folder. OSError when it cannot be read, ValueError naming file and field when it is no index."""
        name = path_bytes(path)
        return PlaidIndex(_native.PlaidIndex.open(name), os.path.abspath(name))

    @staticmethod
    def pack(
        path: Path, documents: Any, *, nbits: int = 4, centroids: int | None = None, iterations: int = 4,
        chunk_documents: int = 25000, d_mask: Any = None, dtype: Any = None, threads: int | None = None,
    ) -> PlaidIndex:  # fmt: skip
        """Write documents as an index that fast-plaid and next-plaid read too, and open it.

        `documents` is a dense array `[N, L, d]` (tokens that `d_mask` hides are left out), a pair
        `(tokens [T, d], cu_seqlens [N + 1])`, a `Corpus`, or a list of arrays `[L, d]`; of a floating point type, without NaN and
        infinities. Tokens are scaled to length 1, their codes the nearest of `centroids` (None: the power of two at or below
        16 sqrt(T), as ColBERTv2), which `iterations` rounds of spherical k-means make from a sample of the tokens; residuals are
        cut into 2 ** `nbits` buckets (1, 2, 4 or 8 bits) at their quantiles. Each pair of files holds `chunk_documents`. The folder
        must not exist, or be empty; it appears whole or not at all (OSError), with the same bytes for any `threads`.
        """
        tokens, offsets = _documents(documents)
        own = isinstance(documents, Corpus) and documents.dtype == "bfloat16"
        as_bfloat16 = own or read_as_bfloat16(tokens, dtype, "documents")
        numbers = (
            integer("nbits", nbits), 0 if centroids is None else at_least(1, "centroids", centroids),
            at_least(0, "iterations", iterations), at_least(1, "chunk_documents", chunk_documents), thread_number(threads),
        )  # fmt: skip
        detached = framework_of(tokens, "documents").detached(tokens)
        _native.pack_plaid(path_bytes(path), detached, offsets, d_mask, as_bfloat16, *numbers)
        return PlaidIndex.open(path)

    def __len__(self) -> int:
        """The number of documents."""
        return self._native.count()

    @property
    def dim(self) -> int:
        """d"""
        return self._native.dim()

    @property
    def nbits(self) -> int:
        """Bits of a bucket number: 1, 2, 4 or 8."""
        return self._native.nbits()

    @cached_property
    def centroids(self) -> Any:
        """`[C, d]` float16 or float32."""
        return self._native.centroids()

    @cached_property
    def bucket_weights(self) -> Any:
        """`[2 ** nbits]` float16 or float32."""
        return self._native.bucket_weights()

    @cached_property
    def chunks(self) -> list[PlaidChunk]:
        """The documents, as they lie in files."""
        return [PlaidChunk(*arrays) for arrays in self._native.chunks()]

    def on(self, device: Any) -> Any:
        """The index in a GPU's memory, for torch: copied there once and kept. `plaid_search` asks for it itself."""
        from rowmax import _torch_plaid

        return _torch_plaid.index_on(self, device)

    @cached_property
    def ivf(self) -> Any:
        """int32 or int64 `[entries]`: the documents of each centroid's list; made of the codes where the folder has none."""
        return self._native.lists()[0]

    @cached_property
    def ivf_lengths(self) -> Any:
        """int32 `[C]`: the length of each centroid's list in `ivf`."""
        return self._native.lists()[1]


def plaid_search(
    Q: Any, index: PlaidIndex, k: int, *, nprobe: int = 8, candidates: int | None = None, threshold: float | None = None,
    q_mask: Any = None, cu_seqlens_q: Any = None, validate: bool | None = None, out: Any = None, dtype: Any = None,
    threads: int | None = None, kernel: str | None = None,
) -> Any:  # fmt: skip
    """The k best documents of those that PLAID finds: `(scores [Nq, k], index [Nq, k] int64)`, best first.

    Q is `[Nq, Lq, d]`, `[Lq, d]` for results without the query dimension, or packed `[T, d]` with `cu_seqlens_q`; float32,
    float16 or bfloat16, on the CPU, or a torch tensor on a GPU, where the index is kept from the first search on. Every query
    token probes its `nprobe` best centroids, their lists name documents, of which the `candidates` (None: 1024; at least k) best
    by `plaid_approx_score` are scored as `maxsim_residual` scores them, to the bit.
    With `threshold` there is a round before, whose centroids below it are left out, and 4 x candidates go on. k is cut to the
    number of documents; where fewer were found, scores end in minus infinity and the index in -1. With as many probes as
    centroids and as many candidates as documents the result is that of all documents that have tokens. Equal scores: the lowest
    document first. No gradient. Masks and keywords as in `maxsim`; `out` is a pair.
    """
    if not isinstance(index, PlaidIndex):
        raise TypeError(f"index must be a PlaidIndex, got {type(index).__name__}: see PlaidIndex.open")
    framework = framework_of(Q, "Q")
    if Q.ndim not in (2, 3):
        raise ValueError(f"Q must be [Nq, Lq, d] or [Lq, d], got shape {list(Q.shape)}")
    framework.refuse_gradient(Q=Q)
    k, nprobe = at_least(1, "k", k), at_least(1, "nprobe", nprobe)
    wanted = 1024 if candidates is None else at_least(1, "candidates", candidates)
    one_query = Q.ndim == 2 and cu_seqlens_q is None
    if framework.streams(Q):
        how = (k, nprobe, max(wanted, k), _threshold(threshold))
        from rowmax import _torch_plaid

        return _torch_plaid.search(Q, index, how, q_mask, cu_seqlens_q, validate, kernel, dtype, out)
    count = Q.shape[0] if Q.ndim == 3 else 1 if one_query else max(len(cu_seqlens_q) - 1, 0)
    shape = (count, min(k, len(index)))
    if out is None:
        scores, best = framework.empty(shape, "float32", Q), framework.empty(shape, "int64", Q)
    else:
        scores, best = (array[None] if one_query else array for array in framework.split_out(out, True))
    as_bfloat16 = read_as_bfloat16(Q, dtype, "Q")
    call = (k, nprobe, wanted, _threshold(threshold), validate is None or bool(validate), thread_number(threads), kernel or "")
    index._native.search(framework.detached(Q), q_mask, cu_seqlens_q, *call, as_bfloat16, scores, best)
    if out is not None:
        return out
    lead = shape[1:] if one_query else shape
    return framework.finished(scores).reshape(lead), framework.finished(best).reshape(lead)


def _threshold(threshold: float | None) -> float:
    if threshold is None:
        return -math.inf
    number = real("threshold", threshold)
    if math.isnan(number):
        raise ValueError("threshold must be a number, got nan")
    return number


def _documents(documents: Any) -> tuple[Any, Any]:
    """Tokens, and offsets where they are packed."""
    if isinstance(documents, Corpus):
        return documents.tokens, documents.offsets
    if hasattr(documents, "ndim"):
        return documents, None
    if is_packed(documents):
        tokens, offsets = documents
        return tokens, offsets
    if not isinstance(documents, list | tuple) or not documents:
        raise TypeError(f"documents must be arrays, got {documents!r}")
    arrays = [np.asarray(framework_of(x, f"documents[{i}]").numbers(x)) for i, x in enumerate(documents)]
    for i, array in enumerate(arrays):
        if array.ndim != 2 or array.shape[1] != arrays[0].shape[-1] or array.dtype != arrays[0].dtype:
            raise ValueError(
                f"documents[{i}] must be [L, d] as all others, got {list(array.shape)} {array.dtype} after "
                f"{list(arrays[0].shape)} {arrays[0].dtype}"
            )
    return np.concatenate(arrays), np.cumsum([0, *(len(array) for array in arrays)])
