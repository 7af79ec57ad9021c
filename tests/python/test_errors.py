"""Errors name the argument and both values, and come before anything is written."""

import numpy as np
import pytest

import rowmax

Q = np.ones((2, 3, 8), np.float32)
D = np.ones((4, 5, 8), np.float32)


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda: rowmax.maxsim(Q, D[..., :7]), ["8", "7", "D"]),
        (lambda: rowmax.maxsim(Q, D[0, 0]), ["D", "[8]"]),
        (lambda: rowmax.maxsim(Q[None], D), ["Q", "[1, 2, 3, 8]"]),
        (lambda: rowmax.maxsim(Q, np.ones((3, 4, 5, 8), np.float32)), ["3", "2"]),
        (lambda: rowmax.maxsim(Q, np.ones((1, 2, 4, 5, 8), np.float32)), ["D", "5 dimensions"]),
        (lambda: rowmax.maxsim(Q[..., :0], D[..., :0]), ["4096", "0"]),
        (lambda: rowmax.maxsim(np.ones((1, 4097), "f"), np.ones((1, 4097), "f")), ["4096", "4097"]),
        (lambda: rowmax.maxsim_pairs(Q, D), ["2", "4"]),
        (lambda: rowmax.maxsim(Q, D, precision="medium"), ["precision", "'highest', 'high'", "medium"]),
        (lambda: rowmax.maxsim(Q, D, backward="atomic"), ["backward", "'inverse_grid', 'lowmem', 'unified'", "atomic"]),
        (lambda: rowmax.maxsim(Q, D, backward="unified"), ["unified", "deterministic=False"]),
        (lambda: rowmax.maxsim(Q, D, threads=-1), ["threads", "-1"]),
        (lambda: rowmax.maxsim(Q, D, kernel="cpu.abacus"), ["cpu.abacus"]),
        (lambda: rowmax.topk(Q, D, 0), ["k", "0"]),
        (lambda: rowmax.topk(Q, D, -3), ["k", "-3"]),
        (lambda: rowmax.topk(Q, D, 1, chunk=-2), ["chunk", "-2"]),
    ],
)
def test_value_errors(call, texts):
    with pytest.raises(ValueError) as raised:
        call()
    for text in texts:
        assert text in str(raised.value)


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda: rowmax.maxsim(Q, D.astype(np.float64)), ["float32", "float64"]),
        (lambda: rowmax.maxsim(Q.astype(np.int32), D.astype(np.int32)), ["Q", "int32"]),
        (lambda: rowmax.maxsim(Q.astype(np.complex64), D), ["Q", "complex64"]),
        (lambda: rowmax.maxsim(Q.astype(np.longdouble), D), ["Q", "float128"]),
        (lambda: rowmax.maxsim(Q.astype(np.uint16), D.astype(np.uint16)), ["Q", "uint16", "bfloat16"]),
        (lambda: rowmax.maxsim(Q, D, dtype="bfloat16"), ["Q", "float32", "bfloat16"]),
        (lambda: rowmax.maxsim(Q, D, dtype="floaty"), ["floaty"]),
        (lambda: rowmax.maxsim(Q.tolist(), D), ["Q", "list"]),
        (lambda: rowmax.maxsim(Q, None), ["D", "NoneType"]),
        (lambda: rowmax.maxsim(Q, D, threads="two"), ["str"]),
        (lambda: rowmax.topk(Q, D, 1.5), ["float"]),
        (lambda: rowmax.maxsim(Q, D, nonsense=1), ["nonsense"]),
        (lambda: rowmax.maxsim_varlen(Q[0], D[0], np.float32([0, 3]), [0, 5]), ["cu_seqlens_q", "float32"]),
        (lambda: rowmax.maxsim_varlen(Q[0], D[0], [0, 3], np.uint32([0, 5])), ["cu_seqlens_d", "uint32"]),
        (lambda: rowmax.inverse_grid(np.float32([0.0]), 1), ["index", "float32"]),
    ],
)
def test_type_errors(call, texts):
    with pytest.raises(TypeError) as raised:
        call()
    for text in texts:
        assert text in str(raised.value)


LIES = [
    ([1, 3], "0"),
    ([0, 9], "9"),
    ([0, 3, 2, 5], "2 after 3"),
    ([0, -1, 5], "-1"),
    ([0, 2**40], str(2**40)),
    ([0, -(2**60), 2**60], str(-(2**60))),
    ([], "empty"),
    ([[0, 5]], "[1, 2]"),
]


@pytest.mark.parametrize(("offsets", "text"), LIES, ids=str)
def test_offsets_that_lie(offsets, text):
    lie = np.array(offsets, np.int64)
    with pytest.raises(ValueError, match="cu_seqlens_d") as raised:
        rowmax.maxsim_varlen(Q[0], D[0], [0, 3], lie)
    assert text in str(raised.value)
    with pytest.raises(ValueError, match="cu_seqlens_d"):
        rowmax.topk(Q, D[0], 1, cu_seqlens_d=lie)


@pytest.mark.parametrize("lie", [lie for lie, _ in LIES if np.ndim(lie) == 1 and lie], ids=str)
def test_unvalidated_lies_read_nothing_outside(lie):
    """Whatever the offsets say, only tokens of the storage are seen: all ones here, 8 a token."""
    scores, index = rowmax.maxsim_varlen(
        Q[0], D[0], [0, 3], np.array(lie, np.int64), validate=False, return_index=True
    )
    assert np.isin(scores, [0, 24]).all() and (index >= -1).all() and (index < 5).all()


@pytest.mark.parametrize(
    ("offsets", "lengths"),
    [([-1], [2]), ([4], [2]), ([6], [0]), ([0], [-1]), ([2**62], [2**62]), ([0, 1], [1])],
)
def test_ranges_that_lie(offsets, lengths):
    with pytest.raises(ValueError, match="offsets"):
        rowmax.score_ranges(Q[0], D[0], offsets, lengths)
    if len(offsets) == len(lengths):
        scores = rowmax.score_ranges(Q[0], D[0], offsets, lengths, validate=False)
        assert np.isin(scores, [0, 24]).all()


@pytest.mark.parametrize(("pair_q", "pair_d", "name"), [([2], [0], "pair_q"), ([0], [-1], "pair_d"), ([0], [0, 0], "pair_q")])
def test_pairs_that_lie(pair_q, pair_d, name):
    arguments = (np.ones((6, 8), "f"), np.ones((5, 8), "f"), [0, 3, 6], [0, 5], pair_q, pair_d)
    with pytest.raises(ValueError, match=name):
        rowmax.score_pairs_packed(*arguments)
    if len(pair_q) == len(pair_d):
        assert rowmax.score_pairs_packed(*arguments, validate=False).tolist() == [24]


def test_max_seqlen_too_small_is_an_error():
    arguments = (Q[0], D[0], [0, 3], [0, 5])
    with pytest.raises(ValueError, match="max_seqlen_q is 2"):
        rowmax.maxsim_varlen(*arguments, max_seqlen_q=2)
    with pytest.raises(ValueError, match="max_seqlen_d is 4"):
        rowmax.maxsim_varlen(*arguments, max_seqlen_d=4)
    assert rowmax.maxsim_varlen(*arguments, max_seqlen_q=np.int64(3), max_seqlen_d=5).tolist() == [[24]]
