"""Indexes that rowmax writes, read by itself and by fast-plaid; and one that fast-plaid writes."""

import importlib.util
import json

import ml_dtypes
import numpy as np
import pytest

import rowmax

D = 32
LENGTHS = np.array([12, 0, 30, 7, 25, 1, 18, 40, 3, 22] * 6)
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def tokens():
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((20, D))
    x = centres[rng.integers(0, 20, LENGTHS.sum())] + 0.4 * rng.standard_normal((LENGTHS.sum(), D))
    return unit(x).astype(np.float32)


@pytest.fixture(scope="module")
def queries(tokens):
    """Query i: some tokens of document 7 i + 2, a little moved."""
    rng = np.random.default_rng(4)
    chosen = [2, 7, 14, 17, 26]
    rows = np.stack([tokens[OFFSETS[d] : OFFSETS[d] + 8] for d in chosen])
    return chosen, unit(rows + 0.05 * rng.standard_normal(rows.shape)).astype(np.float32)


def decoded(index):
    """Tokens as numpy makes them of codes and residuals."""
    parts = []
    for chunk in index.chunks:
        buckets = rowmax.unpack_residual(chunk.residuals, index.nbits)
        parts.append(index.centroids.astype(np.float32)[chunk.codes] + index.bucket_weights.astype(np.float32)[buckets])
    return unit(np.concatenate(parts))


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


@pytest.mark.parametrize(("nbits", "least"), [(1, 0.85), (2, 0.93), (4, 0.995), (8, 0.9999)])
def test_tokens_come_back(tmp_path, tokens, nbits, least):
    index = rowmax.PlaidIndex.pack(tmp_path / "index", (tokens, OFFSETS), nbits=nbits, centroids=32)
    assert (len(index), index.nbits, index.centroids.shape) == (60, nbits, (32, D))
    assert (decoded(index) * tokens).sum(-1).mean() > least
    assert json.loads((tmp_path / "index" / "doclens.0.json").read_text()) == LENGTHS.tolist()


def test_every_kind_of_documents_writes_the_same(tmp_path, tokens):
    rowmax.PlaidIndex.pack(tmp_path / "packed", (tokens, OFFSETS))
    wanted = contents(tmp_path / "packed")
    rowmax.PlaidIndex.pack(tmp_path / "list", np.split(tokens, OFFSETS[1:-1]), threads=1)
    assert contents(tmp_path / "list") == wanted
    corpus = rowmax.Corpus.pack(tmp_path / "docs.rmx", (tokens, OFFSETS))
    rowmax.PlaidIndex.pack(tmp_path / "corpus", corpus)
    assert contents(tmp_path / "corpus") == wanted
    half = rowmax.Corpus.pack(tmp_path / "half.rmx", (tokens.astype(ml_dtypes.bfloat16), OFFSETS))
    rowmax.PlaidIndex.pack(tmp_path / "half", half)
    bits = tokens.astype(ml_dtypes.bfloat16).view(np.uint16)
    rowmax.PlaidIndex.pack(tmp_path / "bits", (bits, OFFSETS), dtype="bfloat16")
    assert contents(tmp_path / "half") == contents(tmp_path / "bits") != wanted
    padded = np.full((60, 40, D), 5, np.float32)
    kept = np.arange(40) < LENGTHS[:, None]
    padded[kept] = tokens
    index = rowmax.PlaidIndex.pack(tmp_path / "padded", padded, d_mask=kept, centroids=32)
    assert [len(x) for x in (index, index.chunks[0].codes)] == [60, len(tokens)]


def test_search_finds_what_was_packed(tmp_path, tokens, queries):
    chosen, Q = queries
    index = rowmax.PlaidIndex.pack(tmp_path / "index", (tokens, OFFSETS), chunk_documents=25)
    assert len(index.chunks) == 3
    scores, documents = rowmax.plaid_search(Q, index, 5, nprobe=2, candidates=20)
    assert documents[:, 0].tolist() == chosen
    again = decoded(index)
    exact = rowmax.maxsim_varlen(Q.reshape(-1, D), again, np.arange(0, 41, 8), OFFSETS)
    np.testing.assert_allclose(scores[:, 0], exact[np.arange(5), chosen], rtol=1e-5)


