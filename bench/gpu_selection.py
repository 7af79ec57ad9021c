"""What docs/benchmarks.md says of operators that select by index on a GPU, from a file of bench/gpu/selection.py."""

from collections.abc import Callable
from pathlib import Path

import results

Table = Callable[[list[str], list[list[str]]], str]


def _milliseconds(value: float) -> str:
    return f"{value:.4f}" if value < 0.1 else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _cell(line: dict | None, best: float) -> str:
    if line is None:
        return ""
    if "failed" in line:
        return "does not fit" if "Memory" in line["failed"] else "failed"
    ms = line["median_ms"]
    mark = "" if line.get("same_bits", True) else "!"
    text = f"{_milliseconds(ms)}{mark}"
    return text if ms == best or "error" not in line else f"{text} ({ms / best:.1f}x)"


def _rows(lines: list[dict], names: list[str]) -> list[list[str]]:
    rows = []
    for shape in dict.fromkeys((line["case"], line["shape"]) for line in lines):
        by_name = {line["impl"]: line for line in lines if (line["case"], line["shape"]) == shape}
        whole = [line for line in by_name.values() if "error" in line]  # an inverse grid alone is no sum
        best = min(line["median_ms"] for line in whole if "median_ms" in line and line["impl"] in names)
        rows.append([f"{shape[0]}: {shape[1]}", *(_cell(by_name.get(name), best) for name in names)])
    return rows


def _memory(lines: list[dict], names: list[str]) -> str:
    """Memory and errors of the steps, one sentence a rival."""
    parts = []
    for name in names:
        mine = [line for line in lines if line["impl"] == name and "error" in line]
        if mine:
            most = max(mine, key=lambda line: line["extra_mib"])
            error = max(line["error"] for line in mine)
            parts.append(f"{name} {most['extra_mib']:.0f} MiB ({most['case']}), error at most {error:.0e}")
    return "; ".join(parts)


def _errors(lines: list[dict], names: list[str]) -> list[list[str]]:
    rows = []
    for case in dict.fromkeys(line["case"] for line in lines):
        by_name = {line["impl"]: line for line in lines if line["case"] == case and "error" in line}
        rows.append([case, *(f"{by_name[name]['error']:.0e}" if name in by_name else "" for name in names)])
    return rows


def selection(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    source = f"{first['date']}, commit `{first['commit']}`, torch {first['torch']}, `{path.name}`."
    parts = []
    kinds = (
        (lambda line: "chamfer" in line["case"] or line["case"].split("-")[0] in ("surface", "features64", "features512"),
         "### Chamfer steps, forward and backward",
         "Gradients of both sets of points, ms, median, by events; in brackets, times the fastest; `!`: two steps did not give the "
         "same bits. *every pair* keeps rowmax from its tree."),
        (lambda line: line["case"].startswith("knn"), "### Nearest neighbours",
         "Distances and indices, ms, median, by events."),
        (lambda line: line["case"].split("-")[0] in ("low", "mean", "extreme"), "### Sums by index",
         "float32 rows added to the destinations that int64 indices name, ms, median, by events; in brackets, times the fastest; "
         "`!`: runs did not give the same bits. *grid again* has the inverse grid of the index; *inverse grid* makes it, no more."),
    )  # fmt: skip
    for belongs, title, note in kinds:
        mine = [line for line in lines if belongs(line)]
        names = list(dict.fromkeys(line["impl"] for line in mine))
        if mine:
            parts += [title, f"{note} Most memory beyond the inputs: {_memory(mine, names)}. {source}",
                      table(["", *names], _rows(mine, names))]  # fmt: skip
        if mine and "Chamfer" in title:
            note = "Errors of these values, relative to float64. *near*: coordinates near 1000 that differ by about 0.001."
            parts += [note, table(["", *names], _errors(mine, names))]
    return "\n\n".join(parts)
