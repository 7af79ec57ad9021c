"""The k best tokens, smooth maxima, prefixes and XTR against their definitions."""

import numpy as np
import pytest
from arrays import TYPES, score_type
from layouts import integers, packed, padded

import rowmax

LENGTHS_Q, LENGTHS_D = (5, 0, 7, 1), (9, 0, 1, 60)


def ragged(seed=0, d=24):
    rng = np.random.default_rng(seed)
    return integers(rng, LENGTHS_Q, d), integers(rng, LENGTHS_D, d)


def everywhere(score, queries, documents, convert=lambda x: x):
    """What a function gives in every layout, each as [Nq, Nd]."""
    d = queries[0].shape[-1]
    (q, q_mask), (x, d_mask) = padded(queries, d), padded(documents, d)
    (tq, cu_q), (td, cu_d) = packed(queries, d), packed(documents, d, np.int64)
    q, x, tq, td = map(convert, (q, x, tq, td))
    yield "dense", score(q, x, q_mask=q_mask, d_mask=d_mask)
    yield "packed", score(tq, td, cu_seqlens_q=cu_q, cu_seqlens_d=cu_d)
    yield "dense and packed", score(q, td, q_mask=q_mask, cu_seqlens_d=cu_d)
    own = np.stack([x] * len(queries))
    yield "grouped", score(q, own, q_mask=q_mask, d_mask=np.stack([d_mask] * len(queries)))


def order(row):
    """Ranks of a row of similarities: NaN first, then the largest, the earliest among equals."""
    return sorted(range(len(row)), key=lambda t: (not np.isnan(row[t]), -row[t] if not np.isnan(row[t]) else 0, t))


def topk_tokens(q, x, k, mean):
    total, index = 0.0, []
    for token in q:
        row = x @ token
        best = order(row)[:k]
        index.append([*best, *[-1] * (k - len(best))])
        total += sum(row[t] for t in best) / (len(best) if mean and best else 1)
    return total, index


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("k", [1, 2, 4, 61])
def test_topk_tokens(name, k):
    make, keywords = TYPES[name]
    queries, documents = ragged()
    for reduction in ("mean", "sum"):
        wanted = [[topk_tokens(q, x, k, reduction == "mean") for x in documents] for q in queries]

        def score(*args, reduction=reduction, **options):
            return rowmax.maxsim_topk_tokens(*args, k, reduction=reduction, return_index=True, **options, **keywords)

        for layout, (scores, index) in everywhere(score, queries, documents, make):
            assert scores.dtype == score_type(name) and index.dtype == np.int32 and index.shape[-1] == k
            for i, row in enumerate(wanted):
                for j, (total, tokens) in enumerate(row):
                    np.testing.assert_allclose(scores[i, j], total, rtol=1e-6, atol=1e-5, err_msg=layout)
                    assert index[i, j, : len(tokens)].tolist() == tokens, layout
                    assert (index[i, j, len(tokens) :] == -1).all()


def smooth(q, x, temperature):
    total = 0.0
    for token in q if len(x) else ():
        row = x @ token / temperature
        total += temperature * (row.max() + np.log(np.exp(row - row.max()).sum()))
    return total


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("temperature", [0.05, 1, 30])
def test_smooth(name, temperature):
    make, keywords = TYPES[name]
    queries, documents = ragged(1)
    wanted = [[smooth(q, x, temperature) for x in documents] for q in queries]

    def score(*args, **options):
        return rowmax.maxsim_smooth(*args, temperature, **options, **keywords)

    found = dict(everywhere(score, queries, documents, make))
    for layout, scores in found.items():
        assert scores.dtype == score_type(name)
        np.testing.assert_allclose(scores, wanted, rtol=1e-12 if name == "float64" else 2e-6, err_msg=layout)
        np.testing.assert_array_equal(scores, found["dense"])


def test_smooth_approaches_the_maximum_and_keeps_far_numbers():
    queries, documents = ragged(2)
    q, x = queries[0].astype("f"), documents[3].astype("f")
    np.testing.assert_allclose(rowmax.maxsim_smooth(q, x, 1e-3), rowmax.maxsim(q, x), rtol=1e-4)
    large = np.float32(1e15)
    np.testing.assert_allclose(rowmax.maxsim_smooth(q * large, x, 1.0), rowmax.maxsim(q * large, x), rtol=1e-6)


