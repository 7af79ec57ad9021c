"""The problems that are timed: one query against documents of given lengths, the same bytes for every implementation."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Case:
    name: str
    query_length: int
    documents: int
    document_length: int  # 0: ragged
    dim: int
    dtypes: tuple[str, ...] = FLOATS

    def lengths(self) -> np.ndarray:
        if self.document_length:
            return np.full(self.documents, self.document_length, np.int64)
        # 8 to 512 tokens, 123 on average: many short documents and a long tail.
        uniform = np.random.default_rng(1).random(self.documents)
        return (8 + 504 * uniform**3.38).astype(np.int64)

    def cu_seqlens(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.lengths())]).astype(np.int64)

    def flop(self) -> float:
        return 2.0 * self.query_length * float(self.lengths().sum()) * self.dim

    def shape_text(self) -> str:
        tokens = self.document_length or f"8..512 (mean {self.lengths().mean():.0f})"
        return f"{self.documents} documents of {tokens} tokens, query of {self.query_length}, d {self.dim}"


CASES = (
    Case("text-1k", 32, 1000, 300, 128, FLOATS + ("float64",)),
    Case("colpali-32", 1024, 32, 1024, 128, FLOATS + ("float64",)),
    Case("short-4k", 32, 4000, 64, 96),
    Case("ragged-1k", 32, 1000, 0, 128),
    Case("text-d768", 32, 128, 300, 768, ("float32",)),
    Case("text-lq1", 1, 1000, 300, 128, ("float32", "float16")),
)


@dataclass
class Data:
    """Unit-length Gaussian tokens; bfloat16 is kept as its bits (uint16)."""

    case: Case
    dtype: str
    query: np.ndarray  # [Lq, d]
    tokens: np.ndarray  # [T, d], packed
    cu_seqlens: np.ndarray  # [documents + 1]

    def documents(self) -> list[np.ndarray]:
        return [self.tokens[a:b] for a, b in zip(self.cu_seqlens[:-1], self.cu_seqlens[1:])]


def unit_vectors(rows: int, dim: int, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal((rows, dim), dtype=np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def generate(case: Case, dtype: str) -> Data:
    query, tokens = unit_vectors(case.query_length, case.dim, 2), unit_vectors(int(case.lengths().sum()), case.dim, 3)
    return Data(case, dtype, cast(query, dtype), cast(tokens, dtype), case.cu_seqlens())


def write(case: Case, folder: Path) -> None:
    """Writes the case's float32 tokens once; later calls find them there."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"{case.name}.tokens.npy").exists():
        data = generate(case, "float32")
        np.save(folder / f"{case.name}.query.npy", data.query)
        np.save(folder / f"{case.name}.tokens.npy", data.tokens)


def load(case: Case, dtype: str, folder: Path) -> Data:
    """Reads the tokens into memory of the calling process, rounded to nearest even."""
    parts = [cast(np.load(folder / f"{case.name}.{part}.npy"), dtype) for part in ("query", "tokens")]
    return Data(case, dtype, parts[0], parts[1], case.cu_seqlens())


def cast(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype != "bfloat16":
        return values.astype(dtype, copy=False)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widen(values: np.ndarray, dtype: str) -> np.ndarray:
    """The exact value of each element as float64."""
    if dtype == "bfloat16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64)


def exact_scores(data: Data) -> np.ndarray:
    query = widen(data.query, data.dtype)
    return np.array([(query @ widen(d, data.dtype).T).max(axis=1).sum() for d in data.documents()])
