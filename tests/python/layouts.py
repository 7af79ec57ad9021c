"""The same ragged items, scored through every layout of the API.

A layout takes lists of token arrays (numpy, float64) and gives {(query, document): (score, index)} for the pairs it
scored; what a padded layout adds is poison that its masks hide.
"""

from __future__ import annotations

import numpy as np

import rowmax

POISON = 99.0


def integers(rng, lengths, d, low=-3, high=3):
    """Small integers make every product and sum exact."""
    return [rng.integers(low, high + 1, (n, d)).astype(np.float64) for n in lengths]


def padded(items, d, extra=2):
    """[N, L + extra, d] with poison behind every item, and the mask that hides it."""
    length = max((len(item) for item in items), default=0) + extra
    tokens = np.full((len(items), length, d), POISON)
    mask = np.zeros((len(items), length), bool)
    for i, item in enumerate(items):
        tokens[i, : len(item)] = item
        mask[i, : len(item)] = True
    return tokens, mask


def packed(items, d, dtype=np.int32):
    cu_seqlens = np.concatenate([[0], np.cumsum([len(item) for item in items])]).astype(dtype)
    return np.concatenate([*items, np.empty((0, d))]), cu_seqlens


def fetched(array):
    """As numpy, from a GPU too."""
    for fetch in ("cpu", "get"):  # torch, CuPy
        if hasattr(array, fetch):
            return np.asarray(getattr(array, fetch)())
    return np.asarray(array)


def collect(queries, pairs, scores, index):
    """{pair: (score, index of the query's own tokens)}"""
    scores, index = fetched(scores), fetched(index)
    rows = zip(pairs, scores.reshape(-1), index.reshape(len(pairs), index.shape[-1]), strict=True)
    return {(i, j): (score, row[: len(queries[i])].tolist()) for (i, j), score, row in rows}


def every_pair(queries, documents):
    return [(i, j) for i in range(len(queries)) for j in range(len(documents))]


def dense(queries, documents, d, convert, **options):
    (q, q_mask), (x, d_mask) = padded(queries, d), padded(documents, d)
    result = rowmax.maxsim(convert(q), convert(x), q_mask=q_mask, d_mask=d_mask, return_index=True, **options)
    return collect(queries, every_pair(queries, documents), *result)


def one_by_one(queries, documents, d, convert, **options):
    found = {}
    for i, j in every_pair(queries, documents):
        result = rowmax.maxsim(convert(queries[i]), convert(documents[j]), return_index=True, **options)
        (found[i, j],) = collect([queries[i]], [(0, 0)], *result).values()
    return found


def one_query(queries, documents, d, convert, **options):
    x, d_mask = padded(documents, d)
    found = {}
    for i, q in enumerate(queries):
        result = rowmax.maxsim(convert(q), convert(x), d_mask=d_mask, return_index=True, **options)
        rows = collect([q], every_pair([q], documents), *result)
        found |= {(i, j): row for (_, j), row in rows.items()}
    return found


def grouped(queries, documents, d, convert, **options):
    """Every query's candidates: all documents, starting at its own number."""
    order = [[(i + k) % len(documents) for k in range(len(documents))] for i in range(len(queries))]
    (q, q_mask), (x, d_mask) = padded(queries, d), padded(documents, d)
    candidates, candidate_mask = x[order], d_mask[order]
    result = rowmax.maxsim(
        convert(q), convert(candidates), q_mask=q_mask, d_mask=candidate_mask, return_index=True, **options
    )
    return collect(queries, [(i, j) for i, row in enumerate(order) for j in row], *result)


def pairs(queries, documents, d, convert, **options):
    wanted = every_pair(queries, documents)
    q, q_mask = padded([queries[i] for i, _ in wanted], d)
    x, d_mask = padded([documents[j] for _, j in wanted], d)
    result = rowmax.maxsim_pairs(convert(q), convert(x), q_mask=q_mask, d_mask=d_mask, return_index=True, **options)
    return collect(queries, wanted, *result)


def varlen(queries, documents, d, convert, **options):
    (q, cu_q), (x, cu_d) = packed(queries, d, np.int32), packed(documents, d, np.int64)
    result = rowmax.maxsim_varlen(convert(q), convert(x), cu_q, cu_d, return_index=True, **options)
    return collect(queries, every_pair(queries, documents), *result)


def pairs_packed(queries, documents, d, convert, **options):
    wanted = every_pair(queries, documents)[::-1]
    (q, cu_q), (x, cu_d) = packed(queries, d), packed(documents, d)
    pair_q, pair_d = np.array(wanted, np.int64).reshape(-1, 2).T
    result = rowmax.score_pairs_packed(
        convert(q), convert(x), cu_q, cu_d, pair_q, pair_d.astype(np.int32), return_index=True, **options
    )
    return collect(queries, wanted, *result)


def ranges(queries, documents, d, convert, **options):
    """Documents in reverse order, with rows between them that belong to none."""
    gap = np.full((3, d), POISON)
    storage, offsets = [gap], {}
    for j in reversed(range(len(documents))):
        offsets[j] = sum(map(len, storage))
        storage += [documents[j], gap]
    starts = np.array([offsets[j] for j in range(len(documents))], np.int64)
    lengths = np.array([len(x) for x in documents], np.int32)
    tokens, found = convert(np.concatenate(storage)), {}
    for i, q in enumerate(queries):
        result = rowmax.score_ranges(convert(q), tokens, starts, lengths, return_index=True, **options)
        rows = collect([q], every_pair([q], documents), *result)
        found |= {(i, j): row for (_, j), row in rows.items()}
    return found


ALL = [dense, one_by_one, one_query, grouped, pairs, varlen, pairs_packed, ranges]
