"""Masks of any pattern, type and library; tokens that see nothing."""

import ml_dtypes
import numpy as np
import oracle
import pytest

import rowmax

RNG = np.random.default_rng(3)
Q = RNG.integers(-3, 4, (3, 9, 8)).astype(np.float32)
D = RNG.integers(-3, 4, (4, 11, 8)).astype(np.float32)
Q_KEEP = RNG.random((3, 9)) < 0.6
D_KEEP = RNG.random((4, 11)) < 0.6
D_KEEP[2] = False

MASK_TYPES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
    ml_dtypes.bfloat16,
]  # fmt: skip


def expected(q_keep=None, d_keep=None):
    rows = [
        [oracle.score_item(q, d, None if q_keep is None else q_keep[i], None if d_keep is None else d_keep[j])
         for j, d in enumerate(D)]
        for i, q in enumerate(Q)
    ]  # fmt: skip
    return [[r.score for r in row] for row in rows], [[r.index for r in row] for row in rows]


def check(result, **keep):
    scores, index = expected(**keep)
    assert result[0].tolist() == scores
    assert result[1].tolist() == index


@pytest.mark.parametrize("kind", MASK_TYPES, ids=str)
def test_holes_on_both_sides(kind):
    """Any non-zero keeps: -1 and 0.5 as well as 1."""
    value = -1 if np.dtype(kind).kind == "i" else 0.5 if np.dtype(kind).kind in "fV" else 1
    q_mask, d_mask = (np.where(keep, value, 0).astype(kind) for keep in (Q_KEEP, D_KEEP))
    check(rowmax.maxsim(Q, D, q_mask=q_mask, d_mask=d_mask, return_index=True), q_keep=Q_KEEP, d_keep=D_KEEP)


def test_minus_zero_hides_and_a_low_byte_keeps():
    mask = np.where(D_KEEP, 256, 0)
    check(rowmax.maxsim(Q, D, d_mask=mask, return_index=True), d_keep=D_KEEP)
    for kind in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16):
        mask = np.where(D_KEEP, 1.0, -0.0).astype(kind)
        check(rowmax.maxsim(Q, D, d_mask=mask, return_index=True), d_keep=D_KEEP)


def test_a_leading_one_serves_every_item():
    check(rowmax.maxsim(Q, D, d_mask=D_KEEP[:1], return_index=True), d_keep=D_KEEP[[0, 0, 0, 0]])
    check(rowmax.maxsim(Q, D, q_mask=Q_KEEP[1:2], return_index=True), q_keep=Q_KEEP[[1, 1, 1]])


def test_masks_as_strided_views_and_lists():
    wide = np.zeros((4, 33), np.int16)
    wide[:, ::3] = D_KEEP
    check(rowmax.maxsim(Q, D, d_mask=wide[:, ::3], return_index=True), d_keep=D_KEEP)
    backwards = np.ascontiguousarray(D_KEEP[:, ::-1])[:, ::-1]
    check(rowmax.maxsim(Q, D, d_mask=backwards, return_index=True), d_keep=D_KEEP)
    check(rowmax.maxsim(Q, D, d_mask=D_KEEP.tolist(), return_index=True), d_keep=D_KEEP)
    check(rowmax.maxsim(Q, D, d_mask=np.asfortranarray(D_KEEP), return_index=True), d_keep=D_KEEP)


def test_grouped_masks():
    candidates, keep = np.stack([D, D[::-1], D]), np.stack([D_KEEP, D_KEEP[::-1], D_KEEP])
    scores, index = rowmax.maxsim(Q, candidates, q_mask=Q_KEEP, d_mask=keep, return_index=True)
    wanted_scores, wanted_index = expected(Q_KEEP, D_KEEP)
    assert scores.tolist() == [wanted_scores[0], wanted_scores[1][::-1], wanted_scores[2]]
    assert index.tolist() == [wanted_index[0], wanted_index[1][::-1], wanted_index[2]]


def test_pairs_and_ranges_take_masks():
    scores = rowmax.maxsim_pairs(Q, D[:3], q_mask=Q_KEEP, d_mask=D_KEEP[:3])
    wanted, _ = expected(Q_KEEP, D_KEEP)
    assert scores.tolist() == [wanted[i][i] for i in range(3)]
    scores = rowmax.score_ranges(Q[0], D[0], [0, 4], [11, 3], q_mask=Q_KEEP[0])
    assert scores.tolist() == [oracle.score_item(Q[0], d, Q_KEEP[0]).score for d in (D[0], D[0][4:7])]


def test_what_sees_nothing_adds_nothing():
    scores, index = rowmax.maxsim(Q, D[:, :0], return_index=True)
    assert not scores.any() and (index == -1).all()
    scores, index = rowmax.maxsim(Q, D, d_mask=np.zeros((1, 11), bool), return_index=True)
    assert not scores.any() and (index == -1).all()
    scores, index = rowmax.maxsim(Q, D, q_mask=np.zeros((1, 9), bool), return_index=True)
    assert not scores.any() and (index == -1).all()


def test_hidden_values_do_not_matter():
    q, d = Q.copy(), D.copy()
    q[~Q_KEEP], d[~D_KEEP] = np.nan, np.inf
    check(rowmax.maxsim(q, d, q_mask=Q_KEEP, d_mask=D_KEEP, return_index=True), q_keep=Q_KEEP, d_keep=D_KEEP)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("d_mask", (3, 11)), ("d_mask", (4, 1)), ("d_mask", (11,)), ("d_mask", (4, 11, 1)), ("d_mask", (4, 12)),
     ("q_mask", (4, 9)), ("q_mask", (9, 3)), ("q_mask", ())],
)  # fmt: skip
def test_mismatch_names_the_mask_and_both_shapes(name, shape):
    tokens = D if name == "d_mask" else Q
    with pytest.raises(ValueError, match=name) as raised:
        rowmax.maxsim(Q, D, **{name: np.ones(shape, bool)})
    assert str(list(shape)) in str(raised.value) and str(list(tokens.shape)) in str(raised.value)


def test_masks_are_for_padded_tokens():
    with pytest.raises(TypeError, match="q_mask"):
        rowmax.maxsim(Q, D, q_mask=np.ones((3, 9), np.complex64))
    with pytest.raises(TypeError, match="d_mask"):
        rowmax.maxsim(Q, D, d_mask="11111111111")
    with pytest.raises(ValueError, match="d_mask"):
        rowmax.topk(Q, D[0], 1, cu_seqlens_d=[0, 11], d_mask=np.ones((1, 11)))
