"""The part of docs/benchmarks.md about training steps on a GPU, from the result file of bench/gpu/training.py."""

from collections.abc import Callable
from pathlib import Path

import results

Table = Callable[[list[str], list[list[str]]], str]
NAMES = {"rowmax": "rowmax", "torch": "torch", "fm": "flash-maxsim", "fm-invgrid": "flash-maxsim, inverse grid",
         "lik-unified": "late-interaction-kernels, unified", "lik-lowmem": "late-interaction-kernels, lowmem"}
# Milliseconds and MiB that the project set out to reach.
AIMS = {"train-32": 0.20, "train-128": 0.22, "train-256": 0.50, "train-128-1024": 1.3, "colpali-64": 2.2, "colpali-128": 8.5,
        "kd-256x16": 0.90}
MEMORY_AIMS = {"colpali-128": 140}


def milliseconds(value: float) -> str:
    return f"{value:.4f}" if value < 0.1 else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def find(lines: list[dict], case: str, impl: str) -> dict | None:
    return next((x for x in lines if x["case"] == case and x["impl"] == impl), None)


def cells(lines: list[dict], names: list[str], text: Callable[[dict], str]) -> list[list[str]]:
    def cell(case: str, name: str) -> str:
        line = find(lines, case, name)
        if line is None:
            return ""
        if "failed" in line:
            return "out of memory" if "OutOfMemory" in line["failed"] else "failed"
        return text(line)

    return [[case, *(cell(case, name) for name in names)] for case in dict.fromkeys(x["case"] for x in lines)]


def step_time(line: dict) -> str:
    return milliseconds(line["median_ms"]) + ("" if line["timing"] == "graph" else " *")


def accuracy(line: dict) -> str:
    worst = 1 - min(line["cosine"])
    return f"{'exact to 7 digits' if worst < 5e-8 else f'{worst:.0e}'}{'' if line['same_bits'] else ', bits differ'}"


def aims(lines: list[dict]) -> list[list[str]]:
    """Aims are times of calls from Python; beside them what the device alone takes."""
    found = []
    for case, aim in AIMS.items():
        line = find(lines, case, "rowmax")
        if line is None or "failed" in line:
            continue
        called, replayed = line["eager"]["median_ms"], line["median_ms"]
        reached = "yes" if called <= aim else "replayed" if replayed <= aim else "**no**"
        found.append([f"{case}, ms", milliseconds(called), milliseconds(replayed), milliseconds(aim), reached])
        if case in MEMORY_AIMS:
            used, most = line["extra_mib"], MEMORY_AIMS[case]
            found.append([f"{case}, MiB", f"{used:.0f}", f"{used:.0f}", f"{most}", "yes" if used <= most else "**no**"])
    return found


def training(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    lines = [x for x in lines if x["dtype"] == "float16"]
    names = [name for name in NAMES if any(x["impl"] == name for x in lines)]
    titles = [NAMES[name] for name in names]
    steps = [x for x in lines if not x["case"].startswith("ladder-")]
    ladder = [x for x in lines if x["case"].startswith("ladder-")]
    note = f"""Scores and their gradients for queries and documents, float16; shapes as `bench/gpu/training.py` has them.
Milliseconds a step, replayed from a graph (*: not captured, called from Python).
{first['date']}, commit `{first['commit']}`, `{path.name}`."""
    parts = ["### Training steps", note, table(["step", *titles], cells(steps, names, step_time)),
             "The same, one step called from Python and timed by events: the host counts.",
             table(["step", *titles], cells(steps, names, lambda x: milliseconds(x["eager"]["median_ms"]))),
             "MiB that a step allocates at most, gradients included.",
             table(["step", *titles], cells(steps, names, lambda x: f"{x['extra_mib']:,.1f}")),
             "What cosine similarity with the gradients of float64 winners lacks to 1, the worse of queries and documents; and "
             "whether two steps gave different bits.",
             table(["step", *titles], cells([x for x in steps if "cosine" in x or "failed" in x], names, accuracy)),
             table(["aim", "called from Python", "replayed", "aim", "reached"], aims(steps))]
    if ladder:
        parts += ["Batches of ColPali pages, 1024 tokens on both sides: milliseconds (MiB).",
                  table(["batch", *titles],
                        cells(ladder, names, lambda x: f"{step_time(x)} ({x['extra_mib']:,.0f})"))]
    return "\n\n".join(parts)
