"""What docs/benchmarks.md says of compressed documents on a GPU, from result files of bench/gpu/{compressed,residual}.py."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import results

Table = Callable[[list[str], list[list[str]]], str]

NAMES = {
    "rowmax": "rowmax", "rowmax, two stages": "rowmax, two stages", "fm": "flash-maxsim", "lik": "late-interaction-kernels",
    "torch": "torch",
}  # fmt: skip


def _name(line: dict) -> str:
    scale = f", a scale for each {line['granularity']}" if line["granularity"] else ""
    return f"{NAMES[line['impl']]}, {line['dtype']}{scale}"


def _cells(line: dict) -> list[str]:
    if "failed" in line:
        return ["failed", "", "", "", ""]
    error = f"{line['error']:.0e}" if "error" in line else ""
    return [f"{line['median_ms']:.4f}", f"{100 * line['floor_ms'] / line['median_ms']:.0f} %",
            f"{line['eager']['median_ms']:.4f}", f"{line['extra_mib']:.1f}", error]  # fmt: skip


def _tables(lines: list[dict], name: Callable[[dict], str], table: Table) -> list[str]:
    parts = []
    for case in dict.fromkeys(line["case"] for line in lines):
        rows = [[name(line), *_cells(line)] for line in lines if line["case"] == case]
        parts.append(table([case, "ms", "of the floor", "from Python", "MiB", "error"], rows))
    return parts


def codes(path: Path, table: Table, title: str = "int8 and float8") -> str:
    first, *lines = results.read(path)
    note = f"""Milliseconds, calls replayed from a graph (share of the floor: each byte read once, or float8's matrix rate, the same
for int8), and one call from Python, timed by events. Errors are of the sum of |q| |d| of the codes. Rows named quantize
make the codes. Two stages: a scan of codes that are there, and exact scores of 400 documents.
{first['date']}, commit `{first['commit']}`, `{path.name}`."""
    return "\n\n".join([f"### {title}", note, *_tables(lines, _name, table)])


def residual(path: Path, table: Table, title: str = "Residual codes and sign bits") -> str:
    first, *lines = results.read(path)
    note = f"""Milliseconds, calls replayed from a graph (share of the floor: each byte read once), and one call from Python, timed
by events. {first['date']}, commit `{first['commit']}`, `{path.name}`."""
    parts = _tables(lines, lambda line: f"{NAMES[line['impl']]}, {line['dtype']}", table)
    return "\n\n".join([f"### {title}", note, *parts])


# The others: of an earlier run, what the newest had no time for.
TOPICS = {
    "codes": codes, "codes-others": partial(codes, title="int8 and float8, other cases, of older kernels"),
    "residual": residual, "residual-others": partial(residual, title="Residual codes and sign bits, other cases, of older kernels"),
}  # fmt: skip
