"""Corpora that carry coarse forms of their tokens, and search in two stages over them."""

import ml_dtypes
import numpy as np
import pytest

import rowmax
from rowmax import _two_stage

D = 24
LENGTHS = np.array([5, 0, 9, 1, 30, 7] * 20)
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
RNG = np.random.default_rng(8)
TOKENS = RNG.standard_normal((OFFSETS[-1], D)).astype(np.float32)
Q = np.stack([TOKENS[OFFSETS[d] : OFFSETS[d] + 5] for d in (4, 40, 70)]) + 0.05 * RNG.standard_normal((3, 5, D)).astype(np.float32)
FORMS = ("int8", "fp8", "bits")
QUANTISERS = {"int8": rowmax.quantize_int8, "fp8": rowmax.quantize_fp8, "bits": rowmax.sign_bits}


def same(a, b):
    for x, y in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,), strict=True):
        np.testing.assert_array_equal(np.asarray(x).view(np.uint8), np.asarray(y).view(np.uint8))


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16])
def test_forms_are_what_quantisers_make(tmp_path, kind):
    tokens = TOKENS.astype(kind)
    corpus = rowmax.Corpus.pack(tmp_path / "c.rmx", (tokens, OFFSETS), coarse=FORMS)
    assert corpus.coarse_forms == list(FORMS)
    for form in FORMS:
        same(corpus.coarse(form), QUANTISERS[form](tokens))
    corpus.verify()
    np.testing.assert_array_equal(corpus.tokens, tokens)


def test_hidden_tokens_are_left_out_and_lists_are_packed(tmp_path):
    padded = np.full((len(LENGTHS), 30, D), 99, np.float32)
    kept = np.arange(30) < LENGTHS[:, None]
    padded[kept] = TOKENS
    masked = rowmax.Corpus.pack(tmp_path / "masked.rmx", padded, d_mask=kept, coarse=["bits", "int8"])
    assert masked.coarse_forms == ["int8", "bits"]
    same(masked.coarse("int8"), rowmax.quantize_int8(TOKENS))
    each = rowmax.Corpus.pack(tmp_path / "each.rmx", np.split(TOKENS, OFFSETS[1:-1]), coarse="int8")
    same(each.coarse("int8"), rowmax.quantize_int8(TOKENS))


def test_other_corpora_have_none(tmp_path):
    corpus = rowmax.Corpus.pack(tmp_path / "c.rmx", (TOKENS, OFFSETS))
    assert corpus.coarse_forms == []
    with pytest.raises(ValueError, match="packed without a coarse form int8"):
        corpus.coarse("int8")
    with pytest.raises(ValueError, match="coarse must be 'int8', 'fp8' or 'bits', got 'int4'"):
        rowmax.Corpus.pack(tmp_path / "x.rmx", (TOKENS, OFFSETS), coarse="int4")
    assert not (tmp_path / "x.rmx").exists()


@pytest.mark.parametrize("block", [None, 7, 50])
@pytest.mark.parametrize("form", FORMS)
def test_search_is_that_of_arrays(tmp_path, monkeypatch, form, block):
    corpus = rowmax.Corpus.pack(tmp_path / "c.rmx", (TOKENS, OFFSETS), coarse=form)
    if block is not None:
        scans = _two_stage._corpus_scans

        def small(scanner, coarse, offsets, queries):
            for first in range(0, len(offsets) - 1, block):
                for start, scan in scans(scanner, coarse, offsets[first : first + block + 1], queries):
                    yield first + start, scan

        monkeypatch.setattr(_two_stage, "_corpus_scans", small)
    coarse = QUANTISERS[form](TOKENS)
    for candidates in (None, 3, 20, 1000):
        got = rowmax.topk_two_stage(Q, corpus, 3, candidates=candidates)
        wanted = rowmax.topk_two_stage(Q, (TOKENS, coarse), 3, candidates=candidates, cu_seqlens_d=OFFSETS)
        np.testing.assert_array_equal(got[0], wanted[0])
        np.testing.assert_array_equal(got[1], wanted[1])
        assert got[2] is wanted[2]
    assert got[2] is True and got[1][:, 0].tolist() == [4, 40, 70]
    same(rowmax.topk_two_stage(Q[1], corpus, 3)[:2], tuple(x[1] for x in rowmax.topk_two_stage(Q, corpus, 3)[:2]))


def test_masks_and_types(tmp_path):
    mask = np.array([[1, 1, 0, 0, 1]] * 3)
    for kind in (np.float16, np.float64, ml_dtypes.bfloat16):
        corpus = rowmax.Corpus.pack(tmp_path / f"{np.dtype(kind).name}.rmx", (TOKENS.astype(kind), OFFSETS), coarse="int8")
        scores, index, exact = rowmax.topk_two_stage(Q.astype(kind), corpus, 2, q_mask=mask, candidates=1000)
        wanted = rowmax.topk(Q.astype(kind), corpus, 2, q_mask=mask)
        assert exact is True
        np.testing.assert_array_equal(scores, wanted[0])
        np.testing.assert_array_equal(index, wanted[1])


def test_torch_tensors(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    corpus = rowmax.Corpus.pack(tmp_path / "c.rmx", (TOKENS, OFFSETS), coarse="fp8")
    scores, index, _ = rowmax.topk_two_stage(torch.from_numpy(Q).requires_grad_(), corpus, 3)
    wanted = rowmax.topk_two_stage(Q, corpus, 3)
    assert scores.requires_grad and index.tolist() == wanted[1].tolist()
    np.testing.assert_array_equal(scores.detach().numpy(), wanted[0])
