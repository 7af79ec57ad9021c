"""Documents packed into one memory-mapped file: tokens, offsets and ids."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
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

    def __init__(self, native: _native.Corpus, path: bytes) -> None:
        self._native = native
        self._path = path

    def __reduce__(self) -> Any:
        """Pickled and copied by its path: another process maps the same file."""
        return Corpus.open, (os.fsdecode(self._path),)

    @staticmethod
    def open(path: Path) -> Corpus:
        """Open a corpus file. OSError when it cannot be read, ValueError naming the field when it is no corpus."""
        name = path_bytes(path)
        return Corpus(_native.Corpus.open(name), os.path.abspath(name))

    @staticmethod
    def pack(
        path: Path, documents: Any, ids: Sequence[str] | None = None, *, d_mask: Any = None, dtype: Any = None,
        coarse: str | Sequence[str] = (),
    ) -> Corpus:  # fmt: skip
        """Write documents to `path` and open the result; the file appears whole or not at all.

        `documents` is a dense array `[N, L, d]` (tokens that `d_mask` hides are left out), a pair
        `(tokens [T, d], cu_seqlens [N + 1])`, or an iterable of arrays `[L, d]`, consumed one at a time so that
        a generator of any length does. Tokens are float16, bfloat16 (or uint16 with dtype="bfloat16"), float32 or float64,
        from any array library. `ids` name the documents: UTF-8 without white space; None numbers them. `coarse` is a form
        of the tokens to store beside them, or several, for `topk_two_stage`: "int8" (`quantize_int8`), "fp8" (`quantize_fp8`),
        both with a scale a token, or "bits" (`sign_bits`).
        """
        forms = [coarse] if isinstance(coarse, str) else list(coarse)
        packer = _native.Packer(path_bytes(path), dtype is not None and dtype_name(dtype) == "bfloat16", forms)
        names = None if ids is None else _names(ids)
        if hasattr(documents, "ndim"):
            framework_of(documents, "documents")
            count = documents.shape[0] if documents.ndim == 3 else 1
            _append_all(packer, documents, None, d_mask, names, count)
        elif is_packed(documents):
            framework_of(documents[0], "documents")
            _append_all(packer, documents[0], documents[1], d_mask, names, len(documents[1]) - 1)
        else:
            _append_each(packer, documents, names, d_mask)
        packer.commit()
        return Corpus.open(path)

    def __len__(self) -> int:
        """The number of documents."""
        return self._native.count()

    def __getitem__(self, i: int) -> Any:
        """The tokens `[L, d]` of document i, a view."""
        number = operator.index(i)
        if not -len(self) <= number < len(self):
            raise IndexError(f"document {number}: the corpus holds {len(self)}")
        i = range(len(self))[number]
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

    @property
    def coarse_forms(self) -> list[str]:
        """The coarse forms that it was packed with: some of "int8", "fp8" and "bits"."""
        return self._native.coarse_forms()

    def coarse(self, form: str) -> Any:
        """A coarse form of `tokens`, read-only numpy views: "int8" and "fp8" are pairs (codes `[T, d]`, scale `[T]` float32), as
        the quantisers make them, float8 codes as uint8; "bits" is uint8 `[T, ceil(d / 8)]`. ValueError when it holds none."""
        codes, scale = self._native.coarse(form)
        return codes if scale is None else (codes, scale)

    def verify(self) -> None:
        """Read the whole file and compare it with its checksums; ValueError names the first thing that is wrong."""
        self._native.verify()


def path_bytes(path: Path) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"path: {path!r} holds a null character")
    return name


def _names(ids: Sequence[str]) -> list[str]:
    if isinstance(ids, str):
        raise TypeError(f"ids must be a list of strings, got the string {ids!r}")
    names = list(ids)
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"ids[{i}] must be a string, got {name!r}")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"ids[{i}]: {name!r} is not UTF-8") from None
    return names


def is_packed(documents: Any) -> bool:
    if not isinstance(documents, tuple) or len(documents) != 2:
        return False
    offsets = documents[1]
    return getattr(offsets, "ndim", 0) == 1 or (isinstance(offsets, list | tuple) and hasattr(documents[0], "ndim"))


def _append_all(
    packer: _native.Packer, tokens: Any, offsets: Any, d_mask: Any, ids: list[str] | None, count: int
) -> None:
    if ids is not None and len(ids) != count:
        raise ValueError(f"ids names {len(ids)} documents, but documents holds {count}")
    packer.append_many(tokens, offsets, d_mask, ids or [])


def _append_each(packer: _native.Packer, documents: Any, ids: list[str] | None, d_mask: Any) -> None:
    if not isinstance(documents, Iterable):
        raise TypeError(f"documents must be arrays, got {documents!r}")
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
