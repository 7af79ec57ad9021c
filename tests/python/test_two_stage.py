"""A coarse scan and exact scores of the best: compared with topk, and `exact` must never lie."""

import ml_dtypes
import numpy as np
import pytest
from coarse_forms import FORMS, UNORDERED

import rowmax

RNG = np.random.default_rng(41)


def unit(*shape):
    x = RNG.standard_normal(shape).astype(np.float32)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def near(documents, words, per_query=3):
    """Queries that have documents of their own, so that scores spread."""
    q = np.stack([documents[i, :words] for i in range(per_query)])
    return q + 0.1 * RNG.standard_normal(q.shape).astype(np.float32)


D = unit(120, 20, 32)
Q = near(D, 6)


@pytest.mark.parametrize("form", FORMS)
def test_finds_what_topk_finds(form):
    coarse = FORMS[form](D)
    wanted = rowmax.topk(Q, D, 5)
    scores, index, exact = rowmax.topk_two_stage(Q, (D, coarse), 5)
    assert (scores.dtype, index.dtype, type(exact)) == (np.float32, np.int64, bool)
    np.testing.assert_array_equal(scores[:, 0], wanted[0][:, 0])
    assert index[:, 0].tolist() == [0, 1, 2]
    scores, index, exact = rowmax.topk_two_stage(Q, (D, coarse), 5, candidates=1000)
    assert exact is True
    np.testing.assert_array_equal(scores, wanted[0])
    np.testing.assert_array_equal(index, wanted[1])


def test_the_proof_of_int8():
    coarse = rowmax.quantize_int8(D)
    wanted = rowmax.topk(Q, D, 1)
    scores, index, exact = rowmax.topk_two_stage(Q, (D, coarse), 1)
    assert exact is True  # its own document is far above all others
    np.testing.assert_array_equal(scores, wanted[0])
    np.testing.assert_array_equal(index, wanted[1])
    assert rowmax.topk_two_stage(Q, (D, coarse), 60, candidates=60)[2] is False


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("form", ["int8", "int8 document", "bits"])
def test_exact_never_lies(form, seed):
    rng = np.random.default_rng(seed)
    d = rng.standard_normal((60, 5, 8)).astype(np.float32) * rng.choice([0.01, 1, 30], (60, 1, 1)).astype(np.float32)
    q = rng.standard_normal((1, 4, 8)).astype(np.float32)
    for k, candidates in ((1, 2), (3, 10), (5, 30)):
        scores, index, exact = rowmax.topk_two_stage(q, (d, FORMS[form](d)), k, candidates=candidates)
        wanted = rowmax.topk(q, d, k)
        if exact:
            np.testing.assert_array_equal(scores, wanted[0])
            np.testing.assert_array_equal(index, wanted[1])


def test_scales_that_lost_digits():
    d = np.full((40, 2, 4), 2**-149 * 190, np.float32)
    d[7] *= 3
    assert rowmax.topk_two_stage(np.ones((2, 4), np.float32), (d, rowmax.quantize_int8(d)), 1, candidates=39)[2] is False


def test_some_proofs_succeed_with_few_candidates():
    proved = 0
    for _ in range(20):
        d = RNG.standard_normal((60, 5, 8)).astype(np.float32) * RNG.choice([0.01, 1, 30], (60, 1, 1)).astype(np.float32)
        q = RNG.standard_normal((4, 8)).astype(np.float32)
        proved += rowmax.topk_two_stage(q, (d, rowmax.quantize_int8(d)), 1, candidates=30)[2]
    assert proved >= 10


def test_layouts_and_masks():
    coarse = rowmax.quantize_int8(D)
    whole = rowmax.topk_two_stage(Q, (D, coarse), 4)
    one = rowmax.topk_two_stage(Q[1], (D, coarse), 4)
    np.testing.assert_array_equal(one[0], whole[0][1])
    np.testing.assert_array_equal(one[1], whole[1][1])
    cu_seqlens = np.arange(0, 2401, 20)
    flat = D.reshape(2400, 32)
    packed = rowmax.topk_two_stage(Q, (flat, rowmax.quantize_int8(flat)), 4, cu_seqlens_d=cu_seqlens)
    np.testing.assert_array_equal(packed[0], whole[0])
    np.testing.assert_array_equal(packed[1], whole[1])
    d_mask, q_mask = RNG.random((120, 20)) < 0.7, RNG.random((3, 6)) < 0.7
    masked = rowmax.topk_two_stage(Q, (D, coarse), 4, d_mask=d_mask, q_mask=q_mask, candidates=120)
    wanted = rowmax.topk(Q, D, 4, d_mask=d_mask, q_mask=q_mask)
    np.testing.assert_array_equal(masked[0], wanted[0])
    np.testing.assert_array_equal(masked[1], wanted[1])
    few = rowmax.topk_two_stage(Q, (D, coarse), 1, d_mask=d_mask, q_mask=q_mask)
    if few[2]:
        np.testing.assert_array_equal(few[1], wanted[1][:, :1])


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_types(kind):
    q, d = Q.astype(kind), D.astype(kind)
    wanted = rowmax.topk(q, d, 3)
    for form in FORMS:
        scores, index, _ = rowmax.topk_two_stage(q, (d, FORMS[form](d)), 3, candidates=120)
        np.testing.assert_array_equal(scores, wanted[0])
        np.testing.assert_array_equal(index, wanted[1])


