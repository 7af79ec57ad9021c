"""The exact k best documents."""

import numpy as np
import pytest

import rowmax

RNG = np.random.default_rng(8)
Q = RNG.integers(-2, 3, (4, 5, 8)).astype(np.float32)
D = RNG.integers(-2, 3, (60, 6, 8)).astype(np.float32)


def best(scores, k):
    """NaN first, then the highest, then the lowest document."""
    order = np.lexsort((np.arange(scores.shape[-1])[None].repeat(len(scores), 0), -scores, ~np.isnan(scores)), axis=-1)
    index = order[:, :k]
    return np.take_along_axis(scores, index, -1), index


@pytest.mark.parametrize("chunk", [None, 1, 7, 59, 60, 1000])
@pytest.mark.parametrize("k", [1, 3, 60, 61])
def test_equals_sorting_all_scores(k, chunk):
    scores, index = rowmax.topk(Q, D, k, chunk=chunk)
    wanted_scores, wanted_index = best(rowmax.maxsim(Q, D), k)
    assert (scores.dtype, index.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(index, wanted_index)
    np.testing.assert_array_equal(scores, wanted_scores)


def test_packed_documents():
    lengths = RNG.integers(0, 7, 60)
    cu = np.concatenate([[0], np.cumsum(lengths)])
    tokens = RNG.integers(-2, 3, (cu[-1], 8)).astype(np.float32)
    scores, index = rowmax.topk(Q, tokens, 9, cu_seqlens_d=cu, chunk=8)
    all_scores = rowmax.maxsim_varlen(Q.reshape(-1, 8), tokens, np.arange(0, 21, 5), cu)
    wanted_scores, wanted_index = best(all_scores, 9)
    np.testing.assert_array_equal(index, wanted_index)
    np.testing.assert_array_equal(scores, wanted_scores)


def test_masks_and_normalize():
    q_mask, d_mask = RNG.random((4, 5)) < 0.7, RNG.random((60, 6)) < 0.7
    options = {"q_mask": q_mask, "d_mask": d_mask, "normalize": True}
    scores, index = rowmax.topk(Q, D, 5, chunk=7, **options)
    wanted_scores, wanted_index = best(rowmax.maxsim(Q, D, **options), 5)
    np.testing.assert_array_equal(index, wanted_index)
    np.testing.assert_array_equal(scores, wanted_scores)


def test_nan_comes_first_and_infinities_in_order():
    d = np.zeros((6, 1, 1), np.float32)
    d[:, 0, 0] = [1, np.nan, np.inf, -np.inf, np.nan, 2]
    scores, index = rowmax.topk(np.ones((1, 1, 1), np.float32), d, 6)
    assert index.tolist() == [[1, 4, 2, 5, 0, 3]]
    np.testing.assert_array_equal(scores, [[np.nan, np.nan, np.inf, 2, 1, -np.inf]])


def test_one_query_without_a_dimension_of_its_own():
    scores, index = rowmax.topk(Q[0], D, 3)
    np.testing.assert_array_equal(scores, rowmax.topk(Q, D, 3)[0][0])
    assert scores.shape == index.shape == (3,)


def test_nothing_to_search():
    scores, index = rowmax.topk(Q, D[:0], 5)
    assert scores.shape == index.shape == (4, 0)
    scores, index = rowmax.topk(Q[:0], D, 5)
    assert scores.shape == index.shape == (0, 5)


def test_double_scores_stay_double():
    scores, _ = rowmax.topk(Q.astype(np.float64) / 3, D.astype(np.float64), 2)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores, best(rowmax.maxsim(Q.astype(np.float64) / 3, D.astype(np.float64)), 2)[0])


@pytest.mark.parametrize("chunk", [0, 1, 7, 60])
def test_the_search_behind_a_corpus_on_a_device(chunk):
    """Here on the CPU (-1): what a GPU does with it is in tests/python_cuda."""
    mask = RNG.integers(0, 3, (4, 5)) > 0
    request = rowmax._native.Request(Q, D, "cross", {"q_mask": mask})
    scores, index = np.empty((4, 9), np.float32), np.empty((4, 9), np.int64)
    request.search(9, chunk, -1, scores, index)
    wanted_scores, wanted_index = rowmax.topk(Q, D, 9, q_mask=mask)
    np.testing.assert_array_equal(scores, wanted_scores)
    np.testing.assert_array_equal(index, wanted_index)
