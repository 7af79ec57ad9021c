"""A result file in the format of bench/results.py, whole after every line, and the arguments that all scripts share."""

import argparse
import datetime
import json
import traceback
from collections.abc import Callable
from pathlib import Path

import torch


def parser(description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--output", type=Path, required=True, help="the result file")
    made.add_argument("--commit", default="unknown", help="what the measured build was made from")
    return made


class Report:
    def __init__(self, args: argparse.Namespace, **measured: object) -> None:
        self.path = args.output
        self.run = {"device": torch.cuda.get_device_name(), "commit": args.commit, "date": str(datetime.date.today())}
        self.lines: list[dict] = []
        self.add(case="ceilings", torch=torch.__version__, **measured)

    def add(self, **line: object) -> dict:
        self.lines.append(line | self.run)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return self.lines[-1]


def failure(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def attempted(impl: str, measure: Callable[[], dict]) -> dict:
    """What was measured, or why it could not be; failures of our own are told in full."""
    try:
        return measure()
    except Exception as error:
        if impl.startswith("rowmax"):
            traceback.print_exc()
        return {"failed": failure(error)}