def test_what_cannot_be_packed_leaves_nothing(tmp_path, tokens):
    for documents, options, error, text in [
        ((tokens, OFFSETS), {"nbits": 3}, ValueError, "nbits must be 1, 2, 4 or 8, got 3"),
        ((tokens[:, :3], OFFSETS), {"nbits": 2}, ValueError, "2 bits of 3 dimensions"),
        ((tokens, OFFSETS), {"centroids": 10**6}, ValueError, "centroids: 1000000"),
        ((tokens, OFFSETS), {"centroids": 0}, ValueError, "centroids must be at least 1, got 0"),
        ((tokens, OFFSETS), {"chunk_documents": 0}, ValueError, "chunk_documents must be at least 1, got 0"),
        ((tokens * np.float32(np.nan), OFFSETS), {}, ValueError, "document 0, token 0 holds nan"),
        ((tokens, OFFSETS + 1), {}, ValueError, "cu_seqlens"),
        (tokens, {}, ValueError, r"documents must be \[N, L, d\]"),
        (tokens.astype(np.int32)[None], {}, TypeError, "documents must be float16.*got int32"),
        ([tokens, tokens[:, :2]], {}, ValueError, r"documents\[1\] must be \[L, d\]"),
        ([], {}, TypeError, "documents must be arrays"),
        ((tokens[:0], np.zeros(3, int)), {}, ValueError, "2 documents without tokens"),
    ]:
        with pytest.raises(error, match=text):
            rowmax.PlaidIndex.pack(tmp_path / "index", documents, **options)
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "mine").write_text("here")
    with pytest.raises(OSError, match="exists"):
        rowmax.PlaidIndex.pack(tmp_path / "index", (tokens, OFFSETS))


# fast-plaid's wheels are tied to one version of torch each, so it is not among the requirements of the tests: these two run
# where somebody installed it.
needs_fast_plaid = pytest.mark.skipif(
    importlib.util.find_spec("fast_plaid") is None, reason="fast-plaid is not installed (its wheels are tied to a torch)"
)


@needs_fast_plaid
def test_fast_plaid_reads_it(tmp_path, tokens, queries):
    import torch
    from fast_plaid import search

    chosen, Q = queries
    index = rowmax.PlaidIndex.pack(tmp_path / "index", (tokens, OFFSETS), chunk_documents=25, centroids=64)
    theirs = search.FastPlaid(index=str(tmp_path / "index"), device="cpu")
    found = theirs.search(
        queries_embeddings=torch.from_numpy(Q).half(), top_k=5, n_full_scores=240, n_ivf_probe=64, show_progress=False
    )
    scores, documents = rowmax.plaid_search(Q.astype(np.float16), index, 5, nprobe=64, candidates=60)
    for i, hits in enumerate(found):
        assert hits[0][0] == chosen[i]
        assert {d for d, _ in hits[:3]} == set(documents[i, :3].tolist())
        np.testing.assert_allclose([s for _, s in hits], scores[i], rtol=5e-3)  # they decode in float16


@needs_fast_plaid
def test_an_index_of_fast_plaid_is_scored_as_it_decodes(tmp_path, tokens, queries):
    import torch
    from fast_plaid import search

    chosen, Q = queries
    theirs = search.FastPlaid(index=str(tmp_path / "index"), device="cpu")
    documents = [torch.from_numpy(tokens[a:b]) for a, b in zip(OFFSETS[:-1], OFFSETS[1:], strict=True) if b > a]
    theirs.create(documents_embeddings=documents, nbits=4)
    index = rowmax.PlaidIndex.open(tmp_path / "index")
    assert len(index) == len(documents)
    lengths = [len(d) for d in documents]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    again = decoded(index)
    assert (again * np.concatenate([d.numpy() for d in documents])).sum(-1).mean() > 0.98
    wanted = rowmax.maxsim_varlen(Q.reshape(-1, D), again, np.arange(0, 41, 8), starts)
    got = np.concatenate([
        rowmax.maxsim_residual_varlen(
            Q, c.codes, c.residuals, c.cu_seqlens, centroids=index.centroids, bucket_weights=index.bucket_weights, nbits=4
        )
        for c in index.chunks
    ], axis=-1)  # fmt: skip
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    scores, best = rowmax.plaid_search(Q, index, 1, nprobe=4)
    np.testing.assert_allclose(scores[:, 0], wanted.max(1), rtol=1e-5)
    assert best[:, 0].tolist() == wanted.argmax(1).tolist()
