"""Property tests: any shapes, masks and small integers, against the oracle."""

import numpy as np
import oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import rowmax

settings.register_profile("rowmax", deadline=None, max_examples=150)
settings.load_profile("rowmax")

sizes = st.integers(0, 40)
values = st.integers(-3, 3).map(float)
specials = st.sampled_from([0.0, -0.0, 1.0, -2.0, np.nan, np.inf, -np.inf])


@st.composite
def problems(draw, elements):
    nq, nd, lq, ld, d = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(sizes), draw(sizes), draw(st.integers(1, 40))
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    q = draw(arrays.arrays(dtype, (nq, lq, d), elements=elements))
    x = draw(arrays.arrays(dtype, (nd, ld, d), elements=elements))
    q_keep = draw(st.none() | arrays.arrays(bool, (nq, lq)))
    d_keep = draw(st.none() | arrays.arrays(bool, (nd, ld)))
    return q, x, q_keep, d_keep


def oracle_of(q, x, q_keep, d_keep):
    return {
        (i, j): oracle.score_item(a, b, None if q_keep is None else q_keep[i], None if d_keep is None else d_keep[j])
        for i, a in enumerate(q)
        for j, b in enumerate(x)
    }


@given(problems(values))
def test_scores_and_winners_are_exact(problem):
    q, x, q_keep, d_keep = problem
    scores, index = rowmax.maxsim(q, x, q_mask=q_keep, d_mask=d_keep, return_index=True)
    for (i, j), wanted in oracle_of(*problem).items():
        assert (scores[i, j], index[i, j].tolist()) == (wanted.score, wanted.index)


@given(problems(specials))
def test_special_values(problem):
    q, x, q_keep, d_keep = problem
    scores, index = rowmax.maxsim(q, x, q_mask=q_keep, d_mask=d_keep, return_index=True)
    for (i, j), wanted in oracle_of(*problem).items():
        np.testing.assert_array_equal(scores[i, j], wanted.score)
        assert index[i, j].tolist() == wanted.index


@given(problems(values), st.integers(1, 6), st.integers(1, 5))
def test_topk_is_a_sorted_prefix(problem, k, chunk):
    q, x, q_keep, d_keep = problem
    all_scores = rowmax.maxsim(q, x, q_mask=q_keep, d_mask=d_keep)
    scores, index = rowmax.topk(q, x, k, q_mask=q_keep, d_mask=d_keep, chunk=chunk)
    for row, best, documents in zip(all_scores, scores, index, strict=True):
        order = sorted(range(len(row)), key=lambda j: (-row[j], j))[:k]
        assert documents.tolist() == order and best.tolist() == row[order].tolist()


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=8), st.integers(0, 20))
def test_any_offsets_are_an_error_or_harmless(offsets, tokens):
    """Either they are right, or validation names them; without it nothing outside the storage is seen."""
    q, x, cu = np.ones((2, 3), np.float32), np.ones((tokens, 3), np.float32), np.array(offsets)
    right = offsets[0] == 0 and all(a <= b for a, b in zip(offsets, offsets[1:])) and offsets[-1] <= tokens
    try:
        rowmax.maxsim_varlen(q, x, [0, 2], cu)
        assert right
    except ValueError as error:
        assert not right and "cu_seqlens_d" in str(error)
    scores = rowmax.maxsim_varlen(q, x, [0, 2], cu, validate=False)
    assert np.isin(scores, [0, 6]).all()


@given(st.data())
def test_inverse_grid_inverts(data):
    n = data.draw(st.integers(0, 10))
    index = data.draw(arrays.arrays(np.int64, st.integers(0, 60), elements=st.integers(-1, n - 1)))
    row_ptr, source = rowmax.inverse_grid(index, n)
    assert row_ptr[0] == 0 and row_ptr[-1] == (index >= 0).sum() and (source[row_ptr[-1] :] == -1).all()
    for destination in range(n):
        chose = source[row_ptr[destination] : row_ptr[destination + 1]]
        np.testing.assert_array_equal(chose, np.flatnonzero(index == destination))
