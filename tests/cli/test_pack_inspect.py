"""rowmax pack and rowmax inspect."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest
from command_support import read_trec, small_integers


@pytest.fixture
def documents(tmp_path, rng):
    """The same documents of different lengths in every kind of input."""
    lengths = np.array([3, 0, 7, 1, 5])
    tokens = small_integers(rng, lengths.sum(), 8)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    padded = np.full((5, 7, 8), 99, "f4")
    folder = tmp_path / "folder"
    folder.mkdir()
    for i, length in enumerate(lengths):
        padded[i, :length] = tokens[offsets[i] : offsets[i + 1]]
        np.save(folder / f"{i}.npy", tokens[offsets[i] : offsets[i + 1]])
    np.savez(tmp_path / "packed.npz", tokens=tokens, cu_seqlens=offsets)
    np.savez(tmp_path / "lengths.npz", tokens=padded, lengths=lengths)
    np.savez_compressed(tmp_path / "masked.npz", tokens=padded, mask=np.arange(7) < lengths[:, None])
    np.save(tmp_path / "q.npy", small_integers(rng, 2, 4, 8))
    return tmp_path


@pytest.mark.parametrize("name", ["folder", "packed.npz", "lengths.npz", "masked.npz"])
def test_packed_ranks_as_its_input(rowmax, documents, name):
    done = rowmax("pack", documents / name, "-o", documents / "c.rmx", "--json")
    report = json.loads(done.stdout)
    assert (report["documents"], report["tokens"]) == (5, 16)
    packed = rowmax("search", documents / "q.npy", documents / "c.rmx").stdout
    assert packed == rowmax("search", documents / "q.npy", documents / name).stdout
    assert packed == rowmax("search", documents / "q.npy", documents / "packed.npz").stdout
    assert read_trec(packed)


def test_conversion(rowmax, documents):
    rowmax("pack", documents / "packed.npz", "--to", "float16", "-o", documents / "c.rmx")
    found = json.loads(rowmax("inspect", documents / "c.rmx", "--json").stdout)
    assert found["tokens"]["dtype"] == "float16"


def test_conversion_that_overflows(rowmax, tmp_path):
    np.save(tmp_path / "d.npy", np.full((1, 1, 4), 1e6, "f4"))
    done = rowmax("pack", tmp_path / "d.npy", "--to", "float16", "-o", tmp_path / "c.rmx", code=3)
    assert "1e+06" in done.stderr or "1000000" in done.stderr
    assert not (tmp_path / "c.rmx").exists()


def test_ids(rowmax, documents):
    (documents / "ids").write_text("one\ntwo\nthree\nfour\nfive\n")
    rowmax("pack", documents / "packed.npz", "--ids", documents / "ids", "-o", documents / "c.rmx")
    hits = read_trec(rowmax("search", documents / "q.npy", documents / "c.rmx").stdout)["0"]
    assert {document for document, _ in hits} == {"one", "two", "three", "four", "five"}
    (documents / "ids").write_text("one\ntwo\n")
    assert (
        "ids"
        in rowmax(
            "pack", documents / "packed.npz", "--ids", documents / "ids", "-o", documents / "x.rmx", code=3
        ).stderr
    )


def test_pack_onto_its_input(rowmax, documents):
    done = rowmax("pack", documents / "packed.npz", "-o", documents / "packed.npz", code=2)
    assert "also an input" in done.stderr


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_pack_leaves_nothing(binary, tmp_path, which):
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(3000):
        np.save(folder / f"{i}.npy", np.zeros((8, 128), "f4"))
    out = tmp_path / "out"
    out.mkdir()
    process = subprocess.Popen([binary, "pack", folder, "-o", out / "c.rmx", "--memory", "8M"], stderr=subprocess.PIPE)
    time.sleep(0.1)
    process.send_signal(which)
    process.communicate()
    assert process.returncode in (0, 130, -signal.SIGKILL)
    left = [path.name for path in out.iterdir()]
    if process.returncode == 130:
        assert left == []
    elif process.returncode == 0:
        assert left == ["c.rmx"]
    elif left:  # killed when all was done but the exit
        subprocess.run([binary, "inspect", "--deep", out / "c.rmx"], check=True, capture_output=True)


def test_packing_an_index_that_is_interrupted_leaves_nothing(binary, tmp_path):
    np.save(tmp_path / "d.npy", np.random.default_rng(0).normal(size=(4000, 64, 64)).astype("f4"))
    out = tmp_path / "out"
    out.mkdir()
    pack = [binary, "pack", tmp_path / "d.npy", "--index", "--iterations", "1000", "-o", out / "index"]
    process = subprocess.Popen(pack, stderr=subprocess.PIPE)
    while not list(out.iterdir()):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)  # at once: the second does not wait for a round of k-means to end
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert list(out.iterdir()) == []


def test_inspect_deep(rowmax, tmp_path):
    tokens = np.array([[[3, 4], [0, 0]], [[np.nan, 1], [np.inf, 0]]], "f4")
    np.save(tmp_path / "d.npy", tokens)
    found = json.loads(rowmax("inspect", tmp_path / "d.npy", "--deep", "--json").stdout)
    assert found["format"] == "npy"
    assert found["tokens"]["length"] == {"min": 2, "median": 2, "max": 2, "histogram": [{"at_most": 2, "count": 2}]}
    norms = found["norms"]
    assert (norms["tokens"], norms["zero"], norms["nan"], norms["infinite"]) == (4, 1, 1, 1)
    assert (norms["min"], norms["max"], norms["mean"]) == (0, 5, 2.5)
    text = rowmax("inspect", tmp_path / "d.npy", "--deep").stdout
    assert "1 with NaN" in text


def test_inspect_lengths(rowmax, documents):
    found = json.loads(rowmax("inspect", documents / "packed.npz", "--json").stdout)
    assert found["tokens"]["items"] == 5
    bins = [(b["at_most"], b["count"]) for b in found["tokens"]["length"]["histogram"]]
    assert bins == [(0, 1), (1, 1), (4, 1), (8, 2)]
    assert {array["name"] for array in found["arrays"]} == {"tokens", "cu_seqlens"}


def test_inspect_finds_damage_in_a_corpus(rowmax, documents):
    path = documents / "c.rmx"
    rowmax("pack", documents / "packed.npz", "-o", path)
    assert "16 tokens: " in rowmax("inspect", path, "--deep").stdout
    content = bytearray(path.read_bytes())
    for at in range(len(content) - 300, len(content) - 290):
        content[at] ^= 0x55
    path.write_bytes(content)
    assert "c.rmx" in rowmax("inspect", path, "--deep", code=3).stderr


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY\x01\x00\xff\xff{'descr'", b"PK\x03\x04 no archive"])
@pytest.mark.parametrize("command", ["inspect", "pack", "search", "score", "explain"])
def test_hostile_files_are_data_errors(rowmax, documents, content, command):
    path = documents / "bad"
    path.write_bytes(content)
    arguments = {
        "inspect": (path,),
        "pack": (path, "-o", documents / "out"),
        "search": (documents / "q.npy", path, "-o", documents / "out"),
        "score": (path, documents / "q.npy", "-o", documents / "out"),
        "explain": (documents / "q.npy", path, "--html", documents / "out"),
    }[command]
    done = rowmax(command, *arguments, code=3)
    assert str(path) in done.stderr
    assert not (documents / "out").exists()


@pytest.mark.parametrize("command", ["search", "score"])
def test_truncated_and_lying_inputs(rowmax, documents, command):
    whole = (documents / "q.npy").read_bytes()
    (documents / "cut.npy").write_bytes(whole[:-5])
    assert "cut.npy" in rowmax(command, documents / "q.npy", documents / "cut.npy", code=3).stderr
    np.savez(documents / "lie.npz", tokens=np.zeros((4, 8), "f4"), cu_seqlens=np.array([0, 3, 2, 4]))
    assert "cu_seqlens" in rowmax(command, documents / "q.npy", documents / "lie.npz", code=3).stderr


def test_mismatched_inputs_name_both_values(rowmax, documents):
    np.save(documents / "wide.npy", np.zeros((2, 3, 9), "f4"))
    done = rowmax("search", documents / "q.npy", documents / "wide.npy", code=3)
    assert "d = 8" in done.stderr
    assert "d = 9" in done.stderr
    np.save(documents / "half.npy", np.zeros((2, 3, 8), "f2"))
    done = rowmax("search", documents / "q.npy", documents / "half.npy", code=3)
    assert "float32" in done.stderr
    assert "float16" in done.stderr


def test_pack_as_index(rowmax, documents):
    folder = documents / "index"
    done = rowmax("pack", documents / "packed.npz", "--index", "--nbits", 8, "--centroids", 4, "-o", folder, "--json")
    assert json.loads(done.stdout) == {"documents": 5, "tokens": 16, "centroids": 4, "chunks": 1}
    found = json.loads(rowmax("inspect", folder, "--deep", "--json").stdout)
    assert (found["items"], found["tokens"], found["nbits"], found["centroids"]) == (5, 16, 8, 4)
    exact = rowmax("search", documents / "q.npy", "--index", folder).stdout
    wanted = read_trec(rowmax("search", documents / "q.npy", documents / "packed.npz", "--normalize").stdout)
    assert {len(hits) for hits in read_trec(exact).values()} == {len(hits) for hits in wanted.values()}
    for name in ("folder", "lengths.npz", "masked.npz"):
        rowmax("pack", documents / name, "--index", "--nbits", 8, "--centroids", 4, "-o", documents / f"{name}.index",
               "--threads", 1, "--memory", "64M")  # fmt: skip
        assert (documents / f"{name}.index" / "doclens.0.json").read_bytes() == (folder / "doclens.0.json").read_bytes()
    assert "exists" in rowmax("pack", documents / "packed.npz", "--index", "-o", folder, code=3).stderr


def test_usage_of_pack_as_index(rowmax, documents):
    pack = ("pack", documents / "packed.npz", "-o", documents / "out")
    assert "--index" in rowmax(*pack, "--nbits", 4, code=2).stderr
    assert "--to" in rowmax(*pack, "--index", "--to", "float16", code=2).stderr
    assert "--nbits" in rowmax(*pack, "--index", "--nbits", 3, code=2).stderr
    assert not (documents / "out").exists()


@pytest.mark.parametrize("options", [(), ("--index", "--centroids", 2)])
def test_what_is_packed_is_no_stream(rowmax, documents, options):
    done = rowmax("pack", documents / "packed.npz", "-o", "-", *options, code=2, cwd=documents)
    assert "--output -" in done.stderr and done.stdout == ""
    assert not (documents / "-").exists()
    rowmax("pack", documents / "packed.npz", "-o", "./-", *options, cwd=documents)
    assert (documents / "-").exists()


def test_an_index_without_its_metadata_is_no_folder_of_documents(rowmax, documents):
    rowmax("pack", documents / "packed.npz", "--index", "--centroids", 2, "-o", documents / "index")
    (documents / "index" / "metadata.json").unlink()
    for command in (("inspect",), ("search", documents / "q.npy", "--index")):
        done = rowmax(*command, documents / "index", code=3)
        assert "metadata.json" in done.stderr and done.stdout == ""
