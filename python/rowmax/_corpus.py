"""Documents packed into one memory-mapped file: tokens, offsets and ids."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rowmax import _native
from rowmax._frameworks import framework_of
from rowmax._options import dtype_name

Path = str | os.PathLike[str]


class Corpus:
    """A corpus file opened for reading. Its arrays are views of the mapping: nothing is loaded before it is used.

    Make one with `Corpus.pack` (or `rowmax pack`), open it with `Corpus.open`, search it with `rowmax.topk`.
    """

    def __init__(self, native: _native.Corpus) -> None:
        self._native = native

    @staticmethod
    def open(path: Path) -> Corpus:
        """Open a corpus file. OSError when it cannot be read, ValueError naming the field when it is no corpus."""
        return Corpus(_native.Corpus.open(os.fspath(path)))

    @staticmethod
    def pack(
        path: Path, documents: Any, ids: Sequence[str] | None = None, *, d_mask: Any = None, dtype: Any = None
    ) -> Corpus:
        """Write documents to `path` and open the result; the file appears whole or not at all.

        `documents` is a dense array `[N, L, d]` (tokens that `d_mask` hides are left out), a pair
        `(tokens [T, d], cu_seqlens [N + 1])`, or an iterable of arrays `[L, d]`, consumed one at a time so that
        a generator of any length does. Tokens are float16, bfloat16 (or uint16 with dtype="bfloat16"), float32 or float64,
        from any array library. `ids` name the documents: UTF-8 without white space; None numbers them.
        """
        packer = _native.Packer(os.fspath(path), dtype is not None and dtype_name(dtype) == "bfloat16")
        if hasattr(documents, "ndim"):
            framework_of(documents, "documents")
            packer.append_many(documents, None, d_mask, list(ids or ()))
        elif _is_packed(documents):
            framework_of(documents[0], "documents")
            packer.append_many(documents[0], documents[1], d_mask, list(ids or ()))
        else:
            _append_each(packer, documents, ids, d_mask)
        packer.commit()
        return Corpus.open(path)

    def __len__(self) -> int:
        """The number of documents."""
        return self._native.count()

    def __getitem__(self, i: int) -> Any:
        """The tokens `[L, d]` of document i, a view."""
        i = range(len(self))[i]
        return self.tokens[self.offsets[i] : self.offsets[i + 1]]

    @property
    def dtype(self) -> str:
        """The tokens' type: "float16", "bfloat16", "float32" or "float64"."""
        return self._native.dtype()

    @cached_property
    def tokens(self) -> Any:
        """All tokens `[T, d]`, a read-only numpy view; bfloat16 is ml_dtypes.bfloat16 if installed, else uint16."""
        tokens = self._native.tokens()
        return _as_bfloat16(tokens) if self.dtype == "bfloat16" else tokens

    @cached_property
    def offsets(self) -> Any:
        """int64 `[N + 1]`: document i is rows `offsets[i]:offsets[i + 1]` of `tokens`. A read-only numpy view."""
        return self._native.cu_seqlens()

    @cached_property
    def ids(self) -> list[str]:
        """The documents' names; "0", "1", ... when it was packed without."""
        return self._native.ids()

    def verify(self) -> None:
        """Read the whole file and compare it with its checksums; ValueError names the first thing that is wrong."""
        self._native.verify()


def _is_packed(documents: Any) -> bool:
    return isinstance(documents, tuple) and len(documents) == 2 and getattr(documents[1], "ndim", 0) == 1


def _append_each(packer: _native.Packer, documents: Any, ids: Sequence[str] | None, d_mask: Any) -> None:
    if d_mask is not None:
        raise ValueError("d_mask goes with a dense array [N, L, d], not with a list of documents")
    count = 0
    for count, document in enumerate(documents, start=1):
        framework_of(document, f"documents[{count - 1}]")
        if ids is not None and count > len(ids):
            break
        packer.append(document, "" if ids is None else ids[count - 1])
    if ids is not None and count != len(ids):
        raise ValueError(f"ids names {len(ids)} documents, but documents holds {'more' if count > len(ids) else count}")


def _as_bfloat16(bits: Any) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        return bits
    return bits.view(ml_dtypes.bfloat16)
