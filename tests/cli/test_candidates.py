"""rowmax pack --coarse and rowmax search --candidates."""

import json

import numpy as np
import pytest
from command_support import read_trec

D = 24


@pytest.fixture
def files(tmp_path, rng):
    lengths = rng.integers(1, 30, 200)
    tokens = rng.standard_normal((lengths.sum(), D)).astype(np.float32)
    starts = np.cumsum(lengths) - lengths
    queries = np.stack([np.resize(tokens[s : s + n], (6, D)) for s, n in zip(starts[:5], lengths[:5], strict=True)])
    np.savez(tmp_path / "q.npz", tokens=queries + 0.05 * rng.standard_normal(queries.shape).astype(np.float32))
    for name, rows in (("a", slice(0, 120)), ("b", slice(120, 200))):
        begin, end = starts[rows][0], (starts + lengths)[rows][-1]
        np.savez(tmp_path / f"{name}.npz", tokens=tokens[begin:end], lengths=lengths[rows])
    return tmp_path


@pytest.fixture
def packed(rowmax, files):
    for name in ("a", "b"):
        rowmax("pack", files / f"{name}.npz", "--coarse", "int8,fp8,bits", "-o", files / f"{name}.rmx")
    return files


def test_inspect_lists_the_forms(rowmax, packed):
    text = rowmax("inspect", packed / "a.rmx", "--deep").stdout
    assert "int8.codes int8 [" in text and "int8.scale float32 [" in text and "bits uint8 [" in text
    names = [array["name"] for array in json.loads(rowmax("inspect", packed / "a.rmx", "--json").stdout)["arrays"]]
    assert names[2:] == ["int8.codes", "int8.scale", "fp8.codes", "fp8.scale", "bits"]


@pytest.mark.parametrize("form", [None, "int8", "fp8", "bits"])
def test_with_candidates_enough_it_is_the_exact_ranking(rowmax, packed, form):
    search = ("search", packed / "q.npz", packed / "a.rmx", packed / "b.rmx", "-k", 7)
    exact = rowmax(*search).stdout
    chosen = () if form is None else ("--coarse", form)
    assert rowmax(*search, "--candidates", 200, *chosen).stdout == exact
    some = read_trec(rowmax(*search, "--candidates", 30, *chosen).stdout)
    for query, hits in read_trec(exact).items():
        assert some[query][0] == hits[0] and len(some[query]) == 7
    for options in (("--threads", 1), ("--memory", "40M"), ("--threads", 2, "--memory", "24M")):
        assert rowmax(*search, "--candidates", 30, *chosen, *options).stdout == rowmax(*search, "--candidates", 30, *chosen).stdout


def test_usage(rowmax, packed):
    search = ("search", packed / "q.npz", packed / "a.rmx")
    assert "too little" in rowmax(*search, "--candidates", 5, "--memory", "1M", code=2).stderr
    assert "--coarse" in rowmax(*search, "--coarse", "int8", code=2).stderr
    assert "--exact" in rowmax(*search, "--exact", "--candidates", 5, code=2).stderr
    few = rowmax(*search, "--candidates", 1, "-k", 5, code=2).stderr
    assert "--candidates 1" in few and "-k 5" in few
    assert {len(hits) for hits in read_trec(rowmax(*search, "--candidates", 3).stdout).values()} == {3}
    assert "--normalize" in rowmax(*search, "--normalize", "--candidates", 5, code=2).stderr
    assert "pack --coarse int8" in rowmax("search", packed / "q.npz", packed / "a.npz", "--candidates", 5, code=3).stderr
    rowmax("pack", packed / "a.npz", "-o", packed / "plain.rmx")
    plain = ("search", packed / "q.npz", packed / "plain.rmx", "--candidates", 5)
    assert "without a coarse form" in rowmax(*plain, code=3).stderr
    assert "without a coarse form bits" in rowmax(*plain, "--coarse", "bits", code=3).stderr
    rowmax("pack", packed / "b.npz", "--to", "float16", "--coarse", "bits", "-o", packed / "half.rmx")
    assert "float16" in rowmax("search", packed / "q.npz", packed / "half.rmx", "--candidates", 5, code=3).stderr
    assert "--coarse" in rowmax("pack", packed / "a.npz", "--coarse", "int8", "--index", "-o", packed / "x", code=2).stderr
