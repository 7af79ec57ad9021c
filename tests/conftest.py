import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))


@pytest.fixture(scope="session")
def build():
    """Where the release preset was built, or $ROWMAX_BUILD."""
    return Path(os.environ.get("ROWMAX_BUILD", ROOT / "build" / "release"))


@pytest.fixture(scope="session")
def rowmax_command(build):
    """The command itself; tests that need it are skipped where it is not built."""
    command = build / "cli" / "rowmax"
    if not command.exists():
        pytest.skip(f"{command} is not built")
    return command
