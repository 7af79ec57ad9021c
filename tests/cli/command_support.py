"""What the tests of the command share: its environment, the oracle, and readers of what it prints."""

import os

import numpy as np


def clean_environment(**extra):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROWMAX_")}
    return {**kept, **extra}


def maxsim(q, d):
    """The definition, in double precision: [Nq, Lq, d] x [Nd, Ld, d] -> [Nq, Nd]."""
    similarity = np.einsum("isk,jtk->ijst", q.astype(np.float64), d.astype(np.float64))
    return similarity.max(axis=3).sum(axis=2)


def small_integers(rng, *shape, dtype=np.float32):
    """Values whose products and sums are exact, so that scores can be compared with ==."""
    return rng.integers(-3, 4, size=shape).astype(dtype)


def ranking(scores):
    """Document numbers, best first; equal scores: lowest number first."""
    return np.argsort(-scores, axis=1, kind="stable")


def read_trec(text):
    """{query: [(document, score)]} in the order of the file, after checking ranks and columns."""
    run = {}
    for line in text.splitlines():
        query, q0, document, rank, score, _ = line.split()
        assert q0 == "Q0"
        run.setdefault(query, []).append((document, float(score)))
        assert int(rank) == len(run[query])
    return run
