"""Small integers make every product exact: scores and winners must equal the oracle's, in every layout and type."""

import layouts
import numpy as np
import oracle
import pytest
from arrays import TYPES, score_type

import rowmax

SIZES = [
    ((1,), (1,), 1),
    ((7, 3), (31, 5, 1), 3),
    ((33, 32, 1), (33, 64, 7), 16),
    ((32,), (180, 96), 128),
    ((16, 17), (17, 16, 15), 130),
    ((5,), (1030, 1), 8),
    ((1030, 2), (7,), 4),
    ((3,), (9, 2), 4096),
    ((0, 4), (5, 0), 8),
    ((0,), (0,), 2),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", layouts.ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("q_lengths", "d_lengths", "d"), SIZES, ids=str)
def test_equals_the_oracle(layout, dtype, q_lengths, d_lengths, d):
    rng = np.random.default_rng(7)
    queries, documents = layouts.integers(rng, q_lengths, d), layouts.integers(rng, d_lengths, d)
    convert, keywords = TYPES[dtype]
    found = layout(queries, documents, d, convert, **keywords)
    wanted = oracle.score_all(queries, documents)
    assert {p: (s.score, s.index) for p, s in wanted.items()} == found


@pytest.mark.parametrize("dtype", TYPES)
def test_types_and_shapes_of_results(dtype):
    convert, keywords = TYPES[dtype]
    q, x = convert(np.ones((2, 3, 4))), convert(np.ones((5, 6, 4)))
    scores, index = rowmax.maxsim(q, x, return_index=True, **keywords)
    assert isinstance(scores, np.ndarray)
    assert (scores.dtype, scores.shape) == (score_type(dtype), (2, 5))
    assert (index.dtype, index.shape) == (np.int32, (2, 5, 3))


def test_shapes_follow_the_inputs():
    q, x = np.ones((2, 3, 4), np.float32), np.ones((5, 6, 4), np.float32)
    assert rowmax.maxsim(q[0], x).shape == (5,)
    assert rowmax.maxsim(q[0], x[0]).shape == ()
    assert rowmax.maxsim(q, x[0]).shape == (2,)
    assert rowmax.maxsim(q, np.ones((2, 7, 6, 4), np.float32)).shape == (2, 7)
    assert rowmax.score_ranges(q, x[0], [0, 1, 2], [3, 3, 0]).shape == (2, 3)
    assert rowmax.maxsim(q[:0], x).shape == (0, 5)
    assert rowmax.maxsim(q, x[:0]).shape == (2, 0)


def test_max_seqlen_sets_the_width_of_the_index():
    q, x = np.ones((5, 4), np.float32), np.ones((6, 4), np.float32)
    scores, index = rowmax.maxsim_varlen(q, x, [0, 2, 5], [0, 6], max_seqlen_q=7, return_index=True)
    assert scores.tolist() == [[8.0], [12.0]]
    assert index.tolist() == [[[0, 0, -1, -1, -1, -1, -1]], [[0, 0, 0, -1, -1, -1, -1]]]


def test_repeated_and_unordered_pairs():
    rng = np.random.default_rng(1)
    queries, documents = layouts.integers(rng, (3, 4), 8), layouts.integers(rng, (5, 2, 6), 8)
    (q, cu_q), (x, cu_d) = layouts.packed(queries, 8), layouts.packed(documents, 8)
    pairs = [(1, 2), (0, 0), (1, 2), (0, 1), (1, 0)]
    scores = rowmax.score_pairs_packed(q, x, cu_q, cu_d, [i for i, _ in pairs], [j for _, j in pairs])
    wanted = oracle.score_all(queries, documents)
    assert scores.tolist() == [wanted[p].score for p in pairs]


def test_overlapping_ranges():
    rng = np.random.default_rng(2)
    (q,), (storage,) = layouts.integers(rng, (3,), 8), layouts.integers(rng, (10,), 8)
    offsets, lengths = [0, 2, 2, 9, 10], [10, 5, 1, 1, 0]
    scores = rowmax.score_ranges(q, storage, offsets, lengths)
    assert scores.tolist() == [oracle.score_item(q, storage[o : o + n]).score for o, n in zip(offsets, lengths)]
