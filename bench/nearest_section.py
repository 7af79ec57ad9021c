"""The section of docs/benchmarks.md on nearest points, from a file of nearest_table.py."""

from pathlib import Path

import results

RIVALS = ("rowmax", "rowmax, every pair", "scipy cKDTree", "scikit-learn", "torch.cdist", "torch.cdist, direct")


def _cell(line: dict | None, best: float) -> str:
    if line is None:
        return ""
    ms = line["median_ms"]
    text = f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"
    return text if ms == best else f"{text} ({ms / best:.1f}x)"


def _errors(lines: list[dict]) -> str:
    """Of each rival, over all cases."""
    worst = {name: max((line.get("error", 0) for line in lines if line["impl"] == name), default=0) for name in RIVALS[2:]}
    return ", ".join(f"{name} {error:.0e}" for name, error in worst.items())


def section(path: Path, table) -> str:
    first, *lines = results.read(path)
    note = (f"Clouds in, distances and indices out (trees are built within the call; `chamfer-step` also makes the gradients of "
            f"both clouds), ms, median; in brackets, times the fastest. `surface` is a noisy sphere, `features` are normal random "
            f"vectors, the others uniform; `direct` keeps torch from the matrix product that subtracts squares. Largest relative "
            f"differences of a distance from rowmax's: {_errors(lines)}. "
            f"{first['device']}, {first['date']}, commit `{first['commit']}`, `{path.name}`.")
    parts = ["## Nearest points and Chamfer distances", note]
    for threads in sorted({line["threads"] for line in lines}):
        rows = []
        chosen = [line for line in lines if line["threads"] == threads]
        for case in dict.fromkeys(line["case"] for line in chosen):
            by_name = {line["impl"]: line for line in chosen if line["case"] == case}
            best = min(line["median_ms"] for line in by_name.values())
            shape = next(iter(by_name.values()))["shape"]
            rows.append([f"{case}: {shape}", *(_cell(by_name.get(name), best) for name in RIVALS)])
        parts.append(table([f"{threads} thread{'s' * (threads > 1)}", *RIVALS], rows))
    return "\n\n".join(parts)
