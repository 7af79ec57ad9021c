"""rowmax score: every pair, chosen pairs, masks, formats."""

import json

import numpy as np
import pytest
from command_support import maxsim, small_integers


@pytest.fixture
def small(tmp_path, rng):
    q, d = small_integers(rng, 4, 6, 16), small_integers(rng, 12, 9, 16)
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "d.npy", d)
    return tmp_path, q, d


def test_all_pairs(rowmax, small):
    folder, q, d = small
    rowmax("score", folder / "q.npy", folder / "d.npy", "-o", folder / "s.npy")
    scores = np.load(folder / "s.npy")
    assert scores.dtype == np.float32
    assert (scores == maxsim(q, d)).all()


def test_formats_agree(rowmax, small):
    folder, q, d = small
    want = [(str(i), str(j), s) for i, row in enumerate(maxsim(q, d)) for j, s in enumerate(row)]
    rows = [line.split("\t") for line in rowmax("score", folder / "q.npy", folder / "d.npy").stdout.splitlines()]
    assert [(q, d, float(s)) for q, d, s in rows] == want
    lines = rowmax("score", folder / "q.npy", folder / "d.npy", "--format", "jsonl").stdout.splitlines()
    assert [tuple(json.loads(line).values()) for line in lines] == want


def test_grouped(rowmax, small):
    folder, q, d = small
    rowmax("score", folder / "q.npy", folder / "d.npy", "--grouped", "-o", folder / "s.npy")
    scores, full = np.load(folder / "s.npy"), maxsim(q, d)
    assert (scores == [[full[i, 3 * i + j] for j in range(3)] for i in range(4)]).all()


def test_grouped_must_divide(rowmax, small):
    folder, _, d = small
    np.save(folder / "d.npy", d[:11])
    assert "11 documents" in rowmax("score", folder / "q.npy", folder / "d.npy", "--grouped", code=3).stderr


def test_listed_pairs(rowmax, small):
    folder, q, d = small
    pairs = [(3, 11), (0, 0), (3, 11), (2, 5)]
    (folder / "pairs").write_text(
        "".join(f"{i} {j}\n" for i, j in pairs[:2]) + "\n" + "".join(f"#{i}\t#{j}\n" for i, j in pairs[2:])
    )
    rowmax("score", folder / "q.npy", folder / "d.npy", "--pairs", folder / "pairs", "-o", folder / "s.npy")
    assert (np.load(folder / "s.npy") == [maxsim(q, d)[pair] for pair in pairs]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [("0 99\n", "no document '99'"), ("x 0\n", "no query 'x'"), ("0 0\n0 1 2\n", "line 2"), ("0\n", "line 1")],
)
def test_bad_pairs(rowmax, small, text, message):
    folder, _, _ = small
    (folder / "pairs").write_text(text)
    assert message in rowmax("score", folder / "q.npy", folder / "d.npy", "--pairs", folder / "pairs", code=3).stderr


def test_masks(rowmax, small, rng):
    folder, q, d = small
    d_mask, q_mask = rng.random((12, 9)) < 0.6, rng.random((1, 6)) < 0.6
    d_mask[:, 0] = True
    np.save(folder / "dm.npy", d_mask)
    np.save(folder / "qm.npy", q_mask.astype("i4"))
    poisoned = np.where(d_mask[:, :, None], d, np.nan).astype("f4")
    np.save(folder / "d.npy", poisoned)
    rowmax(
        "score",
        folder / "q.npy",
        folder / "d.npy",
        "--d-mask",
        folder / "dm.npy",
        "--q-mask",
        folder / "qm.npy",
        "-o",
        folder / "s.npy",
    )
    similarity = np.einsum("isk,jtk->ijst", q, d)
    similarity = np.where(d_mask[None, :, None, :], similarity, -np.inf).max(axis=3)
    assert (np.load(folder / "s.npy") == (similarity * q_mask[0]).sum(axis=2)).all()


def test_mask_of_another_shape(rowmax, small):
    folder, _, _ = small
    np.save(folder / "dm.npy", np.ones((11, 9), bool))
    done = rowmax(
        "score", folder / "q.npy", folder / "d.npy", "--d-mask", folder / "dm.npy", "-o", folder / "s.npy", code=3
    )
    assert "mask" in done.stderr
    assert "[11, 9]" in done.stderr
    assert not (folder / "s.npy").exists()


def test_memory_and_threads_do_not_change_bytes(rowmax, tmp_path, rng):
    np.save(tmp_path / "q.npy", rng.normal(size=(50, 32, 64)).astype("f4"))
    np.save(tmp_path / "d.npy", rng.normal(size=(2000, 30, 64)).astype("f4"))
    for name, options in {"a": (), "b": ("--threads", 2, "--memory", "9M"), "c": ("--threads", 1)}.items():
        rowmax("score", tmp_path / "q.npy", tmp_path / "d.npy", *options, "-o", tmp_path / f"{name}.npy")
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes() == (tmp_path / "c.npy").read_bytes()


def test_nan_is_a_string_in_json(rowmax, tmp_path):
    np.save(tmp_path / "q.npy", np.ones((1, 1, 2), "f4"))
    np.save(tmp_path / "d.npy", np.array([[[np.nan, 0]], [[np.inf, 0]]], "f4"))
    lines = rowmax("score", tmp_path / "q.npy", tmp_path / "d.npy", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["score"] for line in lines] == ["NaN", "Infinity"]
