"""rowmax search --index and rowmax inspect, over a folder as fast-plaid writes it."""

import json

import numpy as np
import pytest
from command_support import PLAID_BITS, read_trec, write_plaid_index

D = 16


@pytest.fixture
def index(tmp_path, rng):
    documents = write_plaid_index(tmp_path / "index", rng, [[5, 9, 1], [], [3, 0, 12, 7]])
    queries = rng.standard_normal((3, 6, D)).astype(np.float32)
    np.save(tmp_path / "q.npy", queries)
    return tmp_path, queries, documents


def scores_of(queries, documents):
    return np.array([[(q @ d.T).max(1).sum() if len(d) else 0 for d in documents] for q in queries])


def test_ranks_decoded_documents(rowmax, index):
    folder, queries, documents = index
    run = read_trec(rowmax("search", folder / "q.npy", "--index", folder / "index", "-k", 4).stdout)
    scores = scores_of(queries, documents)
    for i in range(3):
        order = np.argsort(-scores[i], kind="stable")[:4]
        assert [int(document) for document, _ in run[str(i)]] == order.tolist()
        np.testing.assert_allclose([score for _, score in run[str(i)]], scores[i][order], rtol=1e-5)


def test_formats_and_types(rowmax, index, rng):
    folder, _, documents = index
    command = ("search", folder / "q.npy", "--index", folder / "index", "-k", 100)
    trec = read_trec(rowmax(*command).stdout)
    assert {len(hits) for hits in trec.values()} == {len(documents)}
    rowmax(*command, "-o", folder / "run.npy")
    array = np.load(folder / "run.npy")
    for i in range(3):
        assert [(str(hit["index"]), pytest.approx(hit["score"])) for hit in array[i]] == trec[str(i)]
    write_plaid_index(folder / "other", rng, [[4, 2]], np.int32, np.float32)
    assert len(read_trec(rowmax("search", folder / "q.npy", "--index", folder / "other").stdout)["0"]) == 2


def test_inspect(rowmax, index):
    folder, _, documents = index
    text = rowmax("inspect", folder / "index", "--deep").stdout
    assert "plaid index, 3 chunks, nbits = 4" in text and "items       7, 37 tokens, d = 16" in text
    found = json.loads(rowmax("inspect", folder / "index", "--json").stdout)
    assert (found["items"], found["tokens"], found["centroids"], found["centroid_dtype"]) == (7, 37, 30, "float16")
    assert found["length"] == {"min": 0, "median": 5, "max": 12}


def test_what_is_wrong_is_named(rowmax, index):
    folder, _, _ = index
    codes = np.load(folder / "index" / "2.codes.npy")
    codes[4] = 30
    np.save(folder / "index" / "2.codes.npy", codes)
    search = ("search", folder / "q.npy", "--index", folder / "index")
    assert "code 30" in rowmax(*search, code=3).stderr
    assert "2.codes: code 4 is 30, but there are 30 centroids" in rowmax("inspect", folder / "index", "--deep", code=3).stderr
    (folder / "index" / "doclens.2.json").write_text("[3, 0, 12, 8]")
    assert "2.codes: it holds 22 codes, but doclens.2.json counts 23 tokens" in rowmax(*search, code=3).stderr
    (folder / "index" / "1.codes.npy").unlink()
    assert "1.codes.npy" in rowmax(*search, code=3).stderr


def test_usage(rowmax, index):
    folder, _, _ = index
    search = ("search", folder / "q.npy", "--index", folder / "index")
    assert "--index" in rowmax(*search, folder / "q.npy", code=2).stderr
    assert "--normalize" in rowmax(*search, "--normalize", code=2).stderr
    assert "corpora" in rowmax("search", folder / "q.npy", code=2).stderr
    assert "--candidates 1" in rowmax(*search, "--candidates", 1, "-k", 5, code=2).stderr
    assert "rowmax search --index" in rowmax("search", folder / "q.npy", folder / "index", code=3).stderr
    np.save(folder / "wide.npy", np.zeros((1, 2, D + 1), np.float32))
    assert "d = 17" in rowmax("search", folder / "wide.npy", "--index", folder / "index", code=3).stderr


def test_colbert_indexes_of_torch_files(rowmax, index, rng):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    folder, _, _ = index
    documents = write_plaid_index(folder / "npy", rng, [[5, 9, 1], [], [3, 0, 12, 7]], np.int32)
    other = folder / "torch"
    other.mkdir()

    def tensor(name):
        return torch.from_numpy(np.load(folder / "npy" / f"{name}.npy"))

    for name in ("centroids", *(f"{i}.{kind}" for i in range(3) for kind in ("codes", "residuals"))):
        torch.save(tensor(name), other / f"{name}.pt")
    torch.save((tensor("bucket_cutoffs"), tensor("bucket_weights")), other / "buckets.pt")
    for i in range(3):
        (other / f"doclens.{i}.json").write_text((folder / "npy" / f"doclens.{i}.json").read_text())
    (other / "metadata.json").write_text(json.dumps({"config": {"nbits": PLAID_BITS, "dim": D}, "num_chunks": 3}))
    search = ("search", folder / "q.npy", "--index")
    assert rowmax(*search, other).stdout == rowmax(*search, folder / "npy").stdout
    assert f"items       {len(documents)}" in rowmax("inspect", other, "--deep").stdout
    torch.save({"weights": tensor("bucket_weights")}, other / "buckets.pt")
    assert "buckets.pt: it holds something else than tensors" in rowmax(*search, other, code=3).stderr
    (other / "buckets.pt").write_bytes((other / "centroids.pt").read_bytes()[:-30])
    assert "buckets.pt: zip" in rowmax(*search, other, code=3).stderr


def test_probes_find_what_is_near(rowmax, index):
    folder, queries, documents = index
    search = ("search", folder / "q.npy", "--index", folder / "index")
    exact = read_trec(rowmax(*search).stdout)
    assert rowmax(*search, "--exact").stdout == rowmax(*search).stdout
    every = read_trec(rowmax(*search, "--nprobe", 30).stdout)
    empty = str([len(d) for d in documents].index(0))
    for query, hits in exact.items():
        assert every[query] == [hit for hit in hits if hit[0] != empty]
    few = read_trec(rowmax(*search, "--nprobe", 1, "--candidates", 2).stdout)
    for query, hits in few.items():
        assert 0 < len(hits) <= 2 and set(hits) <= set(exact[query])
    one, two = (rowmax(*search, "--candidates", 3, "--threshold", "0.3", "--threads", n).stdout for n in (1, 2))
    assert one == two and read_trec(one)
    rowmax(*search, "--nprobe", 1, "-o", folder / "run.npy")
    array = np.load(folder / "run.npy")
    assert array.shape == (3, len(documents)) and (array["index"][:, -1] == -1).all()


def test_usage_of_probes(rowmax, index):
    folder, _, _ = index
    search = ("search", folder / "q.npy", "--index", folder / "index")
    assert "--exact" in rowmax(*search, "--exact", "--nprobe", 2, code=2).stderr
    assert "--nprobe" in rowmax(*search, "--nprobe", 0, code=2).stderr
    assert "'x' is not a number" in rowmax(*search, "--threshold", "x", code=2).stderr
    assert "--nprobe" in rowmax("search", folder / "q.npy", folder / "q.npy", "--nprobe", 2, code=2).stderr
    np.save(folder / "index" / "ivf.npy", np.array([9]))
    np.save(folder / "index" / "ivf_lengths.npy", np.array([1]))
    assert "ivf[0] is 9, but there are 7 documents" in rowmax(*search, "--nprobe", 30, code=3).stderr
