"""The parts of docs/benchmarks.md about what the GPU's kernels do inside: sizes of tiles, what a profiler sees, documents at
odd addresses. Each from one result file of bench/gpu."""

from collections.abc import Callable
from pathlib import Path

import results

Table = Callable[[list[str], list[list[str]]], str]


def source(path: Path, first: dict) -> str:
    return f"{first['date']}, commit `{first['commit']}`, `{path.name}`."


def tiles(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    note = f"""float16. A kernel holds some query rows (*rows*) and a ring of *slots*, each of 128 document tokens by 64
dimensions, in shared memory; here it is told to hold others than it would by itself. `few` has three rings, or two for 128
rows. Milliseconds, calls replayed from a graph (share of the floor). {source(path, first)}"""
    parts = ["### Sizes of tiles", note]
    for case in dict.fromkeys(x["case"] for x in lines):
        of_case = [x for x in lines if x["case"] == case]
        slots = sorted({x["slots"] for x in of_case if x["rows"]})
        rows = []
        for kernel, height in dict.fromkeys((x["kernel"], x["rows"]) for x in of_case):
            here = {x["slots"]: x for x in of_case if (x["kernel"], x["rows"]) == (kernel, height)}
            own = here.get(0) if height == 0 else None
            rows.append([f"{kernel}, {height} rows" if height else f"{kernel}, by itself",
                         cell(own), *(cell(here.get(count) if height else None) for count in slots)])
        parts.append(table([case.removeprefix("tiles "), "its own choice", *(f"{count} slots" for count in slots)], rows))
    return "\n\n".join(parts)


def cell(line: dict | None) -> str:
    return f"{line['median_ms']:.3f} ({100 * line['floor_ms'] / line['median_ms']:.0f} %)" if line else ""


def ncu(path: Path, table: Table) -> str:
    first, *lines = results.read(path)

    def percent(line: dict, name: str) -> str:
        return f"{line[name]:.0f} %" if line.get(name) is not None else ""

    def waits(line: dict) -> str:
        return ", ".join(f"{reason.replace('_', ' ')} {share:.0f} %" for reason, share in line.get("waits_percent", {}).items())

    rows = [[x["case"], f"`{x.get('function') or x['kernel']}`", f"{x['duration_us']:.0f}", percent(x, "tensor_pipe_percent"),
             percent(x, "dram_percent"), percent(x, "l2_hit_percent"), percent(x, "issue_slots_percent"), waits(x)] for x in lines]
    note = f"""Single launches under Nsight Compute, caches emptied before: how much of the time matrix units, memory and the slots
for instructions are busy, how much of what is asked of L2 is there, and what warps wait for most. Warps that fill a ring, and those
whose turn it is not, wait by design. {source(path, first)}"""
    header = ["case", "kernel", "us", "matrix units", "memory", "found in L2", "instructions", "waits"]
    return "\n\n".join(["### What a profiler sees", note, table(header, rows)])


def alignment(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    note = f"""What a call takes over the time of the same documents at multiples of 16 bytes. *base + n*: the first token is
n elements behind such an address; *stride + n*: tokens are n elements further apart. {source(path, first)}"""
    parts = ["### Documents at odd addresses", note]
    for dtype in dict.fromkeys(x["dtype"] for x in lines):
        here = [x for x in lines if x["dtype"] == dtype and (x["impl"] == "aligned" or "ratio" in x)]
        places = [place for place in dict.fromkeys(x["impl"] for x in here) if place != "aligned"]
        rows = []
        for case in dict.fromkeys(x["x"] for x in here):
            found = {x["impl"]: x for x in here if x["x"] == case}
            rows.append([case, f"{found['aligned']['median_ms']:.4f}",
                         *(f"{found[place]['ratio']:.2f}" if place in found else "" for place in places)])
        parts.append(table([dtype, "aligned, ms", *places], rows))
    return "\n\n".join(parts)


TOPICS = {"tiles": tiles, "ncu": ncu, "alignment": alignment}