@pytest.mark.parametrize("form", FORMS)
def test_bfloat16_as_uint16(form):
    q, d = Q.astype(ml_dtypes.bfloat16), D.astype(ml_dtypes.bfloat16)
    wanted = rowmax.topk_two_stage(q, (d, FORMS[form](d)), 3, candidates=20)
    bits = q.view(np.uint16), (d.view(np.uint16), FORMS[form](d))
    scores, index, proved = rowmax.topk_two_stage(*bits, 3, candidates=20, dtype="bfloat16")
    np.testing.assert_array_equal(scores, wanted[0])
    np.testing.assert_array_equal(index, wanted[1])
    assert proved is wanted[2]


def test_nan_comes_first_and_ties_by_document():
    d = np.ones((50, 3, 8), np.float32)
    d[40, 1, 2] = np.nan
    d[7] *= 2
    for form in (FORMS["int8"], FORMS["bits"]):
        scores, index, exact = rowmax.topk_two_stage(np.ones((2, 8), np.float32), (d, form(d)), 4, candidates=50)
        assert index.tolist() == [40, 7, 0, 1] and exact is True
        assert np.isnan(scores[0]) and scores[1:].tolist() == [32, 16, 16]
    scores, index, exact = rowmax.topk_two_stage(np.ones((2, 8), np.float32), (d, rowmax.quantize_int8(d)), 2, candidates=3)
    assert index.tolist() == [40, 7] and exact is True


def ranked(keys):
    """Documents of one row of keys, best first: NaN, then the highest, then the lowest number."""
    return sorted(range(len(keys)), key=lambda i: (not np.isnan(keys[i]), -keys[i] if keys[i] == keys[i] else 0, i))


@pytest.mark.parametrize("case", UNORDERED)
@pytest.mark.parametrize("form", ["fp8", "bits"])
def test_candidates_without_a_bound_are_ranked_as_results_are(form, case):
    q, d = UNORDERED[case]
    coarse = FORMS[form](d)
    keys = rowmax.maxsim_bits(q, coarse) if form == "bits" else rowmax.maxsim_fp8(*rowmax.quantize_fp8(q), *coarse)
    exact = rowmax.maxsim(q, d)
    for k, candidates in ((1, 1), (2, 3), (3, 5), (5, len(d)), (50, 2)):
        scores, index, proved = rowmax.topk_two_stage(q, (d, coarse), k, candidates=candidates)
        chosen = sorted(ranked(keys)[: max(k, candidates)])
        wanted = [chosen[i] for i in ranked(exact[chosen])[:k]]
        assert index.tolist() == wanted and proved is (max(k, candidates) >= len(d))
        np.testing.assert_array_equal(scores, exact[wanted])


def test_equal_bounds_are_of_the_lowest_documents():
    """Whatever the coarse scores are, since they say nothing of documents whose bound is infinite."""
    d = np.ones((9, 2, 4), np.float32)
    for number, size in ((2, 1e36), (5, 2e36), (7, 3e36)):
        d[number] *= np.float32(size)
    q, coarse = np.ones((1, 4), np.float32), rowmax.quantize_int8(d)
    for candidates, wanted in ((1, [2]), (2, [5, 2]), (3, [7, 5, 2]), (4, [7, 5, 2, 0]), (6, [7, 5, 2, 0, 1, 3])):
        scores, index, proved = rowmax.topk_two_stage(q, (d, coarse), candidates, candidates=candidates)
        assert index.tolist() == wanted and proved is (candidates == 3)
    q[0, 1] = np.nan  # nothing is known of any document
    assert rowmax.topk_two_stage(q, (d, coarse), 3, candidates=3)[1].tolist() == [0, 1, 2]


