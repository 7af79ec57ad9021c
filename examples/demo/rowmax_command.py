"""The rowmax command, as the demo uses it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Hit:
    document: str
    score: float


class Rowmax:
    def __init__(self, program: str) -> None:
        self._program = program

    def pack(self, tokens: np.ndarray, lengths: np.ndarray, ids: Sequence[str], path: Path) -> None:
        source = path.with_suffix(f".{os.getpid()}.npz")
        try:
            write_tokens(source, tokens, lengths, ids)
            self._run("pack", source, "-o", path)
        finally:
            source.unlink(missing_ok=True)

    def search(self, queries: Path, corpus: Path, k: int, run: Path) -> None:
        self._run("search", queries, corpus, "-k", k, "--no-checkpoint", "-o", run)

    def evaluate(self, qrels: Path, run: Path, measures: Sequence[str]) -> dict[str, dict[str, float]]:
        """Query -> measure -> value; the means are under "mean"."""
        found = json.loads(self._run("eval", qrels, run, "-m", ",".join(measures), "-q", "-c", "--json"))
        return {"mean": found["mean"], **found["queries"]}

    def explain(self, queries: Path, corpus: Path, query: str, document: str) -> dict:
        return json.loads(self._run("explain", queries, corpus, "--query", query, "--document", document, "--json"))

    def draw(self, queries: Path, corpus: Path, query: str, document: str, *extra: object) -> None:
        self._run("explain", queries, corpus, "--query", query, "--document", document, *extra)

    def version(self) -> str:
        return self._run("--version").strip()

    def _run(self, *arguments: object) -> str:
        if shutil.which(self._program) is None:
            raise SystemExit(f"{self._program} is not built; `make demo` builds it, --rowmax names another")
        command = [self._program, *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # its progress is the demo's
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}")
        return done.stdout


def write_tokens(path: Path, tokens: np.ndarray, lengths: np.ndarray, ids: Sequence[str]) -> None:
    cu_seqlens = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    np.savez(path, tokens=tokens, cu_seqlens=cu_seqlens, ids=np.array(ids, np.str_))


def read_run(path: Path) -> dict[str, list[Hit]]:
    run: dict[str, list[Hit]] = {}
    for line in path.read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        run.setdefault(query, []).append(Hit(document, float(score)))
    return run