@pytest.mark.parametrize("temperature", [1e-300, 1e-45, 1e-38, 3e38, 1e300])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_smooth_at_temperatures_that_floats_hardly_hold(temperature, dtype):
    queries, documents = ragged(2)
    q, x = queries[0].astype(dtype), documents[3].astype(dtype)
    with np.errstate(over="ignore"):
        most = (len(q) * temperature * np.log(len(x)) + rowmax.maxsim(q.astype(float), x.astype(float))).astype(dtype)
    np.testing.assert_allclose(rowmax.maxsim_smooth(q, x, temperature), most, rtol=2e-6)
    alone = rowmax.maxsim_smooth(q, x[:1], temperature)
    assert alone == rowmax.maxsim(q, x[:1]) and np.isfinite(alone)


@pytest.mark.parametrize("name", TYPES)
def test_prefixes_have_the_bits_of_maxsim(name):
    make, keywords = TYPES[name]
    rng = np.random.default_rng(3)
    q, x = make(np.round(rng.standard_normal((3, 5, 80)) * 8) / 8), make(np.round(rng.standard_normal((4, 30, 80)) * 8) / 8)
    keep = rng.random((4, 30)) < 0.7
    dims = (1, 16, 30, 64, 80)
    scores, index = rowmax.maxsim_prefixes(q, x, dims, d_mask=keep, return_index=True, **keywords)
    assert (scores.shape, index.shape) == ((5, 3, 4), (5, 3, 4, 5))
    for p, dim in enumerate(dims):
        wanted = rowmax.maxsim(q[..., :dim], x[..., :dim], d_mask=keep, return_index=True, **keywords)
        np.testing.assert_array_equal(scores[p], wanted[0])
        np.testing.assert_array_equal(index[p], wanted[1])
    assert rowmax.maxsim_prefixes(q[0], x[0], [8], **keywords).shape == (1,)


def xtr(q, documents, k, impute):
    """[(score, index)] of all documents for one query."""
    totals, indices = np.zeros(len(documents)), [[] for _ in documents]
    counts = np.zeros(len(documents))
    where = [(j, t) for j, x in enumerate(documents) for t in range(len(x))]
    tokens = np.concatenate(documents)
    for token in q:
        row = tokens @ token
        ranks = order(row)
        found = {where[r] for r in ranks[:k]}
        last = row[ranks[k - 1]] if len(ranks) >= k else None
        for j, x in enumerate(documents):
            mine = [(x @ token)[t] if (j, t) in found else -np.inf for t in range(len(x))]
            if not mine:
                indices[j].append(-1)
                counts[j] += impute
            elif max(mine) > -np.inf:
                indices[j].append(int(np.argmax(mine)))
                totals[j] += max(mine)
                counts[j] += 1
            else:
                indices[j].append(-2 if impute else -1)
                totals[j] += last if impute else 0
                counts[j] += impute
    return totals / np.maximum(counts, 1), indices


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("k", [1, 7, 20, 70, 1000])
def test_xtr(name, k):
    make, keywords = TYPES[name]
    queries, documents = ragged(4)
    for imputation in ("last", "none"):
        def score(*args, imputation=imputation, **options):
            return rowmax.maxsim_xtr(*args, k, imputation=imputation, return_index=True, **options, **keywords)

        for layout, (scores, index) in everywhere(score, queries, documents, make):
            for i, q in enumerate(queries):
                wanted, tokens = xtr(q, documents, k, imputation == "last")
                np.testing.assert_allclose(scores[i], wanted, rtol=1e-6, err_msg=layout)
                for j in range(len(documents)):
                    assert index[i, j, : len(q)].tolist() == tokens[j], (layout, imputation, i, j)


GOLDEN = [  # similarities of one query token with a document, the two best, smooth maximum at temperature 1
    ([1, 3, 3, 2], [1, 2], 3 + np.log(2 + np.exp(-2) + np.exp(-1))),
    ([2], [0, -1], 2),
    ([], [-1, -1], 0),
    ([-np.inf, -np.inf], [0, 1], -np.inf),
    ([-np.inf, 5, -np.inf], [1, 0], 5),
    ([1, np.nan, 4, np.nan], [1, 3], np.nan),
    ([np.inf, 1], [0, 1], np.inf),
    ([0.0, -0.0, 0.0], [0, 1], np.log(3)),
]


