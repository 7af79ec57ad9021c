"""PLAID's steps and the whole search, over folders as fast-plaid writes them."""

import json
import pickle

import numpy as np
import pytest
from command_support import write_plaid_index

import rowmax

D, C = 16, 30
LENGTHS = [[5, 9, 1], [], [3, 0, 12, 7], [20, 2, 8, 8, 8, 30]]


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def folder(tmp_path, rng):
    write_plaid_index(tmp_path / "index", rng, LENGTHS)
    return tmp_path / "index"


@pytest.fixture
def index(folder):
    return rowmax.PlaidIndex.open(folder)


@pytest.fixture
def queries(rng):
    return rng.standard_normal((4, 6, D)).astype(np.float32)


def tables(index):
    return {"centroids": index.centroids, "bucket_weights": index.bucket_weights, "nbits": index.nbits}


def exhaustive(Q, index):
    return np.concatenate([
        rowmax.maxsim_residual_varlen(Q, c.codes, c.residuals, c.cu_seqlens, **tables(index)) for c in index.chunks
    ], axis=-1)  # fmt: skip


def centroids_of(index):
    return [set(c.codes[a:b].tolist()) for c in index.chunks for a, b in zip(c.cu_seqlens[:-1], c.cu_seqlens[1:], strict=True)]


def ranked(scores, documents, k):
    order = np.lexsort((documents, -scores))[:k]
    return scores[order], documents[order]


def test_an_opened_index(folder, index):
    assert (len(index), index.dim, index.nbits) == (13, D, 4)
    assert index.centroids.shape == (C, D) and index.bucket_weights.shape == (16,)
    assert [len(c.cu_seqlens) - 1 for c in index.chunks] == [3, 0, 4, 6]
    np.testing.assert_array_equal(index.chunks[2].codes, np.load(folder / "2.codes.npy"))
    assert not index.chunks[0].codes.flags.writeable
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(index)).centroids, index.centroids)
    with pytest.raises(OSError, match="metadata.json"):
        rowmax.PlaidIndex.open(folder / "nowhere")
    (folder / "metadata.json").write_text("{}")
    with pytest.raises(ValueError, match=r"metadata.json.*nbits is missing"):
        rowmax.PlaidIndex.open(folder)


def test_lists_are_made_of_codes_where_the_folder_has_none(folder, index):
    lists = [[d for d, codes in enumerate(centroids_of(index)) if c in codes] for c in range(C)]
    assert index.ivf.tolist() == sum(lists, []) and index.ivf_lengths.tolist() == [len(x) for x in lists]
    np.save(folder / "ivf.npy", index.ivf[::-1])
    np.save(folder / "ivf_lengths.npy", index.ivf_lengths[::-1].astype(np.int64))
    again = rowmax.PlaidIndex.open(folder)
    assert again.ivf.tolist() == index.ivf[::-1].tolist() and again.ivf_lengths.tolist() == index.ivf_lengths[::-1].tolist()


def test_the_steps(index, queries):
    Q = queries[0]
    table = rowmax.maxsim(Q[:, None], index.centroids.astype(np.float32)[:, None]).T.copy()
    cells = rowmax.plaid_probe(table, 3)
    np.testing.assert_array_equal(cells, np.argsort(-table, 0, kind="stable")[:3].T)
    found = rowmax.plaid_candidates(cells, index.ivf, index.ivf_lengths, len(index))
    probed = set(cells.ravel().tolist())
    assert found.dtype == np.int64 and found.tolist() == [d for d, codes in enumerate(centroids_of(index)) if codes & probed]
    chunk = index.chunks[3]
    approximate = rowmax.plaid_approx_score_packed(table, chunk.codes, chunk.cu_seqlens, [5, 0])
    padded = np.zeros((2, 30), np.int64)
    padded[0], padded[1, :20] = chunk.codes[-30:], chunk.codes[:20]
    np.testing.assert_array_equal(approximate, rowmax.plaid_approx_score(table, padded, [30, 20]))
    everything = rowmax.plaid_approx_score_packed(table, chunk.codes, chunk.cu_seqlens)
    assert (everything[5], everything[0]) == tuple(approximate)
    pruned = rowmax.plaid_approx_score_packed(table, chunk.codes, chunk.cu_seqlens, threshold=float(np.median(table.max(1))))
    assert (pruned <= everything).all() and (pruned < everything).any()


