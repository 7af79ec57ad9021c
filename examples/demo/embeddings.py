"""Token embeddings of many texts, computed once: a cache of chunks named by what they were made from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from minilm import DIM, MODEL, MiniLM, Text

CHUNK = 128  # texts a cache file
BATCH = 16   # texts a forward pass
FORMAT = 1   # raise when what is stored changes


@dataclass(frozen=True)
class Embeddings:
    tokens: np.ndarray  # float16 [T, DIM], every row of length 1, [CLS] and [SEP] left out
    lengths: np.ndarray  # int64 [N], tokens a text
    means: np.ndarray  # float32 [N, DIM], mean pooling over all tokens, as the model was trained; of length 1

    @property
    def cu_seqlens(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.lengths)])


def kept_pieces(text: Text) -> list[int]:
    """The pieces that are stored: those that belong to a word."""
    return [i for i, word in enumerate(text.word_of) if word is not None]


def embed(model: MiniLM, texts: Sequence[Text], threads: int) -> Embeddings:
    batches = [texts[i : i + BATCH] for i in range(0, len(texts), BATCH)]
    with ThreadPoolExecutor(threads) as pool:
        states = [state for batch in pool.map(model.embed, batches) for state in batch]
    tokens = [_unit(state[kept_pieces(text)]) for state, text in zip(states, texts, strict=True)]
    return Embeddings(
        np.concatenate([np.empty((0, DIM)), *tokens]).astype(np.float16),
        np.array([len(t) for t in tokens], np.int64),
        _unit(np.array([state.mean(0) for state in states], np.float32).reshape(-1, DIM)),
    )


@dataclass(frozen=True)
class Stored:
    """Embeddings in files, one a chunk of texts."""

    paths: list[Path]
    key: str  # of texts, model and format
    computed: int  # tokens that were not there before

    def load(self) -> Embeddings:
        parts = [_read(path) for path in self.paths]
        return Embeddings(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("tokens", "lengths", "means")))

    def token_count(self) -> int:
        return sum(int(np.load(path)["lengths"].sum()) for path in self.paths)


def embed_stored(model: MiniLM, texts: Sequence[str], folder: Path, threads: int, what: str) -> Stored:
    """Embeds texts chunk by chunk into files; chunks that `folder` holds are left as they are. A file appears whole
    or not at all, so an interrupted run goes on where it stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    chunks = [texts[i : i + CHUNK] for i in range(0, len(texts), CHUNK)]
    keys = [key_of(MODEL, FORMAT, model.max_tokens, chunk) for chunk in chunks]
    paths = [folder / f"{key}.npz" for key in keys]
    missing = [(path, chunk) for path, chunk in zip(paths, chunks, strict=True) if not path.exists()]
    computed = 0
    with tqdm(total=sum(len(chunk) for _, chunk in missing), desc=what, unit=" texts", leave=False, disable=None) as bar:
        for path, chunk in missing:
            part = embed(model, model.tokenize(chunk), threads)
            _write_whole(path, part)
            computed += len(part.tokens)
            bar.update(len(chunk))
    return Stored(paths, key_of(keys), computed)


def key_of(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _write_whole(path: Path, part: Embeddings) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            np.savez(file, tokens=part.tokens, lengths=part.lengths, means=part.means)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path) -> Embeddings:
    with np.load(path) as arrays:
        return Embeddings(arrays["tokens"], arrays["lengths"], arrays["means"])


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
