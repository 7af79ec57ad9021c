"""rowmax search: right, in every format, and the same bytes whatever the memory and the threads."""

import json
import resource
import subprocess

import numpy as np
import pytest
from command_support import clean_environment, maxsim, ranking, read_trec, small_integers


@pytest.fixture
def small(tmp_path, rng):
    """Queries and documents whose scores are exact, with many ties."""
    q = small_integers(rng, 5, 7, 16)
    d = small_integers(rng, 40, 9, 16)
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "d.npy", d)
    return tmp_path, q, d


def test_ranks_as_the_definition_does(rowmax, small):
    folder, q, d = small
    run = read_trec(rowmax("search", folder / "q.npy", folder / "d.npy", "-k", 12).stdout)
    scores = maxsim(q, d)
    for i, order in enumerate(ranking(scores)[:, :12]):
        assert run[str(i)] == [(str(j), scores[i, j]) for j in order]


def test_formats_agree(rowmax, small):
    folder, q, d = small
    command = ("search", folder / "q.npy", folder / "d.npy", "-k", 6)
    trec = read_trec(rowmax(*command, "--tag", "mine").stdout)
    lines = [json.loads(line) for line in rowmax(*command, "--format", "jsonl").stdout.splitlines()]
    assert {line["query"]: [(hit["doc"], hit["score"]) for hit in line["hits"]] for line in lines} == trec
    tsv = [line.split("\t") for line in rowmax(*command, "--format", "tsv").stdout.splitlines()]
    assert [(row[0], row[1], float(row[3])) for row in tsv] == [(q, d, s) for q, hits in trec.items() for d, s in hits]
    rowmax(*command, "-o", folder / "run.npy")
    array = np.load(folder / "run.npy")
    assert array.shape == (5, 6)
    for i in range(5):
        assert [(str(hit["index"]), hit["score"]) for hit in array[i]] == trec[str(i)]


def test_k_larger_than_the_corpus(rowmax, small):
    folder, _, d = small
    run = read_trec(rowmax("search", folder / "q.npy", folder / "d.npy", "-k", 1000).stdout)
    assert {len(hits) for hits in run.values()} == {len(d)}


def test_several_corpora_count_through(rowmax, small):
    folder, _, d = small
    np.save(folder / "a.npy", d[:11])
    np.save(folder / "b.npy", d[11:])
    (folder / "a.ids").write_text("".join(f"a{i}\n" for i in range(11)))
    rowmax("pack", folder / "a.npy", "--ids", folder / "a.ids", "-o", folder / "a.rmx")
    rowmax("search", folder / "q.npy", folder / "d.npy", "-o", folder / "one.npy")
    rowmax("search", folder / "q.npy", folder / "a.rmx", folder / "b.npy", "-o", folder / "two.npy")
    assert (folder / "one.npy").read_bytes() == (folder / "two.npy").read_bytes()
    run = read_trec(rowmax("search", folder / "q.npy", folder / "a.rmx", folder / "b.npy", "-k", 40).stdout)
    names = {f"a{i}" for i in range(11)} | {str(i) for i in range(11, 40)}
    assert {document for document, _ in run["0"]} == names


def test_query_ids(rowmax, small):
    folder, _, _ = small
    (folder / "ids").write_text("alpha\nbeta\ngamma\ndelta\nepsilon\n")
    run = read_trec(rowmax("search", folder / "q.npy", folder / "d.npy", "--query-ids", folder / "ids").stdout)
    assert list(run) == ["alpha", "beta", "gamma", "delta", "epsilon"]


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_types(rowmax, tmp_path, rng, dtype):
    q, d = small_integers(rng, 3, 5, 24, dtype=dtype), small_integers(rng, 20, 6, 24, dtype=dtype)
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "d.npy", d)
    rowmax("search", tmp_path / "q.npy", tmp_path / "d.npy", "-k", 20, "-o", tmp_path / "run.npy")
    array = np.load(tmp_path / "run.npy")
    assert array["score"].dtype == (np.float64 if dtype == "float64" else np.float32)
    assert (array["index"] == ranking(maxsim(q, d))).all()


def test_bfloat16_by_name(rowmax, tmp_path, rng):
    q, d = small_integers(rng, 3, 5, 24), small_integers(rng, 20, 6, 24)
    for name, array in (("q", q), ("d", d)):
        np.save(tmp_path / f"{name}.npy", (array.view(np.uint32) >> 16).astype(np.uint16))
    files = (tmp_path / "q.npy", tmp_path / "d.npy")
    rowmax("search", *files, "--dtype", "bfloat16", "--query-dtype", "bfloat16", "-k", 20, "-o", tmp_path / "run.npy")
    assert (np.load(tmp_path / "run.npy")["index"] == ranking(maxsim(q, d))).all()