@pytest.mark.parametrize("kind", [np.float32, np.float16, "bfloat16 bits"])
def test_a_search_of_everything_is_exhaustive(index, queries, kind):
    Q, options = queries, {}
    if kind == "bfloat16 bits":
        Q, options = (queries.view(np.uint32) >> 16).astype(np.uint16), {"dtype": "bfloat16"}
    else:
        Q = queries.astype(kind)
    scores, documents = rowmax.plaid_search(Q, index, 20, nprobe=C, candidates=100, **options)
    assert scores.shape == documents.shape == (4, 13)
    wanted = np.concatenate([
        rowmax.maxsim_residual_varlen(Q, c.codes, c.residuals, c.cu_seqlens, **tables(index), **options) for c in index.chunks
    ], axis=-1)  # fmt: skip
    some = np.array([d for d in range(13) if d != 4])  # which has no tokens
    for i in range(4):
        best, numbers = ranked(wanted[i][some], some, 13)
        np.testing.assert_array_equal(scores[i], np.append(best, np.float32(-np.inf)))
        np.testing.assert_array_equal(documents[i], np.append(numbers, -1))


def test_a_search_is_its_steps(index, queries):
    wanted = exhaustive(queries, index)
    scores, documents = rowmax.plaid_search(queries, index, 3, nprobe=2, candidates=5)
    for i, Q in enumerate(queries):
        table = np.ascontiguousarray(rowmax.maxsim(Q[:, None], index.centroids.astype(np.float32)[:, None]).T)
        found = rowmax.plaid_candidates(rowmax.plaid_probe(table, 2), index.ivf, index.ivf_lengths, 13)
        codes = np.concatenate([c.codes for c in index.chunks])
        starts = np.concatenate([[0], np.cumsum(sum(LENGTHS, []))])
        _, chosen = ranked(rowmax.plaid_approx_score_packed(table, codes, starts, found), found, 5)
        best, numbers = ranked(wanted[i][chosen], chosen, 3)
        np.testing.assert_array_equal(scores[i], best)
        np.testing.assert_array_equal(documents[i], numbers)


def test_layouts_masks_threads_and_out(index, queries):
    options = {"nprobe": 2, "candidates": 4, "threshold": 0.5}
    scores, documents = rowmax.plaid_search(queries, index, 3, **options)
    for threads in (1, 2, 7):
        again = rowmax.plaid_search(queries, index, 3, threads=threads, **options)
        np.testing.assert_array_equal(again[0], scores)
        np.testing.assert_array_equal(again[1], documents)
    one = rowmax.plaid_search(queries[1], index, 3, **options)
    np.testing.assert_array_equal(one[0], scores[1])
    packed = rowmax.plaid_search(queries.reshape(-1, D), index, 3, cu_seqlens_q=np.arange(0, 25, 6), **options)
    np.testing.assert_array_equal(packed[1], documents)
    mask = np.ones((4, 6), bool)
    mask[:, 3:] = False
    masked = rowmax.plaid_search(queries, index, 3, q_mask=mask, **options)
    short = rowmax.plaid_search(queries[:, :3], index, 3, **options)
    np.testing.assert_array_equal(masked[0], short[0])
    np.testing.assert_array_equal(masked[1], short[1])
    out = np.empty((4, 3), np.float32), np.empty((4, 3), np.int64)
    assert rowmax.plaid_search(queries, index, 3, out=out, **options) is out
    np.testing.assert_array_equal(out[1], documents)


