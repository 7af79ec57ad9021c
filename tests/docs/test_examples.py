"""Every example of the documentation runs: fenced python and sh blocks, in order, in an empty folder.

Blocks of one document share their variables and their files. Commands that install or build stand in `console` blocks.
A document that says that its examples need torch or a CUDA device is skipped where there is none.
"""

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

import rowmax

ROOT = Path(__file__).parents[2]
DOCUMENTS = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if path.exists()]
HAS_TORCH = importlib.util.find_spec("torch") is not None
FENCE = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lacking(document):
    """Why the examples of a document cannot run here, or nothing."""
    text = document.read_text()
    needs_device = "examples of this page need a CUDA device" in text
    if not HAS_TORCH and (needs_device or "examples of this page need torch" in text):
        return "torch is not installed"
    if not needs_device:
        return ""
    if not any(kernel.backend == "cuda" and kernel.available for kernel in rowmax.kernels()):
        return "there is no CUDA device, or no CUDA kernels in this build"
    return ""


def blocks(document):
    """(language, code, line) of each block."""
    text = document.read_text()
    return [(m[1], m[2], text.count("\n", 0, m.start(2))) for m in FENCE.finditer(text)]


def run_python(code, line, document, variables):
    # Blank lines in front give tracebacks the document's own line numbers.
    exec(compile("\n" * line + code, str(document), "exec"), variables)


def run_shell(code, line, document):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{document}:{line + 1}: exit status {done.returncode}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if blocks(d)], ids=lambda path: path.name)
def test_examples(document, tmp_path, monkeypatch, request):
    if reason := lacking(document):
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    if any(language == "sh" for language, _, _ in blocks(document)):
        command = request.getfixturevalue("rowmax_command")
        monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    variables = {"__name__": "__example__"}
    for language, code, line in blocks(document):
        if language == "sh":
            run_shell(code, line, document)
        elif HAS_TORCH or "import torch" not in code:
            run_python(code, line, document, variables)
