"""NaN and infinities (contract 4 and 5), ties, and zeros of both signs."""

import numpy as np
import oracle
import pytest

import rowmax

NAN, INF = np.nan, np.inf


def both(q, d, **keywords):
    scores, index = rowmax.maxsim(np.float32(q), np.float32(d), return_index=True, **keywords)
    return scores.tolist(), index.tolist()


def test_the_lowest_nan_wins():
    scores, index = both([[1, 0]], [[5, 0], [NAN, 0], [9, 0], [NAN, 0]])
    assert np.isnan(scores) and index == [1]


def test_a_nan_query_token_takes_the_first_kept_token():
    scores, index = rowmax.maxsim(
        np.float32([[NAN, 0], [1, 0]]), np.float32([[1, 0], [2, 0], [3, 0]]), d_mask=[0, 1, 1], return_index=True
    )
    assert np.isnan(scores) and index.tolist() == [1, 2]


def test_infinities_pass_through():
    assert both([[1, 0]], [[1, 0], [INF, 0]]) == (INF, [1])
    assert both([[1, 0], [1, 0]], [[-INF, 0], [-INF, 0]]) == (-INF, [0, 0])


def test_minus_infinity_everywhere_picks_the_first_kept_token():
    scores, index = rowmax.maxsim(
        np.float32([[1, 1]]), np.float32([[3, 3], [-INF, 0], [-INF, 0]]), d_mask=[0, 1, 1], return_index=True
    )
    assert (float(scores), index.tolist()) == (-INF, [1])


def test_infinity_times_zero_is_nan():
    scores, index = both([[0, 1]], [[1, 1], [INF, 1]])
    assert np.isnan(scores) and index == [1]


@pytest.mark.parametrize("width", [1, 2, 5, 17, 64, 100])
def test_ties_go_to_the_lowest_token(width):
    q, d = np.ones((3, 2), np.float32), np.ones((width, 2), np.float32)
    assert both(q, d) == (6.0, [0, 0, 0])
    d[: width // 2] = 0
    assert both(q, d)[1] == [width // 2] * 3


def test_the_zeros_are_equal():
    assert both([[1, 0]], [[-0.0, -0.0], [0.0, 0.0]])[1] == [0]
    assert both([[1, 0]], [[0.0, 0.0], [-0.0, -0.0]])[1] == [0]


def test_values_beyond_half_range_do_not_overflow():
    assert both([[7e4, 0]], [[1, 0]])[0] == 7e4
    assert both([[1e30, 0]], [[1e8, 0]])[0] == np.float32(1e38)
    assert rowmax.maxsim(np.float16([[6e4, 6e4]]), np.float16([[6e4, 6e4]])) == 2 * np.float32(np.float16(6e4)) ** 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_one_bad_document_leaves_the_others_alone(dtype):
    rng = np.random.default_rng(5)
    q, d = rng.integers(-3, 4, (4, 40, 24)).astype(dtype), rng.integers(-3, 4, (9, 37, 24)).astype(dtype)
    d[4, 20, 3], d[7, 0, 0], q[2, 39, 1] = NAN, INF, -INF
    scores, index = rowmax.maxsim(q, d, return_index=True)
    for i in range(4):
        for j in range(9):
            wanted = oracle.score_item(q[i], d[j])
            assert index[i, j].tolist() == wanted.index
            np.testing.assert_array_equal(scores[i, j], wanted.score)


def test_normalize_survives_extreme_norms_and_zeros():
    big, small = 1e20, 1e-20
    q = np.float32([[3 * big, 4 * big], [3 * small, 4 * small], [0, 0]])
    d = np.float32([[0, 0], [6 * small, 8 * small], [-6 * big, -8 * big]])
    scores, index = rowmax.maxsim(q, d, normalize=True, return_index=True)
    np.testing.assert_allclose(scores, 2.0, rtol=1e-6)
    assert index.tolist() == [1, 1, 0]
