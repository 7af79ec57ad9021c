"""Searches that score few documents: what they find of the ranking of all. Rows of compressed_quality.py."""

import tempfile
from collections.abc import Callable

import numpy as np

import rowmax
from embeddings import Embeddings

K = 20
Lists = np.ndarray  # [queries, K]: document numbers, best first; -1 where nothing was found


def each_query(q: Embeddings) -> list[np.ndarray]:
    return [q.tokens[a:b] for a, b in zip(q.cu_seqlens[:-1], q.cu_seqlens[1:], strict=True)]


def two_stage(q: Embeddings, d: Embeddings, coarse, candidates: int) -> Lists:
    documents = (d.tokens, coarse)
    return np.stack([
        rowmax.topk_two_stage(x, documents, K, candidates=candidates, cu_seqlens_d=d.cu_seqlens)[1] for x in each_query(q)
    ])  # fmt: skip


def plaid(q: Embeddings, index: rowmax.PlaidIndex, nprobe: int, candidates: int) -> Lists:
    return rowmax.plaid_search(q.tokens, index, K, nprobe=nprobe, candidates=candidates, cu_seqlens_q=q.cu_seqlens)[1]


def measures(lists: Lists, all_of_form: Lists, exact: Lists, right: np.ndarray) -> dict:
    """`all_of_form`: the lists when every document of that form is scored; `exact`: of float16 tokens."""

    def share(wanted: Lists) -> float:
        return float(np.mean([len(set(a.tolist()) & set(b.tolist())) / K for a, b in zip(lists, wanted, strict=True)]))

    hit = lists == right[:, None]
    place = np.where(hit.any(1), hit.argmax(1), K)
    return {
        "recall_of_exhaustive": round(share(all_of_form), 4),
        "top_20_overlap": round(share(exact), 4),
        "recip_rank": round(float(np.where(place < K, 1 / (place + 1), 0).mean()), 4),
        "ndcg_cut_10": round(float(np.where(place < 10, 1 / np.log2(place + 2), 0).mean()), 4),
    }


def rows(q: Embeddings, d: Embeddings, exact_scores: np.ndarray, right: np.ndarray) -> list[dict]:
    exact = np.argsort(-exact_scores, 1, kind="stable")[:, :K]
    lines = []

    def add(name: str, candidates: int, nprobe: int | None, find: Callable[[], Lists], all_of_form: Lists) -> None:
        found = measures(find(), all_of_form, exact, right)
        lines.append({"case": "search", "impl": name, "nprobe": nprobe, "candidates": candidates, **found})
        print(lines[-1])

    for name, coarse in (("int8, then exact", rowmax.quantize_int8(d.tokens)), ("one bit, then exact", rowmax.sign_bits(d.tokens))):
        for candidates in (20, 50, 100):
            add(name, candidates, None, lambda: two_stage(q, d, coarse, candidates), exact)  # noqa: B023
    with tempfile.TemporaryDirectory() as folder:
        for nbits in (4, 2):
            index = rowmax.PlaidIndex.pack(f"{folder}/{nbits}", (d.tokens, d.cu_seqlens), nbits=nbits)
            every = plaid(q, index, len(index.centroids), len(index))
            for nprobe, candidates in ((1, 20), (1, 100), (4, 20), (4, 100), (8, 100), (len(index.centroids), 1000)):
                add(f"PLAID, {nbits} bits", candidates, nprobe, lambda: plaid(q, index, nprobe, candidates), every)  # noqa: B023
    return lines
