"""The wheel: built in isolation, installed where there is only numpy."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USE = """
import sys, numpy as np, rowmax
q, d = np.ones((1, 2, 4), "f"), np.ones((3, 5, 4), "f")
assert rowmax.maxsim(q, d).tolist() == [[8.0, 8.0, 8.0]]
assert rowmax.topk(q, d, 2)[1].tolist() == [[0, 1]]
corpus = rowmax.Corpus.pack(sys.argv[1], list(d))
assert len(corpus) == 3
assert not {"torch", "jax", "ml_dtypes"} & set(sys.modules)
print(rowmax.__file__)
"""


def run(*command, **keywords):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **keywords)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    # With the flags of all other builds of a test run, so that a compiler cache has the objects.
    flags = ("--config-settings", "cmake.define.ROWMAX_WERROR=ON")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", *flags, "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def bare_python(folder, python=None):
    """A new environment with nothing in it but numpy."""
    if python is None:
        venv.create(folder, with_pip=True)
    else:
        run(python, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", "numpy")
    return folder / "bin" / "python"


def use(python, wheel, tmp_path):
    run(python, "-m", "pip", "install", "-q", "--no-deps", wheel)
    where = run(python, "-c", USE, tmp_path / "docs.rmx", cwd=tmp_path)
    assert str(python.parents[1]) in where


def test_the_tag_is_the_stable_abi_from_python_3_12(wheel):
    tag = "cp312-abi3" if sys.version_info >= (3, 12) else f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}"
    assert tag in wheel.name


def test_it_works_with_numpy_alone(wheel, tmp_path):
    use(bare_python(tmp_path / "venv"), wheel, tmp_path)


def test_it_holds_the_package_and_no_other_library(wheel):
    names = run(sys.executable, "-m", "zipfile", "-l", wheel)
    assert "rowmax/py.typed" in names and "rowmax/_native.pyi" in names
    assert "librowmax" not in names and "include/" not in names and names.count(".so") == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="before Python 3.12 a wheel serves one version")
@pytest.mark.skipif("ROWMAX_NEWER_PYTHON" not in os.environ, reason="ROWMAX_NEWER_PYTHON names no newer interpreter")
def test_one_wheel_serves_newer_pythons(wheel, tmp_path):
    use(bare_python(tmp_path / "venv", os.environ["ROWMAX_NEWER_PYTHON"]), wheel, tmp_path)