def test_normalize_scores_cosines(rowmax, tmp_path, rng):
    q, d = rng.normal(size=(2, 5, 24)).astype("f4"), rng.normal(size=(30, 6, 24)).astype("f4")
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "d.npy", d)
    rowmax("search", tmp_path / "q.npy", tmp_path / "d.npy", "--normalize", "-k", 30, "-o", tmp_path / "run.npy")
    want = maxsim(q / np.linalg.norm(q, axis=2, keepdims=True), d / np.linalg.norm(d, axis=2, keepdims=True))
    got = np.load(tmp_path / "run.npy")
    for i in range(2):
        np.testing.assert_allclose(got["score"][i], want[i][got["index"][i]], rtol=0, atol=5e-6)


# A corpus of 64 MiB: four times 16M.
@pytest.fixture(scope="module")
def large(tmp_path_factory, binary):
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 400, size=660)
    tokens = rng.normal(size=(int(lengths.sum()), 128)).astype("f4")
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    np.savez(folder / "d.npz", tokens=tokens, cu_seqlens=offsets)
    subprocess.run([binary, "pack", folder / "d.npz", "-o", folder / "d.rmx"], check=True, stderr=subprocess.DEVNULL)
    assert (folder / "d.rmx").stat().st_size > 4 * (16 << 20)
    np.save(folder / "q.npy", rng.normal(size=(20, 32, 128)).astype("f4"))
    pages = folder / "pages"
    pages.mkdir()
    for i in range(660):
        np.save(pages / f"{i}.npy", tokens[offsets[i] : offsets[i + 1]])
    subprocess.run([binary, "search", folder / "q.npy", folder / "d.rmx", "-o", folder / "expected"], check=True)
    return folder


def peak_anonymous(command):
    """Runs it and returns the most writable private memory it had, from outside, in bytes."""
    process = subprocess.Popen(command, env=clean_environment())
    peak = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as status:
                for line in status:
                    if line.startswith("RssAnon:"):
                        peak = max(peak, int(line.split()[1]) * 1024)
        except (FileNotFoundError, ProcessLookupError):
            break
    assert process.wait() == 0
    return peak


@pytest.mark.parametrize("corpus", ["d.rmx", "pages", "d.npz"])
def test_four_times_memory_gives_the_same_bytes(binary, large, tmp_path, corpus):
    out = tmp_path / "run"
    peak = peak_anonymous(
        [binary, "search", large / "q.npy", large / corpus, "--memory", "16M", "--threads", "2", "-o", out]
    )
    assert out.read_bytes() == (large / "expected").read_bytes()
    assert 0 < peak <= 16 << 20


def test_memory_is_enforced_from_outside(binary, large, tmp_path):
    """The kernel refuses private writable memory beyond the cap and what threads reserve for their stacks."""
    out = tmp_path / "run"
    cap = (16 << 20) + 2 * (8 << 20)
    subprocess.run(
        [binary, "search", large / "q.npy", large / "d.rmx", "--memory", "16M", "--threads", "2", "-o", out],
        check=True,
        env=clean_environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (cap, cap)),
    )
    assert out.read_bytes() == (large / "expected").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ("--threads", 1), ("--threads", 3), ("--threads", 2, "--memory", "9M"), ("--memory", "1G"),
        ("--checkpoint-every", 0),
    ],
)  # fmt: skip
def test_bytes_do_not_depend_on_resources(rowmax, large, tmp_path, options):
    rowmax("search", large / "q.npy", large / "d.rmx", *options, "-o", tmp_path / "run")
    assert (tmp_path / "run").read_bytes() == (large / "expected").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_too_little_memory_is_a_usage_error(rowmax, large, tmp_path):
    done = rowmax("search", large / "q.npy", large / "d.rmx", "--memory", "100K", "-o", tmp_path / "run", code=2)
    assert "--memory 100K" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_memory_that_threads_need_is_counted_for_those_that_work(rowmax, large):
    files = (large / "q.npy", large / "d.rmx", "--memory", "16M")
    rowmax("search", *files, env={"ROWMAX_THREADS": "2"})
    assert "--memory 16M" in rowmax("search", *files, env={"ROWMAX_THREADS": "64"}, code=2).stderr


def test_empty_inputs(rowmax, tmp_path):
    np.save(tmp_path / "none.npy", np.zeros((0, 5, 8), "f4"))
    np.save(tmp_path / "some.npy", np.ones((2, 5, 8), "f4"))
    assert rowmax("search", tmp_path / "none.npy", tmp_path / "some.npy").stdout == ""
    assert rowmax("search", tmp_path / "some.npy", tmp_path / "none.npy").stdout == ""


def test_documents_without_tokens_score_zero(rowmax, tmp_path):
    np.savez(tmp_path / "d.npz", tokens=-np.ones((3, 4), "f4"), cu_seqlens=np.array([0, 0, 3]))
    np.save(tmp_path / "q.npy", np.ones((1, 2, 4), "f4"))
    assert read_trec(rowmax("search", tmp_path / "q.npy", tmp_path / "d.npz").stdout) == {"0": [("0", 0), ("1", -8)]}
