"""The section of docs/benchmarks.md on sums by index, from a file of scatter_table.py."""

from pathlib import Path

import results


def _cell(line: dict, best: float) -> str:
    ms = line["median_ms"]
    text = f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"
    marks = "" if line["same"] else "!"
    return f"{text}{marks}" if ms == best else f"{text}{marks} ({ms / best:.1f}x)"


def section(path: Path, table) -> str:
    first, *lines = results.read(path)
    note = (f"float32 rows added to the destinations that int64 indices name, ms, median; in brackets, times the fastest; `!`: 5 "
            f"runs did not give the same bits. `unvalidated` does not look for indices out of range, `grid again` has the inverse "
            f"grid of the index. {first['device']}, {first['date']}, "
            f"commit `{first['commit']}`, torch {first['torch']}, `{path.name}`.")
    parts = ["## Sums by index", note]
    names = list(dict.fromkeys(line["impl"] for line in lines))
    for threads in sorted({line["threads"] for line in lines}):
        rows = []
        chosen = [line for line in lines if line["threads"] == threads]
        for shape in dict.fromkeys((line["case"], line["shape"]) for line in chosen):
            by_name = {line["impl"]: line for line in chosen if (line["case"], line["shape"]) == shape}
            best = min(line["median_ms"] for line in by_name.values())
            rows.append([f"{shape[0].split('-')[0]}: {shape[1]}", *(_cell(by_name[name], best) for name in names)])
        parts.append(table([f"{threads} thread{'s' * (threads > 1)}", *names], rows))
    return "\n\n".join(parts)
