"""What importing rowmax brings along, and that its types are what it says."""

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rowmax
from rowmax import _native

PACKAGE = Path(rowmax.__file__).parent


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_import_and_use_bring_neither_torch_nor_jax():
    result = run(
        "import sys, numpy as np, rowmax\n"
        "rowmax.maxsim(np.ones((1, 2, 3), 'f'), np.ones((4, 5, 3), 'f'))\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'jax', 'cupy', 'ml_dtypes')])"
    )
    assert result.stdout.strip() == "[]", result.stderr


def test_nothing_leaks_at_exit():
    result = run(
        "import numpy as np, rowmax\n"
        "q = np.ones((1, 2, 3), 'f')\n"
        "rowmax.maxsim(q, q); rowmax.kernels()\n"
        "try: rowmax.maxsim(q, q[..., :2])\n"
        "except ValueError: pass\n"
    )
    assert result.returncode == 0 and result.stderr == ""


def test_every_public_function_says_what_it_does():
    for name in rowmax.__all__:
        value = getattr(rowmax, name)
        assert name == "__version__" or name == "KernelInfo" or inspect.getdoc(value), name


def test_every_call_takes_validate_out_and_dtype():
    scores = ("maxsim", "maxsim_pairs", "maxsim_varlen", "score_pairs_packed", "score_ranges", "topk")
    selections = ("maxsim_topk_tokens", "maxsim_smooth", "maxsim_prefixes", "maxsim_xtr")
    for name in (*scores, *selections, "inverse_grid", "scatter_sum"):
        parameters = inspect.signature(getattr(rowmax, name)).parameters
        for keyword in ("validate", "out", "dtype"):
            assert parameters[keyword].default is None and parameters[keyword].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists()
    # The sources: mypy refuses to check what lies in site-packages.
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), str(root / "python" / "rowmax")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_the_stub_has_the_names_of_the_native_module():
    stub = ast.parse((PACKAGE / "_native.pyi").read_text())
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    assert public(_native) == functions | set(classes)
    for name, node in classes.items():
        members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
        assert public(getattr(_native, name)) == members - {"__init__"}


def public(owner):
    return {name for name in dir(owner) if not name.startswith("__")}


def help_of(name):
    """The docstring, and those of the functions whose keywords it says to share."""
    text, seen = getattr(rowmax, name).__doc__, {name}
    while others := {other for other in rowmax.__all__ if f"`{other}`" in text} - seen:
        seen |= others
        text += "".join(getattr(rowmax, other).__doc__ for other in others)
    return text


def test_help_names_every_argument():
    functions = [name for name in rowmax.__all__ if inspect.isfunction(getattr(rowmax, name))]
    assert len(functions) >= 11
    unnamed = [
        f"{name}: {argument}"
        for name in functions
        for argument in inspect.signature(getattr(rowmax, name)).parameters
        if not re.search(rf"\b{argument}\b", help_of(name))
    ]
    assert unnamed == []