def test_what_does_not_fit_is_named(folder, index, queries):
    for call, error, text in [
        (lambda: rowmax.plaid_search(queries, folder, 3), TypeError, "index must be a PlaidIndex"),
        (lambda: rowmax.plaid_search(queries[0, 0], index, 3), ValueError, r"Q must be \[Nq, Lq, d\]"),
        (lambda: rowmax.plaid_search(queries, index, 0), ValueError, "k must be at least 1, got 0"),
        (lambda: rowmax.plaid_search(queries, index, 1, nprobe=0), ValueError, "nprobe must be at least 1, got 0"),
        (lambda: rowmax.plaid_search(queries, index, 1, candidates=0), ValueError, "candidates must be at least 1, got 0"),
        (lambda: rowmax.plaid_search(queries, index, 1, threshold=np.nan), ValueError, "threshold must be a number"),
        (lambda: rowmax.plaid_search(queries[..., :9], index, 1), ValueError, "centroids.*must be .*9"),
        (lambda: rowmax.plaid_search(queries.astype(np.float64), index, 1), TypeError, "Q must be float32.*float64"),
        (lambda: rowmax.plaid_search(queries, index, 1, threads=-1), ValueError, "threads"),
        (lambda: rowmax.plaid_search(queries, index, 1, kernel="cpu.none"), ValueError, "cpu.none"),
        (lambda: rowmax.plaid_probe(queries[0, 0], 1), ValueError, "centroid_scores must be"),
        (lambda: rowmax.plaid_candidates(np.array([C]), index.ivf, index.ivf_lengths, 13), ValueError, f"cells hold {C}"),
        (lambda: rowmax.plaid_candidates(np.array([0]), index.ivf, None, 13), TypeError, "ivf_lengths"),
        (lambda: rowmax.plaid_candidates(np.arange(C), index.ivf, index.ivf_lengths, 5), ValueError, "there are 5 documents"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_lists_that_lie(folder, index, queries):
    np.save(folder / "ivf.npy", np.where(np.arange(len(index.ivf)) == 7, 13, index.ivf))
    np.save(folder / "ivf_lengths.npy", index.ivf_lengths)
    lying = rowmax.PlaidIndex.open(folder)
    with pytest.raises(ValueError, match=r"ivf\[7\] is 13, but there are 13 documents"):
        rowmax.plaid_search(queries, lying, 1, nprobe=C)
    rowmax.plaid_search(queries, lying, 1, nprobe=C, validate=False)
    for lengths, text in [
        (index.ivf_lengths + 1, "entries, of which"), (index.ivf_lengths[:-1], "belong to no list"),
        (-index.ivf_lengths, "centroid 0 has -"), (index.ivf_lengths.astype(np.float32), "must be a list of int32 or int64"),
    ]:  # fmt: skip
        np.save(folder / "ivf_lengths.npy", lengths)
        with pytest.raises(ValueError, match=text):
            rowmax.PlaidIndex.open(folder).ivf.tolist()


def test_torch_tensors(index, queries):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    scores, documents = rowmax.plaid_search(queries, index, 3, nprobe=3)
    got = rowmax.plaid_search(torch.from_numpy(queries), index, 3, nprobe=3)
    assert got[0].dtype is torch.float32 and got[1].dtype is torch.int64
    np.testing.assert_array_equal(got[0].numpy(), scores)
    np.testing.assert_array_equal(got[1].numpy(), documents)
    table = torch.randn(C, 5)
    cells = rowmax.plaid_probe(table, 2)
    assert torch.equal(cells, table.topk(2, 0).indices.T)
    assert rowmax.plaid_candidates(cells, index.ivf, index.ivf_lengths, 13).dtype is torch.int64
    with pytest.raises(NotImplementedError, match="Q requires grad"):
        rowmax.plaid_search(torch.from_numpy(queries).requires_grad_(), index, 3)


def test_metadata_of_an_empty_index(folder, queries):
    (folder / "metadata.json").write_text(json.dumps({"num_chunks": 0, "nbits": 4}))
    scores, documents = rowmax.plaid_search(queries, rowmax.PlaidIndex.open(folder), 3)
    assert scores.shape == documents.shape == (4, 0)
