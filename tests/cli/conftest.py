"""The rowmax command, run as a user runs it."""

import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def binary():
    path = pathlib.Path(os.environ.get("ROWMAX_BINARY", ROOT / "build/release/cli/rowmax"))
    if not path.exists():
        pytest.fail(f"{path} is not there: build it, or name it in ROWMAX_BINARY")
    return str(path)


def clean_environment(**extra):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROWMAX_")}
    return {**kept, **extra}


@pytest.fixture(scope="session")
def rowmax(binary):
    """rowmax(arguments..., code=expected exit code) -> CompletedProcess with text in stdout and stderr."""

    def run(*arguments, code=0, text=True, env=None, **options):
        done = subprocess.run(
            [binary, *map(str, arguments)],
            capture_output=True,
            text=text,
            env=clean_environment(**(env or {})),
            timeout=300,
            **options,
        )
        assert done.returncode == code, f"exit code {done.returncode}, not {code}: {done.stderr}"
        return done

    return run


@pytest.fixture
def rng():
    return np.random.default_rng(7)


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
