"""Arguments of the wrong kind, beyond 64 bits, left out or empty: the message names them."""

import copy
import os
import pickle

import numpy as np
import pytest

import rowmax

RNG = np.random.default_rng(8)
Q = RNG.standard_normal((2, 3, 8), dtype=np.float32)
D = RNG.standard_normal((4, 5, 8), dtype=np.float32)
TOKENS = D.reshape(-1, 8)
HUGE = 2**70


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("kernel", 3, TypeError),
        ("kernel", b"cpu", TypeError),
        ("threads", HUGE, ValueError),
        ("threads", -HUGE, ValueError),
        ("threads", -7, ValueError),
        ("threads", 1.5, TypeError),
        ("threads", "2", TypeError),
        ("dtype", 3, TypeError),
    ],
)
def test_keywords(name, value, error):
    with pytest.raises(error, match=name) as raised:
        rowmax.maxsim(Q, D, **{name: value})
    assert str(value) in str(raised.value)


@pytest.mark.parametrize(("value", "error"), [(HUGE, ValueError), (6.0, TypeError)])
@pytest.mark.parametrize("name", ["max_seqlen_q", "max_seqlen_d"])
def test_max_seqlen(name, value, error):
    with pytest.raises(error, match=name):
        rowmax.maxsim_varlen(TOKENS, TOKENS, [0, 3], [0, 5], **{name: value})


def test_k_and_chunk_of_any_size():
    wanted = rowmax.topk(Q, D, 4)
    for k, chunk in ((2**63, None), (HUGE, 2**63), (4, HUGE)):
        scores, index = rowmax.topk(Q, D, k, chunk=chunk)
        assert scores.tolist() == wanted[0].tolist() and index.tolist() == wanted[1].tolist()
    with pytest.raises(ValueError, match=f"k must be at least 1, got {-HUGE}"):
        rowmax.topk(Q, D, -HUGE)
    with pytest.raises(ValueError, match="chunk"):
        rowmax.topk(Q, D, 1, chunk=-HUGE)
    with pytest.raises(ValueError, match="num_destinations"):
        rowmax.inverse_grid(np.array([0]), HUGE)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: rowmax.maxsim_varlen(TOKENS, TOKENS, None, [0, 5]), "cu_seqlens_q"),
        (lambda: rowmax.maxsim_varlen(TOKENS, TOKENS, [0, 5], None), "cu_seqlens_d"),
        (lambda: rowmax.score_pairs_packed(TOKENS, TOKENS, [0, 5], [0, 5], None, [0]), "pair_q"),
        (lambda: rowmax.score_pairs_packed(TOKENS, TOKENS, [0, 5], [0, 5], [0], None), "pair_d"),
        (lambda: rowmax.score_ranges(Q[0], TOKENS, None, None), "offsets"),
        (lambda: rowmax.score_ranges(Q[0], TOKENS, [0], None), "lengths"),
    ],
)
def test_a_layout_is_not_guessed_from_none(call, name):
    with pytest.raises(TypeError, match=name):
        call()


def test_empty_lists_are_integers():
    assert rowmax.score_ranges(Q[0], TOKENS, [], []).shape == (0,)
    assert rowmax.score_pairs_packed(TOKENS, TOKENS, [0, 5], [0, 5], [], []).shape == (0,)


def test_lists_of_different_lengths():
    with pytest.raises(ValueError, match="q_mask"):
        rowmax.maxsim(Q, D, q_mask=[[True, False, True], [True]])


def test_out_of_one_query_has_the_shape_of_its_result():
    out = (np.empty(3, np.float32), np.empty(3, np.int64))
    assert rowmax.topk(Q[0], D, 3, out=out) is out
    wanted = rowmax.topk(Q[0], D, 3)
    assert out[0].tolist() == wanted[0].tolist() and out[1].tolist() == wanted[1].tolist()
    with pytest.raises(ValueError, match="shape"):
        rowmax.topk(Q[0], D, 3, out=(np.empty((1, 3), np.float32), np.empty((1, 3), np.int64)))


def test_out_must_not_lie_in_an_input():
    memory = Q.copy()
    with pytest.raises(ValueError, match="out .*shares memory with Q"):
        rowmax.maxsim(memory, D, out=memory.reshape(-1)[:8].reshape(2, 4))
    assert (memory == Q).all()
    both = np.zeros(40, np.float32)
    with pytest.raises(ValueError, match="index .*shares memory with out"):
        rowmax.maxsim(Q, D, return_index=True, out=(both[:8].reshape(2, 4), both[7:31].view(np.int32).reshape(2, 4, 3)))


def test_kernels_say_what_they_are():
    row = rowmax.kernels()[0]
    assert repr(row).startswith(f"<rowmax.KernelInfo {row.backend}.")


@pytest.fixture
def corpus(tmp_path):
    return rowmax.Corpus.pack(tmp_path / "docs.rmx", D)


def test_a_corpus_travels_by_its_path(corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for other in (
        pickle.loads(pickle.dumps(corpus)), copy.deepcopy(corpus), pickle.loads(pickle.dumps(rowmax.Corpus.open("docs.rmx"))),
    ):  # fmt: skip
        monkeypatch.chdir("/")
        np.testing.assert_array_equal(other.tokens, corpus.tokens)


def test_documents_of_a_corpus_are_called_by_number(corpus):
    np.testing.assert_array_equal(corpus[-1], D[3])
    for number in (4, -5):
        with pytest.raises(IndexError, match=f"document {number}"):
            corpus[number]
    with pytest.raises(TypeError):
        corpus[1:3]


def test_paths_are_bytes(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.rmx")
    assert len(rowmax.Corpus.pack(name, D)) == len(rowmax.Corpus.open(os.fsencode(name))) == 4
    with pytest.raises(OSError, match="cannot open"):
        rowmax.Corpus.open(name + "x")
    for call in (rowmax.Corpus.open, lambda path: rowmax.Corpus.pack(path, D)):
        with pytest.raises(ValueError, match="null"):
            call(f"{tmp_path}/a.rmx\0b")
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.parametrize(
    ("ids", "error", "text"),
    [
        ([], ValueError, "0 documents"),
        (["a"] * 3, ValueError, "3 documents"),
        ("abcd", TypeError, "ids"),
        ([1, 2, 3, 4], TypeError, "ids[0]"),
        (["a", "b", "c", "\udcff"], ValueError, "ids[3]"),
    ],
)
@pytest.mark.parametrize("documents", [D, list(D), (TOKENS, [0, 5, 10, 15, 20])], ids=["dense", "list", "packed"])
def test_ids(tmp_path, documents, ids, error, text):
    with pytest.raises(error) as raised:
        rowmax.Corpus.pack(tmp_path / "docs.rmx", documents, ids)
    assert text in str(raised.value)
    assert os.listdir(tmp_path) == []
    names = np.array(["a", "b", "c", "d"])
    assert rowmax.Corpus.pack(tmp_path / "docs.rmx", documents, names).ids == list(names)


def test_documents_that_are_nothing(tmp_path):
    with pytest.raises(TypeError, match="documents"):
        rowmax.Corpus.pack(tmp_path / "docs.rmx", None)
