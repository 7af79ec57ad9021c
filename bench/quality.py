"""Keeps what `make demo` found (demo-data/results.json) as a result file: known-item search, MaxSim beside mean pooling.

    quality.py [demo-data/results.json]
"""

import json
import sys
from pathlib import Path

import machine
import results


def lines_of(report: dict) -> list[dict]:
    stamp = {"device": machine.device(), "commit": machine.commit(), "date": report["date"]}
    corpus = {key: report[key] for key in ("source", "documents", "document_tokens", "queries", "model")}
    first = {"case": "ceilings", "note": "quality, not speed: nothing of the machine was measured"}
    ranked = [{"case": "known-item", "impl": impl, **measures, **corpus} for impl, measures in report["measures"].items()]
    return [{**line, **stamp} for line in (first, *ranked)]


def main() -> None:
    source = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-data/results.json")
    report = json.loads(source.read_text())
    path = results.FOLDER / f"{machine.slug(machine.device())}-{report['date']}-quality.jsonl"
    results.write(path, lines_of(report))
    print(path)


if __name__ == "__main__":
    main()
