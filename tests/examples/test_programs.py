"""The example programs: C and C++ are built against an installed rowmax, as a user would, and run."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(build, tmp_path_factory):
    """rowmax, installed from the build tree."""
    if not (build / "src" / "librowmax.so").exists():
        pytest.skip(f"{build} holds no library")
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", build, "--prefix", prefix)
    return prefix


def built(example, program, prefix, tmp_path):
    run("cmake", "-S", EXAMPLES / example, "-B", tmp_path, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    return run(tmp_path / program)


def test_cpp_ranks_ragged_documents(prefix, tmp_path):
    lines = built("cpp", "rank_ragged", prefix, tmp_path).splitlines()
    assert lines[2] == "document 2: 4.000, answered by tokens 9 10 11 12"
    assert lines[3] == "document 3: 0.000, answered by tokens -1 -1 -1 -1"  # the empty one
    assert lines[-1] == "best: document 2"


def test_c_rescores_in_place(prefix, tmp_path):
    assert built("c", "rescore", prefix, tmp_path).splitlines() == [
        "candidate 0: 1, answered by tokens 0 and 0",
        "candidate 1: 3, answered by tokens 0 and 1",
        "candidate 2: 3, answered by tokens 2 and 0",
    ]


def test_python_reranks():
    pytest.importorskip("rowmax")
    lines = run(sys.executable, EXAMPLES / "python" / "rerank.py").splitlines()
    assert lines[0].startswith("document 42: ")
    assert lines[-1] == "answered by tokens [0, 1, 2, 3, 4, 5, 6, 7]"


def test_python_trains():
    pytest.importorskip("rowmax")
    pytest.importorskip("torch")
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", run(sys.executable, EXAMPLES / "python" / "train.py"))]
    assert losses[-1] < 0.5 * losses[0]


def test_python_fits_points(tmp_path):
    pytest.importorskip("rowmax")
    pytest.importorskip("torch")
    command = [sys.executable, EXAMPLES / "python" / "fit_points.py", "--points", "300", "--steps", "40"]
    picture = tmp_path / "fit.png"
    if importlib.util.find_spec("matplotlib") is not None:
        command += ["-o", picture]
    losses = [float(loss) for loss in re.findall(r"distance ([0-9.]+)", run(*command))]
    assert losses[-1] < 0.3 * losses[0]
    assert picture.exists() == ("-o" in command)


def test_python_clusters():
    pytest.importorskip("rowmax")
    lines = run(sys.executable, EXAMPLES / "python" / "cluster.py", "--documents", "120", "--clusters", "40").splitlines()
    assert lines[0].startswith("3600 tokens, 40 clusters of ")
    assert lines[-1].endswith("best: 7, of all documents: 7")


def test_python_routes():
    pytest.importorskip("rowmax")
    pytest.importorskip("torch")
    lines = run(sys.executable, EXAMPLES / "python" / "routing.py").splitlines()
    first, last = map(float, re.findall(r"[0-9]+\.[0-9]+", lines[0]))
    assert last < 0.5 * first
    assert lines[1] == "a second run is the same bit for bit"


def test_python_selects():
    pytest.importorskip("rowmax")
    pytest.importorskip("torch")
    assert run(sys.executable, EXAMPLES / "python" / "hard_selection.py").splitlines() == [
        "pooled regions: [50, 8, 2, 2]",
        "gradients are right: True",
        "the same on every run: True",
        "attention is right: True True",
    ]