def test_out_and_sizes():
    coarse = rowmax.quantize_int8(D)
    out = np.empty((3, 4), np.float32), np.empty((3, 4), np.int64)
    scores, index, _ = rowmax.topk_two_stage(Q, (D, coarse), 4, out=out)
    assert scores is out[0] and index is out[1]
    np.testing.assert_array_equal(index, rowmax.topk_two_stage(Q, (D, coarse), 4)[1])
    scores, index, exact = rowmax.topk_two_stage(Q, (D, coarse), 500)
    assert scores.shape == index.shape == (3, 120) and exact is True
    for queries, documents in ((0, 120), (3, 0)):
        empty = rowmax.topk_two_stage(Q[:queries], (D[:documents], rowmax.quantize_int8(D[:documents])), 4)
        assert empty[0].shape == (queries, min(4, documents))
    with pytest.raises(ValueError, match=r"out must be \[3, 4\] float32, got \[3, 3\]"):
        rowmax.topk_two_stage(Q, (D, coarse), 4, out=(out[0][:, :3], out[1]))


def test_what_does_not_fit_is_named(tmp_path):
    coarse = rowmax.quantize_int8(D)
    corpus = rowmax.Corpus.pack(tmp_path / "c.rmx", D)
    coarse_corpus = rowmax.Corpus.pack(tmp_path / "d.rmx", D, coarse="int8")
    for call, error, text in [
        ((Q, D, 3), TypeError, "D must be a pair .documents, coarse form., got ndarray"),
        ((Q, corpus, 3), ValueError, "D: this Corpus was packed without a coarse form"),
        ((Q.astype(np.float16), coarse_corpus, 3), TypeError, "Q is float16 but D is float32"),
        ((Q, (D, coarse[0][:50]), 3), ValueError, r"coarse has shape \[50, 20, 32\], but documents \[120, 20, 32\] need"),
        ((Q, (D, (coarse[0],)), 3), ValueError, "got 1 arrays"),
        ((Q, (D, coarse), 0), ValueError, "k must be at least 1, got 0"),
        ((Q[None], (D, coarse), 3), ValueError, r"Q must be \[Nq, Lq, d\] or \[Lq, d\]"),
        ((Q[..., :31], (D, coarse), 3), ValueError, "31 and 32"),
    ]:
        with pytest.raises(error, match=text):
            rowmax.topk_two_stage(*call)
    with pytest.raises(ValueError, match="candidates must be at least 1, got 0"):
        rowmax.topk_two_stage(Q, (D, coarse), 3, candidates=0)
    with pytest.raises(ValueError, match="cu_seqlens_d: a Corpus has its own offsets"):
        rowmax.topk_two_stage(Q, coarse_corpus, 3, cu_seqlens_d=[0, 1])
    with pytest.raises(ValueError, match="d_mask: a Corpus holds no hidden tokens"):
        rowmax.topk_two_stage(Q, coarse_corpus, 3, d_mask=np.ones((1, 20)))


F = np.float32
EXTREMES = {
    "sums near the largest float32": (np.ones((1, 1, 1), F), np.array([[[-2e37]], [[-1e37]]], F)),
    "coarse sums that overflow": (np.full((1, 1, 2), 1e19, F), np.array([[[1.6e19, 1.6e19]], [[4e19, -4e19]]], F)),
    "scales that lost digits": (np.full((1, 1, 1), 1e30, F), np.array([[[1e-44]], [[2e-44]]], F)),
    "scales below float32": (np.ones((1, 1, 1)), np.array([[[1e-50]], [[2e-50]]])),
    "sums that cancel": (np.full((1, 1, 2), 1e-25), np.array([[[3e-25, -2.9e-25]], [[1e-25, 1e-25]]])),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", EXTREMES)
def test_extremes_are_not_proved(case):
    q, d = EXTREMES[case]
    scores, index, exact = rowmax.topk_two_stage(q, (d, rowmax.quantize_int8(d)), 1, candidates=1)
    wanted = rowmax.topk(q, d, 1)
    assert not exact or (scores.tolist() == wanted[0].tolist() and index.tolist() == wanted[1].tolist())


def test_queries_without_tokens_and_tokens_without_dimensions():
    scores, index, exact = rowmax.topk_two_stage(Q[:, :0], (D, rowmax.quantize_int8(D)), 2)
    assert scores.tolist() == [[0, 0]] * 3 and index.tolist() == [[0, 1]] * 3
    nothing = np.ones((1, 1, 0), np.float32)
    with pytest.raises(ValueError, match="the embedding dimension must be 1 to 4096, got 0"):
        rowmax.topk_two_stage(nothing, (nothing, rowmax.sign_bits(nothing)), 1)
    for q, bits in ((nothing, np.zeros((1, 1, 0), np.uint8)), (np.ones((1, 1, 4097), np.float32), np.zeros((1, 1, 513), np.uint8))):
        with pytest.raises(ValueError, match="the embedding dimension must be 1 to 4096"):
            rowmax.maxsim_bits(q, bits)
