"""What the tests of the command share: its environment, the oracle, and readers of what it prints."""

import json
import os

import numpy as np

PLAID_BITS = 4


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


def unpacked(residuals, dim):
    """ColBERTv2's order: values from the byte's top, each with its lowest bit first."""
    bits = np.unpackbits(residuals, axis=-1).reshape(len(residuals), dim, PLAID_BITS)
    return (bits << np.arange(PLAID_BITS, dtype=np.uint8)).sum(-1)


def write_plaid_index(folder, rng, chunks, code_type=np.int64, float_type=np.float16, dim=16):
    """A folder as fast-plaid writes it; its documents as they decode."""
    folder.mkdir()
    centroids = rng.standard_normal((30, dim)).astype(float_type)
    weights = np.sort(rng.standard_normal(2**PLAID_BITS) / 4).astype(np.float32)
    np.save(folder / "centroids.npy", centroids)
    np.save(folder / "bucket_weights.npy", weights)
    np.save(folder / "bucket_cutoffs.npy", weights[1:])
    documents = []
    for i, lengths in enumerate(chunks):
        codes = rng.integers(0, 30, sum(lengths)).astype(code_type)
        residuals = rng.integers(0, 256, (sum(lengths), dim * PLAID_BITS // 8)).astype(np.uint8)
        np.save(folder / f"{i}.codes.npy", codes)
        np.save(folder / f"{i}.residuals.npy", residuals)
        (folder / f"doclens.{i}.json").write_text(json.dumps(lengths))
        (folder / f"{i}.metadata.json").write_text("{}")
        tokens = centroids.astype(np.float32)[codes] + weights[unpacked(residuals, dim)]
        tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
        documents += np.split(tokens, np.cumsum(lengths)[:-1]) if lengths else []
    metadata = {"num_chunks": len(chunks), "nbits": PLAID_BITS, "num_partitions": 30, "num_documents": len(documents)}
    (folder / "metadata.json").write_text(json.dumps(metadata))
    return documents
