"""What each compressed form keeps of the ranking, on the demo's texts and model: bytes, agreement, known-item search.

    PYTHONPATH=examples/demo compressed_quality.py [--packages 1000] [--queries 300] [--folder demo-data]

Needs what `make demo` installs. Centroids and buckets of the residual forms are made as ColBERTv2 makes them: k-means over the
tokens, and quantiles of the residuals.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import machine
import results
import rowmax
import search_quality
from debian_text import without_synopsis
from embeddings import Embeddings, embed_stored
from known_item import known_items
from minilm import MODEL, MiniLM
from texts import load_texts

Scores = np.ndarray  # [queries, documents]


def clusters_of(d: Embeddings) -> tuple[np.ndarray, np.ndarray]:
    """Spherical k-means over a quarter of the tokens: (centroids of length 1, the nearest of each token)."""
    rng = np.random.default_rng(0)
    tokens = d.tokens.astype(np.float32)
    count = 2 ** int(np.log2(16 * np.sqrt(len(tokens))))
    sample = tokens[rng.permutation(len(tokens))[: max(len(tokens) // 4, count)]]
    centroids = sample[:count].copy()
    for _ in range(4):
        nearest = nearest_of(sample, centroids)
        sums = np.zeros_like(centroids)
        np.add.at(sums, nearest, sample)
        norms = np.linalg.norm(sums, axis=-1, keepdims=True)
        centroids = np.where(norms > 0, sums / np.maximum(norms, 1e-9), centroids).astype(np.float32)
    return centroids, nearest_of(tokens, centroids)


def nearest_of(tokens: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    return np.concatenate([(part @ centroids.T).argmax(-1) for part in np.array_split(tokens, len(tokens) // 4096 + 1)])


def packed(buckets: np.ndarray, nbits: int) -> np.ndarray:
    """In ColBERT's order: values from the byte's top, each with its lowest bit first."""
    bits = (buckets[..., None] >> np.arange(nbits)) & 1
    return np.packbits(bits.reshape(len(buckets), -1).astype(np.uint8), axis=-1)


_clusters: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # made once for all nbits


def residual_scores(q: Embeddings, d: Embeddings, nbits: int) -> Scores:
    if id(d) not in _clusters:
        _clusters[id(d)] = clusters_of(d)
    centroids, codes = _clusters[id(d)]
    rest = d.tokens.astype(np.float32) - centroids[codes]
    sample = rest[::7].ravel()
    cutoffs = np.quantile(sample, np.arange(1, 2**nbits) / 2**nbits)
    weights = np.quantile(sample, (np.arange(2**nbits) + 0.5) / 2**nbits).astype(np.float32)
    residuals = packed(np.searchsorted(cutoffs, rest), nbits)
    return rowmax.maxsim_residual_varlen(
        q.tokens, codes.astype(np.int32), residuals, d.cu_seqlens, cu_seqlens_q=q.cu_seqlens, centroids=centroids,
        bucket_weights=weights, nbits=nbits,
    )  # fmt: skip


def offsets(q: Embeddings, d: Embeddings) -> dict:
    return {"cu_seqlens_q": q.cu_seqlens, "cu_seqlens_d": d.cu_seqlens}


# name -> (bytes of a token of d dimensions, scores)
FORMS: dict[str, tuple[Callable[[int], float], Callable[[Embeddings, Embeddings], Scores]]] = {
    "float16": (lambda d: 2 * d, lambda q, x: rowmax.maxsim_varlen(q.tokens, x.tokens, q.cu_seqlens, x.cu_seqlens)),
    "int8": (
        lambda d: d + 4,
        lambda q, x: rowmax.maxsim_int8(*rowmax.quantize_int8(q.tokens), *rowmax.quantize_int8(x.tokens), **offsets(q, x)),
    ),
    "float8": (
        lambda d: d + 4,
        lambda q, x: rowmax.maxsim_fp8(*rowmax.quantize_fp8(q.tokens), *rowmax.quantize_fp8(x.tokens), **offsets(q, x)),
    ),
    **{
        f"residual, {nbits} bit{'s' * (nbits > 1)}": (
            lambda d, nbits=nbits: d * nbits / 8 + 4,
            lambda q, x, nbits=nbits: residual_scores(q, x, nbits),
        )
        for nbits in (4, 2, 1)
    },
    "one bit, float queries": (
        lambda d: d / 8,
        lambda q, x: rowmax.maxsim_bits(q.tokens, rowmax.sign_bits(x.tokens), **offsets(q, x)),
    ),
    "one bit on both sides": (
        lambda d: d / 8,
        lambda q, x: rowmax.maxsim_hamming(rowmax.sign_bits(q.tokens), rowmax.sign_bits(x.tokens), **offsets(q, x)),
    ),
}


def ranks(scores: Scores) -> np.ndarray:
    """The place of every document in its query's order."""
    places = np.empty_like(scores, np.int64)
    np.put_along_axis(places, np.argsort(-scores, 1, kind="stable"), np.arange(scores.shape[1])[None], 1)
    return places


def measures(scores: Scores, exact: Scores, right: np.ndarray) -> dict:
    got, wanted = ranks(scores), ranks(exact)
    place = got[np.arange(len(right)), right]
    return {
        "spearman": round(float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(got, wanted, strict=True)])), 5),
        "top_20_overlap": round(float(((got < 20) & (wanted < 20)).sum(1).mean() / 20), 4),
        "recip_rank": round(float((1 / (place + 1)).mean()), 4),
        "ndcg_cut_10": round(float(np.where(place < 10, 1 / np.log2(place + 2), 0).mean()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=Path("demo-data"))
    args = parser.parse_args()
    source, candidates = load_texts(args.folder)
    packages = candidates[: args.packages]
    asked = known_items(packages, args.queries)
    model = MiniLM()
    d = embed_stored(model, [without_synopsis(p) for p in packages], args.folder / "cache", 2, "documents").load()
    q = embed_stored(model, [p.synopsis for p in asked], args.folder / "cache", 2, "queries").load()
    names = [p.name for p in packages]
    right = np.array([names.index(p.name) for p in asked])
    exact = rowmax.maxsim_varlen(q.tokens, d.tokens, q.cu_seqlens, d.cu_seqlens)
    date = time.strftime("%Y-%m-%d")
    stamp = {"device": machine.device(), "commit": machine.commit(), "date": date}
    corpus = {"source": source, "documents": len(d.lengths), "queries": len(q.lengths), "model": MODEL}
    lines = [{"case": "ceilings", "note": "quality, not speed: nothing of the machine was measured", **stamp}]
    for name, (token_bytes, score) in FORMS.items():
        found = measures(score(q, d), exact, right)
        lines.append({"case": "compressed", "impl": name, "bytes": token_bytes(d.tokens.shape[1]), **found, **corpus, **stamp})
        print(lines[-1])
    for line in search_quality.rows(q, d, exact, right):
        lines.append({**line, **corpus, **stamp})
    results.write(results.FOLDER / f"{machine.slug(machine.device())}-{date}-compressed.jsonl", lines)


if __name__ == "__main__":
    main()
