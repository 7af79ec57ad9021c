"""What importing the losses needs, and that their help is whole."""

import inspect
import re
import subprocess
import sys

import rowmax
from rowmax import losses


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_torch_rowmax_imports_and_the_losses_say_what_they_need():
    result = run(
        "import sys\n"
        "sys.modules['torch'] = None  # as if it were not installed\n"
        "import rowmax\n"
        "try: import rowmax.losses\n"
        "except ImportError as error: print(error)\n"
    )
    assert result.stdout.strip() == "rowmax.losses needs torch: pip install 'rowmax[torch]'", result.stderr


def test_help_names_every_argument():
    assert set(losses.__all__) == set(re.findall(r"^    (\w+) {2,}", losses.__doc__, re.MULTILINE))
    for name in losses.__all__:
        value = getattr(losses, name)
        text = inspect.getdoc(value)
        if "those of `maxsim`" in text:
            text += rowmax.maxsim.__doc__
        if "`contrastive_loss`" in text:
            text += losses.contrastive_loss.__doc__ + rowmax.maxsim.__doc__
        for argument in inspect.signature(value).parameters:
            assert re.search(rf"\b{argument}\b", text), f"{name}: {argument}"
