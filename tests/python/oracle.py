"""MaxSim by its definition, in numpy float64: what every test compares with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Scored(NamedTuple):
    score: float
    index: list[int]
    similarity: list[float]
    scale: float
    """sum over query tokens of |q| |winner|: what error bounds are relative to."""


def score_item(q, d, q_keep=None, d_keep=None, normalize=False) -> Scored:
    """One query [Lq, d] against one document [Ld, d]; `keep`: boolean per token."""
    q, d = np.asarray(q, np.float64), np.asarray(d, np.float64)
    kept = np.arange(len(d)) if d_keep is None else np.flatnonzero(d_keep)
    index, similarity, scale = [], [], 0.0
    for s, token in enumerate(q):
        if len(kept) == 0 or (q_keep is not None and not q_keep[s]):
            index.append(-1)
            similarity.append(0.0)
            continue
        row = similarities(token, d[kept], normalize)
        best = int(np.argmax(row))  # the first of equals, the first NaN if there is one
        index.append(int(kept[best]))
        similarity.append(float(row[best]))
        scale += 1.0 if normalize else float(np.linalg.norm(token) * np.linalg.norm(d[kept[best]]))
    return Scored(float(np.sum(similarity)), index, similarity, scale)


def similarities(token, d, normalize):
    with np.errstate(invalid="ignore", over="ignore"):
        row = d @ token
        if normalize:
            row = row * inverse_norm(d) * inverse_norm(token[None])[0]
        return row


def inverse_norm(rows):
    norm = np.sqrt((rows.astype(np.longdouble) ** 2).sum(-1))
    return np.where(norm == 0, 0, 1 / np.where(norm == 0, 1, norm)).astype(np.float64)


def score_all(queries, documents, **options) -> dict[tuple[int, int], Scored]:
    return {(i, j): score_item(q, d, **options) for i, q in enumerate(queries) for j, d in enumerate(documents)}