@pytest.mark.parametrize(("row", "best", "log_sum"), GOLDEN)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_golden(row, best, log_sum, dtype):
    q, x = np.ones((1, 1), dtype), np.array(row, dtype).reshape(-1, 1)
    score, index = rowmax.maxsim_topk_tokens(q, x, 2, reduction="sum", return_index=True)
    assert index[0].tolist() == best
    wanted = sum(row[t] for t in best if t >= 0)
    np.testing.assert_equal(float(score), float(wanted))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(rowmax.maxsim_smooth(q, x, 1.0), log_sum, rtol=1e-6)
    np.testing.assert_equal(float(rowmax.maxsim_prefixes(q, x, [1])[0]), float(rowmax.maxsim(q, x)))
    np.testing.assert_equal(float(rowmax.maxsim_xtr(q, x, 100)), float(rowmax.maxsim(q, x)))


def test_normalize():
    rng = np.random.default_rng(5)
    q, x = rng.standard_normal((2, 4, 9)), rng.standard_normal((3, 60, 9)) * 10 ** rng.integers(-3, 4, (3, 60, 1)).astype(float)
    unit_q, unit_x = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (q, x))
    np.testing.assert_allclose(rowmax.maxsim_topk_tokens(q, x, 3, normalize=True), rowmax.maxsim_topk_tokens(unit_q, unit_x, 3))
    np.testing.assert_allclose(rowmax.maxsim_smooth(q, x, 0.2, normalize=True), rowmax.maxsim_smooth(unit_q, unit_x, 0.2))
    np.testing.assert_allclose(rowmax.maxsim_xtr(q, x, 9, normalize=True), rowmax.maxsim_xtr(unit_q, unit_x, 9))


def test_no_bit_depends_on_threads_or_the_batch():
    rng = np.random.default_rng(6)
    q, x = rng.standard_normal((5, 33, 48)).astype("f"), rng.standard_normal((6, 200, 48)).astype("f")
    for score in (
        lambda q, x, **k: rowmax.maxsim_topk_tokens(q, x, 4, **k),
        lambda q, x, **k: rowmax.maxsim_smooth(q, x, 0.7, **k),
        lambda q, x, **k: np.moveaxis(rowmax.maxsim_prefixes(q, x, (20, 48), **k), 0, -1),
    ):
        once = score(q, x, threads=1)
        np.testing.assert_array_equal(score(q, x, threads=3), once)
        for i in (0, 4):
            for j in (0, 3):
                np.testing.assert_array_equal(score(q[i], x[j]), once[i, j])


def test_out():
    q, x = np.ones((2, 3, 4), "f"), np.ones((5, 6, 4), "f")
    out = np.empty((2, 5), "f"), np.empty((2, 5, 3, 2), np.int32)
    assert rowmax.maxsim_topk_tokens(q, x, 2, return_index=True, out=out) is out and (out[0] == 12).all()
    assert rowmax.maxsim_smooth(q, x, 1.0, out=out[0]) is out[0]


def test_errors_name_the_argument():
    q, x = np.ones((2, 3, 4), "f"), np.ones((5, 6, 4), "f")
    for error, match, call in (
        (ValueError, "k must be at least 1 .* got 0", lambda: rowmax.maxsim_topk_tokens(q, x, 0)),
        (TypeError, "k must be an integer", lambda: rowmax.maxsim_xtr(q, x, 1.5)),
        (ValueError, "reduction must be one of .* got 'max'", lambda: rowmax.maxsim_topk_tokens(q, x, 1, reduction="max")),
        (ValueError, "imputation must be one of", lambda: rowmax.maxsim_xtr(q, x, 1, imputation="zero")),
        (ValueError, "temperature must be positive and finite, got 0.0", lambda: rowmax.maxsim_smooth(q, x, 0)),
        (ValueError, r"dims must ascend .* d = 4, got \[2, 2\]", lambda: rowmax.maxsim_prefixes(q, x, (2, 2))),
        (ValueError, "dims must ascend", lambda: rowmax.maxsim_prefixes(q, x, ())),
        (TypeError, "dims must be a list of integers, got int 5", lambda: rowmax.maxsim_prefixes(q, x, 5)),
        (TypeError, "Q must be a numpy", lambda: rowmax.maxsim_prefixes(q.tolist(), x, (2,))),
        (TypeError, "temperature must be a number, got str 'x'", lambda: rowmax.maxsim_smooth(q, x, "x")),
        (ValueError, "d_mask", lambda: rowmax.maxsim_smooth(q, x, 1.0, d_mask=np.ones((2, 2)))),
        (TypeError, "Q is float32 but D is float64", lambda: rowmax.maxsim_smooth(q, x.astype(float), 1.0)),
        (ValueError, "out must have shape", lambda: rowmax.maxsim_smooth(q, x, 1.0, out=np.empty((5, 2), "f"))),
    ):
        with pytest.raises(error, match=match):
            call()
