"""Known-item search: the synopsis of a package is the query, its long description the one right answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from debian_text import Package

MIN_QUERY_WORDS = 3  # "text editor" has many right answers


def known_items(packages: Iterable[Package], count: int) -> list[Package]:
    """The packages whose synopses are asked, spread over the corpus; the same ones on every run."""
    suitable = [p for p in packages if len(p.synopsis.split()) >= MIN_QUERY_WORDS]
    return sorted(suitable, key=lambda p: hashlib.sha256(f"ask {p.name}".encode()).digest())[:count]


def write_qrels(path: Path, items: Sequence[Package]) -> None:
    path.write_text("".join(f"{item.name} 0 {item.name} 1\n" for item in items))
