"""The parts of docs/benchmarks.md about single questions to a GPU: sweeps, the corpus ladder, first calls, a whole
reranking call, host cost, bytes moved. Each from one result file of bench/gpu."""

from collections.abc import Callable
from pathlib import Path

import gpu_codes
import gpu_head
import gpu_kernels
import gpu_selection
import gpu_training
import results

Table = Callable[[list[str], list[list[str]]], str]
IMPLEMENTATIONS = {"rowmax": "rowmax", "torch": "torch", "fm": "flash-maxsim", "lik": "late-interaction-kernels"}
SWEEPS = {
    "dim": "d, one query of 32 tokens, 1000 documents of 300",
    "dim-many": "d, one query of 512 tokens, 250 documents of 512",
    "lq": "query tokens, 1000 documents of 300, d 128",
    "ld": "document tokens, one query of 32, 1000 documents, d 128",
    "documents": "documents of 180 tokens, one query of 32, d 128",
    "queries": "queries of 32 tokens, 1000 documents of 180, d 128",
}


def source(path: Path, first: dict) -> str:
    return f"{first['date']}, commit `{first['commit']}`, `{path.name}`."


def milliseconds(value: float) -> str:
    return f"{value:.4f}" if value < 0.1 else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def points(lines: list[dict], sweep: str, impl: str = "rowmax") -> list[dict]:
    return [x for x in lines if x["case"] == f"sweep-{sweep}" and x["impl"] == impl and "median_ms" in x]


def steepest(line: list[dict]) -> tuple[float, dict, dict]:
    """Where time grows fastest against the size: by how much, between which neighbours."""
    steps = [(b["median_ms"] / a["median_ms"] / (b["x"] / a["x"]), a, b) for a, b in zip(line, line[1:])]
    return max(steps, key=lambda step: step[0])


def fewer_takes_longer(line: list[dict]) -> str:
    """The neighbours between which the smaller size takes most more than the larger."""
    steps = [(a["median_ms"] / b["median_ms"], a, b) for a, b in zip(line, line[1:])]
    ratio, a, b = max(steps, key=lambda step: step[0])
    return f"{ratio:.2f} ({a['x']} against {b['x']})" if ratio > 1.05 else "none"


