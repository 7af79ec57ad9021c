"""The rowmax command, run as a user runs it."""

import os
import pathlib
import subprocess

import numpy as np
import pytest
from command_support import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def binary():
    path = pathlib.Path(os.environ.get("ROWMAX_BINARY", ROOT / "build/release/cli/rowmax"))
    if not path.exists():
        pytest.fail(f"{path} is not there: build it, or name it in ROWMAX_BINARY")
    return str(path)


@pytest.fixture(scope="session")
def rowmax(binary):
    """rowmax(arguments..., code=expected exit code) -> CompletedProcess with text in stdout and stderr."""

    def run(*arguments, code=0, text=True, env=None, **options):
        done = subprocess.run(
            [binary, *map(str, arguments)],
            capture_output=True,
            text=text,
            env=clean_environment(**(env or {})),
            timeout=300,
            **options,
        )
        assert done.returncode == code, f"exit code {done.returncode}, not {code}: {done.stderr}"
        return done

    return run


@pytest.fixture
def rng():
    return np.random.default_rng(7)
