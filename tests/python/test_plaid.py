"""PLAID's approximate scores, by their definition."""

import numpy as np
import pytest

import rowmax

RNG = np.random.default_rng(12)


def by_definition(table, codes, lengths):
    return [table[c[:n]].max(0).astype(np.float64).sum() if n else 0.0 for c, n in zip(codes, lengths, strict=True)]


@pytest.mark.parametrize("code_type", [np.int32, np.int64])
@pytest.mark.parametrize(("lq", "ld", "documents"), [(1, 1, 1), (32, 70, 100), (17, 9, 33), (0, 3, 2), (5, 0, 4)])
def test_by_definition(lq, ld, documents, code_type):
    table = RNG.standard_normal((300, lq)).astype(np.float32)
    codes = RNG.integers(0, 300, (documents, ld)).astype(code_type)
    lengths = RNG.integers(0, ld + 1, documents).astype(code_type)
    got = rowmax.plaid_approx_score(table, codes, lengths)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, by_definition(table, codes, lengths), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(got, rowmax.plaid_approx_score(table, codes, lengths, threads=1))
    views = np.asfortranarray(table), np.repeat(codes, 2, axis=1)[:, ::2], lengths.tolist()
    np.testing.assert_array_equal(got, rowmax.plaid_approx_score(*views))
    half = table.astype(np.float16)
    np.testing.assert_array_equal(
        rowmax.plaid_approx_score(half, codes, lengths), rowmax.plaid_approx_score(half.astype(np.float32), codes, lengths)
    )


def test_it_is_maxsim_of_the_centroids():
    q, centroids = RNG.integers(-3, 4, (33, 16)).astype(np.float32), RNG.integers(-3, 4, (40, 16)).astype(np.float32)
    codes = RNG.integers(0, 40, (5, 12)).astype(np.int32)
    got = rowmax.plaid_approx_score(centroids @ q.T, codes, np.full(5, 12))
    np.testing.assert_array_equal(got, rowmax.maxsim(q, centroids[codes]))


def test_nan_wins():
    table = np.array([[1, 2], [np.nan, 0], [3, -np.inf]], np.float32)
    got = rowmax.plaid_approx_score(table, np.array([[0, 2], [0, 1], [2, 2], [1, 1]]), np.array([2, 2, 1, 0]))
    np.testing.assert_array_equal(got, np.array([5, np.nan, -np.inf, 0], np.float32))


def test_codes_and_lengths_that_lie():
    table = RNG.standard_normal((7, 3)).astype(np.float32)
    codes = np.array([[0, 9], [-1, 2]])
    with pytest.raises(ValueError, match=r"codes\[0, 1\] is 9, but there are 7 centroids"):
        rowmax.plaid_approx_score(table, codes, [2, 2])
    with pytest.raises(ValueError, match=r"doc_lengths\[1\] is 3, but codes \[2, 2\] hold 2 tokens"):
        rowmax.plaid_approx_score(table, codes, [1, 3])
    np.testing.assert_array_equal(
        rowmax.plaid_approx_score(table, codes, [2, 3], validate=False),
        rowmax.plaid_approx_score(table, np.clip(codes, 0, 6), [2, 2]),
    )
    rowmax.plaid_approx_score(table, codes, [1, 0])  # the rest is padding


def test_what_does_not_fit_is_named():
    table, codes, lengths = np.zeros((7, 3), np.float32), np.zeros((4, 5), np.int32), np.full(4, 5)
    bits = (table.view(np.uint32) >> 16).astype(np.uint16)
    assert rowmax.plaid_approx_score(bits, codes, lengths, dtype="bfloat16").tolist() == [0] * 4
    for call, error, text in [
        ((table, codes, None), TypeError, "doc_lengths must be int32 or int64, got None"),
        ((table, codes.tolist(), lengths), TypeError, "codes must be a numpy, torch, CuPy or JAX array"),
        ((table.astype(np.float64), codes, lengths), TypeError, "centroid_scores must be float32.*got float64"),
        ((table[0], codes, lengths), ValueError, r"centroid_scores must be \[C, Lq\], got \[3\]"),
        ((table, codes.astype(np.uint8), lengths), TypeError, "codes must be int32 or int64, got uint8"),
        ((table, codes[0], lengths), ValueError, r"codes must be \[B, Ld\], got \[5\]"),
        ((table, codes, lengths[:3]), ValueError, r"doc_lengths has 3 lengths, but codes \[4, 5\] hold 4 documents"),
        ((table[:0], codes, lengths), ValueError, "there are 0 centroids"),
    ]:
        with pytest.raises(error, match=text):
            rowmax.plaid_approx_score(*call)
