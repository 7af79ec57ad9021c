"""The bits of score[i, j] depend on nothing but query i, document j and the options (contract 6)."""

import layouts
import numpy as np
import pytest
from arrays import TYPES

import rowmax

LENGTHS = (1, 15, 16, 17, 33), (1, 6, 7, 97, 180)


def items(dtype, d):
    """Random items that every type holds exactly."""
    import ml_dtypes

    rng = np.random.default_rng(11)
    exact = ml_dtypes.bfloat16 if dtype.startswith("bfloat16") else np.float16 if dtype == "float16" else np.float32
    queries, documents = ([rng.standard_normal((n, d)).astype(exact) for n in lengths] for lengths in LENGTHS)
    return [[x.astype(np.float64) for x in side] for side in (queries, documents)]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("d", [1, 20, 128, 130])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_layout_gives_the_same_bits(dtype, d, normalize):
    queries, documents = items(dtype, d)
    convert, keywords = TYPES[dtype]
    wanted = layouts.one_by_one(queries, documents, d, convert, normalize=normalize, **keywords)
    for layout in layouts.ALL:
        for threads in (1, 2):
            found = layout(queries, documents, d, convert, normalize=normalize, threads=threads, **keywords)
            assert found == wanted, layout.__name__


def test_batch_order_and_company():
    rng = np.random.default_rng(12)
    q, d = rng.standard_normal((6, 33, 128)).astype("f"), rng.standard_normal((40, 97, 128)).astype("f")
    scores = rowmax.maxsim(q, d)
    order = rng.permutation(40)
    np.testing.assert_array_equal(rowmax.maxsim(q, d[order]), scores[:, order])
    np.testing.assert_array_equal(rowmax.maxsim(q[::-1], d), scores[::-1])
    np.testing.assert_array_equal(np.concatenate([rowmax.maxsim(q, d[:7]), rowmax.maxsim(q, d[7:])], 1), scores)
    np.testing.assert_array_equal(rowmax.maxsim(q[2:3], d[5:6]), scores[2:3, 5:6])
    np.testing.assert_array_equal(rowmax.maxsim(q, d, return_index=True)[0], scores)
    for _ in range(3):
        np.testing.assert_array_equal(rowmax.maxsim(q, d), scores)


def test_a_hidden_query_token_keeps_its_position():
    """Groups of 16 positions: hiding is not the same as leaving out, but equals scoring a zero token."""
    rng = np.random.default_rng(13)
    q, d = rng.standard_normal((1, 40, 64)).astype("f"), rng.standard_normal((3, 50, 64)).astype("f")
    keep = rng.random((1, 40)) < 0.5
    zeroed = np.where(keep[..., None], q, 0)
    np.testing.assert_array_equal(rowmax.maxsim(q, d, q_mask=keep), rowmax.maxsim(zeroed, d))