def sweeps(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    rows = []
    for name, title in SWEEPS.items():
        line = points(lines, name)
        if len(line) < 2:
            continue
        factor, a, b = steepest(line)
        last = line[-1]
        rows.append([title, f"{line[0]['x']} to {last['x']}", f"{factor:.2f} ({a['x']} to {b['x']})", fewer_takes_longer(line),
                     f"{milliseconds(last['median_ms'])} ({100 * last['floor_ms'] / last['median_ms']:.0f} %)",
                     f"{max(x['error'] for x in line):.0e}"])
    failed = [f"{x['case']} {x['x']}: {x['failed']}" for x in lines if "failed" in x and x["impl"] == "rowmax"]
    note = f"""One size grows, the others stay; float16, calls replayed from a graph. *Steepest step*: the most that time grew over
what the size grew between two neighbouring points (1: in proportion; a block of rows or tokens that begins shows as more). *Less
takes longer*: the most that a size took over the time of its larger neighbour. Dotted in the plots: the floor.
{source(path, first)}"""
    name = path.name.removesuffix(".jsonl")
    header = ["size", "range", "steepest step", "less takes longer", "ms at the end (share of the floor)", "worst error"]
    parts = ["### Sweeps", note, table(header, rows), f"![sweeps](plots/{name}.svg)", *failed]
    return "\n\n".join(parts + fill(lines, table, name))


def fill(lines: list[dict], table: Table, name: str) -> list[str]:
    fills = list(dict.fromkeys(x["x"] for x in lines if x["case"] == "sweep-fill"))
    if not fills:
        return []

    def cell(impl: str, x: float) -> str:
        line = next((y for y in points(lines, "fill", impl) if y["x"] == x), None)
        return f"{milliseconds(line['median_ms'])} ({100 * line['floor_ms'] / line['median_ms']:.0f} %)" if line else ""

    rows = [[f"{x:g}", *(cell(impl, x) for impl in IMPLEMENTATIONS)] for x in fills]
    return ["4000 packed documents of up to 512 tokens, one query of 32: what part of the padded form they fill. torch scores "
            "the padded form. Milliseconds (share of the packed form's floor).",
            table(["fill", *IMPLEMENTATIONS.values()], rows), f"![fill](plots/{name}-fill.svg)"]


def ladder(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    note = f"""One ColPali query (1024 tokens) against 1000 to 100 000 pages of 1024 tokens in the GPU's memory
({first['memory_mib']:,} MiB), float16: milliseconds of one eager call, and MiB beyond the corpus in brackets.
{source(path, first)}"""

    def cell(pages: int, impl: str) -> str:
        line = next((x for x in lines if x["x"] == pages and x["impl"] == impl), None)
        if line is None:
            return ""
        return "out of memory" if "failed" in line else f"{milliseconds(line['median_ms'])} ({line['extra_mib']:,.0f})"

    asked = [impl for impl in IMPLEMENTATIONS if any(x["impl"] == impl for x in lines)]
    rows = [[f"{pages:,}", f"{next(x['corpus_mib'] for x in lines if x['x'] == pages):,}", *(cell(pages, impl) for impl in asked)]
            for pages in dict.fromkeys(x["x"] for x in lines)]
    name = path.name.removesuffix(".jsonl")
    header = ["pages", "corpus, MiB", *(IMPLEMENTATIONS[impl] for impl in asked)]
    return "\n\n".join(["### A growing corpus", note, table(header, rows),
                        f"![corpus ladder](plots/{name}.svg)"])


def shapes(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    total = lines[-1]
    rows = [["shapes", str(total["shapes"])], ["first calls over twice the median of their repeats", str(total["over_twice"])],
            ["worst first call over its median", f"{total['worst']:.2f}"],
            ["median first call over its median", f"{total['median_ratio']:.2f}"],
            ["repeats over twice their median, of all repeats", f"{total['slow_repeats']} of {total['repeats']}"],
            ["the first use of the device, ms", f"{total['first_use_ms']:.0f}"]]
    again = total["repeats"] // total["shapes"]
    note = f"""After one call that loads the kernels, {total['shapes']} calls in a row of different shapes, types and forms, and
then the same row {again} times again, so that repeats find the same caches; every call timed by the host until its work is
done. How often a mere repeat takes twice the median of its shape says what the machine does by itself.
{source(path, first)}"""
    return "\n\n".join(["### First calls", note, table(["", "measured"], rows)])


def pipeline(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    whole = next(x for x in lines if x["part"] == "whole, candidates on the host")["host_clock"]["median_ms"]
    rows = [[x["part"], milliseconds(x["median_ms"]), milliseconds(x["host_clock"]["median_ms"]),
             f"{100 * x['median_ms'] / whole:.0f} %"] for x in lines]
    note = f"""text-1k from embedded candidates to ranked results in the host's memory; the encoder that embeds the query is not
counted. The share is of the whole call whose candidates wait in pinned host memory, by the host's clock.
{source(path, first)}"""
    return "\n\n".join(["### A whole reranking call", note, table(["part", "ms by events", "ms by the host", "share"], rows)])


def host(path: Path, table: Table) -> str:
    first, *lines = results.read(path)

    def us(value: float) -> str:
        return f"{1e3 * value:.1f}"

    nothing = next(us(x["eager"]["median_ms"]) for x in lines if x["impl"] == "nothing")
    python = [[x["impl"], us(x["median_ms"]), us(x["eager"]["median_ms"])] for x in lines if x["case"] == "host-cost Python"]
    native = [[f"{x['impl']}, {x['case'].removeprefix('host-cost ')}", us(x["median_ms"]),
               *(f"{x[part]:.2f}" if part in x else "" for part in ("problem_us", "choose_us", "row_us"))]
              for x in lines if x["case"].startswith("host-cost ") and x["case"] != "host-cost Python"]
    note = f"""Microseconds. *Host*: until the call returns, many in a row. *Between events*: one call on an idle device between two
events, which themselves are {nothing} apart when nothing is called. {source(path, first)}"""
    parts = ["### What a call costs the host", note, table(["from Python", "host", "between events"], python)]
    if native:
        parts.append(table(["from C++", "host", "of it: checks", "choice of the kernel", "launch"], native))
    return "\n\n".join(parts)


def hbm(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    rows = [[x["case"], f"{x['least_bytes'] / 1e6:.2f}", f"{(x['read_bytes'] + x['written_bytes']) / 1e6:.2f}",
             f"{(x['read_bytes'] + x['written_bytes']) / x['least_bytes']:.2f}", f"{x['duration_us']:.1f}"] for x in lines]
    note = f"""Megabytes that one call moves between the GPU and its memory, counted by Nsight Compute with caches emptied
before it, beside the fewest possible: every input read once, every score written once. {source(path, first)}"""
    return "\n\n".join(["### Bytes moved", note, table(["case", "fewest", "counted", "ratio", "us under ncu"], rows)])


TOPICS = {"sweeps": sweeps, "ladder": ladder, "shapes": shapes, "pipeline": pipeline, "host": host, "hbm": hbm,
          "training": gpu_training.training, "head": gpu_head.head, "step-share": gpu_head.step_share,
          "selection": gpu_selection.selection, **gpu_codes.TOPICS, **gpu_kernels.TOPICS}
