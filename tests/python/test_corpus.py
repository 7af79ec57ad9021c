"""Corpus files: pack, open, search; what is wrong with a file is named."""

import signal
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from arrays import TYPES
from layouts import integers, packed

import rowmax

RNG = np.random.default_rng(16)
LENGTHS = (3, 0, 7, 1, 12)
DOCUMENTS = integers(RNG, LENGTHS, 8)
TOKENS, OFFSETS = packed(DOCUMENTS, 8, np.int64)
IDS = ["a", "b-2", "c", "ü", "e"]
Q = np.stack(integers(RNG, (4, 4), 8))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "docs.rmx"


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_comes_back(path, dtype):
    convert, keywords = TYPES[dtype]
    corpus = rowmax.Corpus.pack(path, (convert(TOKENS), OFFSETS), IDS, **keywords)
    corpus.verify()
    assert (len(corpus), corpus.dtype) == (5, dtype.split()[0])
    assert corpus.tokens.dtype == (ml_dtypes.bfloat16 if dtype.startswith("bfloat16") else dtype)
    np.testing.assert_array_equal(corpus.tokens.astype(np.float64), TOKENS)
    np.testing.assert_array_equal(corpus.offsets, OFFSETS)
    assert corpus.ids == IDS
    for i, document in enumerate(DOCUMENTS):
        np.testing.assert_array_equal(corpus[i].astype(np.float64), document)
    scores, index = rowmax.topk(convert(Q), corpus, 3, **keywords)
    wanted = rowmax.topk(convert(Q), convert(TOKENS), 3, cu_seqlens_d=OFFSETS, **keywords)
    np.testing.assert_array_equal(scores, wanted[0])
    np.testing.assert_array_equal(index, wanted[1])


def test_documents_one_by_one_dense_and_packed_make_the_same_file(path, tmp_path):
    others = [tmp_path / f"{i}.rmx" for i in range(2)]
    rowmax.Corpus.pack(path, (TOKENS, OFFSETS))
    rowmax.Corpus.pack(others[0], (document for document in DOCUMENTS))
    dense, mask = np.full((5, 12, 8), 99.0), np.arange(12) < np.array(LENGTHS)[:, None]
    dense[mask] = TOKENS
    rowmax.Corpus.pack(others[1], dense, d_mask=mask)
    assert path.read_bytes() == others[0].read_bytes() == others[1].read_bytes()
    assert rowmax.Corpus.open(str(path)).ids == ["0", "1", "2", "3", "4"]


def test_views_are_read_only_and_keep_the_mapping(path):
    tokens = rowmax.Corpus.pack(path, (TOKENS, OFFSETS)).tokens
    np.testing.assert_array_equal(tokens, TOKENS)
    with pytest.raises(ValueError, match="read-only"):
        tokens[0] = 1
    corpus = rowmax.Corpus.open(path)
    assert corpus[-1].shape == (12, 8)
    with pytest.raises(IndexError):
        corpus[5]


@pytest.mark.parametrize(
    ("documents", "options", "error", "text"),
    [
        ([], {}, ValueError, "documents is empty"),
        ([TOKENS, TOKENS[:, :7]], {}, ValueError, "7"),
        ([TOKENS, TOKENS.astype(np.float32)], {}, TypeError, "float32"),
        ([TOKENS.astype(np.int32)], {}, TypeError, "int32"),
        ([TOKENS[0]], {}, ValueError, "two dimensions"),
        ([TOKENS, None], {}, TypeError, "documents"),
        ([TOKENS], {"ids": ["a", "b"]}, ValueError, "names 2 documents, but documents holds 1"),
        ([TOKENS, TOKENS], {"ids": ["a"]}, ValueError, "names 1 documents"),
        ([TOKENS], {"ids": ["white space"]}, ValueError, "white space"),
        ([TOKENS], {"d_mask": np.ones((1, 23))}, ValueError, "d_mask"),
        ((TOKENS, OFFSETS), {"ids": IDS[:4]}, ValueError, "4"),
        ((TOKENS, OFFSETS + 1), {}, ValueError, "cu_seqlens"),
    ],
)
def test_what_cannot_be_packed_leaves_no_file(path, documents, options, error, text):
    with pytest.raises(error) as raised:
        rowmax.Corpus.pack(path, documents, **options)
    assert text in str(raised.value)
    assert list(path.parent.iterdir()) == []


def test_files_that_are_no_corpus(path):
    with pytest.raises(OSError, match="docs.rmx"):
        rowmax.Corpus.open(path)
    path.write_bytes(b"no corpus at all" * 100)
    with pytest.raises(ValueError, match="docs.rmx"):
        rowmax.Corpus.open(path)
    rowmax.Corpus.pack(path, (TOKENS, OFFSETS))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="docs.rmx"):
        rowmax.Corpus.open(path)


def test_a_changed_token_is_found_by_verify(path):
    rowmax.Corpus.pack(path, (TOKENS, OFFSETS))
    changed = bytearray(path.read_bytes())
    at = changed.find(TOKENS[0].tobytes())
    changed[at] ^= 1
    path.write_bytes(changed)
    with pytest.raises(ValueError, match="tokens"):
        rowmax.Corpus.open(path).verify()


def test_search_refuses_what_does_not_fit(path):
    corpus = rowmax.Corpus.pack(path, (TOKENS, OFFSETS))
    with pytest.raises(TypeError, match="float32.*float64"):
        rowmax.topk(Q.astype(np.float32), corpus, 1)
    with pytest.raises(ValueError, match="cu_seqlens_d"):
        rowmax.topk(Q, corpus, 1, cu_seqlens_d=OFFSETS)


def test_bfloat16_without_ml_dtypes_is_bits(path):
    rowmax.Corpus.pack(path, (TOKENS.astype(ml_dtypes.bfloat16), OFFSETS))
    code = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import numpy as np, rowmax\n"
        f"corpus = rowmax.Corpus.open({str(path)!r})\n"
        "assert corpus.tokens.dtype == np.uint16, corpus.tokens.dtype\n"
        "print(rowmax.topk(corpus.tokens[:3], corpus, 2, dtype='bfloat16')[1].tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == str(rowmax.topk(TOKENS[:3], TOKENS, 2, cu_seqlens_d=OFFSETS)[1].tolist()), result.stderr


def test_packing_one_huge_array_hears_ctrl_c(path):
    huge = np.broadcast_to(np.zeros((1, 512, 64), np.float16), (1_000_000, 512, 64))  # 65 GB if nobody stopped it
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            rowmax.Corpus.pack(path, huge)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert list(path.parent.iterdir()) == []
