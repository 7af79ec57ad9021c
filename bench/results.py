"""Result files: one JSON object a line, the first with case "ceilings" (what the run measured of the machine)."""

import json
import statistics
from pathlib import Path

FOLDER = Path(__file__).parent / "results"


def spread(values, digits: int = 4) -> dict:
    deciles = statistics.quantiles([float(value) for value in values], n=10, method="inclusive")
    return {name: round(deciles[i], digits) for name, i in (("median", 4), ("p10", 0), ("p90", 8))}


def write(path: Path, lines: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]
