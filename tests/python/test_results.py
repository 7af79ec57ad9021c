"""out=, dtype=, threads=, kernel=: where results go and how they are computed."""

import ml_dtypes
import numpy as np
import pytest

import rowmax

RNG = np.random.default_rng(6)
Q = RNG.standard_normal((3, 7, 24)).astype(np.float32)
D = RNG.standard_normal((5, 11, 24)).astype(np.float32)
SCORES, INDEX = rowmax.maxsim(Q, D, return_index=True)


def test_out_is_filled_and_returned():
    out = np.full((3, 5), np.nan, np.float32)
    assert rowmax.maxsim(Q, D, out=out) is out
    np.testing.assert_array_equal(out, SCORES)
    pair = (np.empty_like(SCORES), np.empty_like(INDEX))
    assert rowmax.maxsim(Q, D, return_index=True, out=pair) is pair
    np.testing.assert_array_equal(pair[0], SCORES)
    np.testing.assert_array_equal(pair[1], INDEX)


def test_out_of_topk_and_of_a_scalar():
    pair = (np.empty((3, 2), np.float32), np.empty((3, 2), np.int64))
    assert rowmax.topk(Q, D, 2, out=pair) is pair
    np.testing.assert_array_equal(pair[0], rowmax.topk(Q, D, 2)[0])
    scalar = np.empty((), np.float32)
    assert rowmax.maxsim(Q[0], D[0], out=scalar) is scalar and scalar == SCORES[0, 0]


@pytest.mark.parametrize(
    ("out", "error", "texts"),
    [
        (np.empty((5, 3), np.float32), ValueError, ["[3, 5]", "[5, 3]"]),
        (np.empty(15, np.float32), ValueError, ["[3, 5]", "[15]"]),
        (np.empty((3, 5), np.float64), TypeError, ["float32", "float64"]),
        (np.empty((5, 3), np.float32).T, ValueError, ["contiguous"]),
        ([[0.0] * 5] * 3, TypeError, ["list"]),
        ((np.empty((3, 5), np.float32), None), TypeError, ["out", "tuple"]),
    ],
)
def test_out_that_does_not_fit(out, error, texts):
    with pytest.raises(error) as raised:
        rowmax.maxsim(Q, D, out=out)
    for text in texts:
        assert text in str(raised.value)


def test_out_that_cannot_be_written():
    out = np.zeros((3, 5), np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        rowmax.maxsim(Q, D, out=out)
    assert not out.any()
    with pytest.raises(ValueError, match="pair"):
        rowmax.maxsim(Q, D, return_index=True, out=np.empty((3, 5), np.float32))


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_dtype_may_repeat_what_the_arrays_are(name):
    q, d = Q.astype(name), D.astype(name)
    for dtype in (name, np.dtype(name), np.dtype(name).type):
        np.testing.assert_array_equal(rowmax.maxsim(q, d, dtype=dtype), rowmax.maxsim(q, d))


def test_three_ways_to_pass_bfloat16():
    q, d = Q.astype(ml_dtypes.bfloat16), D.astype(ml_dtypes.bfloat16)
    wanted = rowmax.maxsim(q, d)
    assert wanted.dtype == np.float32
    for dtype in ("bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)):
        np.testing.assert_array_equal(rowmax.maxsim(q.view(np.uint16), d.view(np.uint16), dtype=dtype), wanted)
        np.testing.assert_array_equal(rowmax.maxsim(q, d, dtype=dtype), wanted)
    np.testing.assert_allclose(rowmax.maxsim(q.astype(np.float32), d.astype(np.float32)), wanted, rtol=1e-6)
    half, half_index = rowmax.topk(q.view(np.uint16), d.view(np.uint16), 2, dtype="bfloat16")
    np.testing.assert_array_equal(half, rowmax.topk(q, d, 2)[0])
    np.testing.assert_array_equal(half_index, rowmax.topk(q, d, 2)[1])


@pytest.mark.parametrize("row", [k.name for k in rowmax.kernels() if k.available and k.name.endswith(".f32")])
def test_every_kernel_gives_the_same_bits(row):
    scores, index = rowmax.maxsim(Q, D, kernel=row, return_index=True)
    np.testing.assert_array_equal(scores, SCORES)
    np.testing.assert_array_equal(index, INDEX)


def test_threads_do_not_change_bits():
    for threads in (1, 2, np.int64(3), 7):
        np.testing.assert_array_equal(rowmax.maxsim(Q, D, threads=threads), SCORES)


def test_on_the_cpu_high_is_highest_and_backward_is_free():
    np.testing.assert_array_equal(rowmax.maxsim(Q, D, precision="high"), SCORES)
    for backward in ("auto", "inverse_grid", "lowmem", "recompute"):
        np.testing.assert_array_equal(rowmax.maxsim(Q, D, backward=backward), SCORES)
    np.testing.assert_array_equal(rowmax.maxsim(Q, D, backward="unified", deterministic=False), SCORES)
