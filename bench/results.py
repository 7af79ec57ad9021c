"""Result files: one JSON object a line, the first with case "ceilings" (what the run measured of the machine)."""

import json
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "results"


def spread(values, digits: int = 4) -> dict:
    p10, median, p90 = np.percentile(np.asarray(values, np.float64), [10, 50, 90])
    return {"median": round(median, digits), "p10": round(p10, digits), "p90": round(p90, digits)}


def write(path: Path, lines: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]
