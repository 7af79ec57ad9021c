"""The part of docs/benchmarks.md that is about GPUs, from the result files of bench/gpu/forward.py."""

from collections.abc import Callable
from pathlib import Path

import gpu_cases
import results

NAMES = {"rowmax": "rowmax", "rowmax-index": "rowmax, index saved", "rowmax-high": 'rowmax, precision "high"', "torch": "torch",
         "torch-tf32": "torch, TF32", "fm": "flash-maxsim", "lik": "late-interaction-kernels"}
RIVALS = ("torch", "fm", "lik")
# Who rounds float32 more than this, by TF32 or by half types, does not compute what rowmax does.
FLOAT32_ERROR = 1e-5
# Share of the floor under graph replay that the project set out to reach.
AIMS = {"text-10k": 0.95, "long-1k": 0.88, "medium-1k": 0.80, "colpali-1k": 0.97, "batch-128x1k": 0.80, "colpali-16q": 0.75,
        "edge-16k": 0.95, "d96-4k": 0.70, "ragged-10k": 0.85, "ragged-1k-lq1024": 0.75}
INTRODUCTION = """Forward pass, {dtype} in, float32 scores out; shapes as `bench/gpu/cases.py` has them. *floor*: the larger
of operations over the rate of cuBLAS' matrix product of 8192 x 8192 ({gemm} TFLOP/s{tf32}) and bytes over the rate of a device
copy ({copy} TB/s), both of this run; inputs that fit the cache can be faster than that. Cells: milliseconds a call, medians.
{date}, commit `{commit}`, `{file}`."""


def milliseconds(value: float) -> str:
    return f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


def cell(line: dict | None, value: Callable[[dict], float], share: bool) -> str:
    if line is None:
        return ""
    if "failed" in line:
        return "failed"
    text = milliseconds(value(line))
    return f"{text} ({100 * line['floor_ms'] / value(line):.0f} %)" if share else text


def comparable(line: dict | None) -> bool:
    return line is not None and "failed" not in line and (line["dtype"] != "float32" or line["error"] <= FLOAT32_ERROR)


def names_in(lines: list[dict]) -> list[str]:
    measured = {line["impl"] for line in lines}
    return [name for name in NAMES if name in measured]


def rows(lines: list[dict], value: Callable[[dict], float], share: bool) -> list[list[str]]:
    table = []
    for case in dict.fromkeys(line["case"] for line in lines):
        by_impl = {line["impl"]: line for line in lines if line["case"] == case}
        rivals = [value(by_impl[name]) for name in RIVALS if comparable(by_impl.get(name))]
        ratio = f"{min(rivals) / value(by_impl['rowmax']):.2f}x" if rivals else ""
        not_asked = [NAMES[name] for name in RIVALS if name in names_in(lines) and name not in by_impl]
        ratio += f", without {' and '.join(not_asked)}" if ratio and not_asked else ""
        table.append([case, *([milliseconds(by_impl["rowmax"]["floor_ms"])] if share else []),
                      *(cell(by_impl.get(name), value, share) for name in names_in(lines)), ratio])
    return table


def aims(lines: list[dict]) -> list[list[str]]:
    found = []
    for line in lines:
        if line["impl"] != "rowmax" or line["case"] not in AIMS:
            continue
        reached = line["floor_ms"] / line["median_ms"]
        aim = AIMS[line["case"]]
        found.append([line["case"], f"{100 * reached:.0f} %", f"{100 * aim:.0f} %", "yes" if reached >= aim else "**no**"])
    return found


def memory(lines: list[dict]) -> list[list[str]]:
    def text(line: dict | None) -> str:
        return f"{line['extra_mib']:.2f} ({line['error']:.0e})" if line else ""

    cases = dict.fromkeys(line["case"] for line in lines)
    return [[case, *(text(find(lines, case, name)) for name in names_in(lines))] for case in cases]


def find(lines: list[dict], case: str, impl: str) -> dict | None:
    return next((x for x in lines if x["case"] == case and x["impl"] == impl and "failed" not in x), None)


def document(newest_files: Callable[[str], list[Path]], table: gpu_cases.Table) -> list[str]:
    """One part a GPU."""
    files: dict[str, list[str]] = {}
    for topic in ("forward-float16", "forward-bfloat16", "forward-float32"):
        for path in newest_files(topic):
            files.setdefault(results.read(path)[0]["device"], []).append(section(path, table))
    for path in newest_files("forward"):
        parts = files.setdefault(results.read(path)[0]["device"], [])
        if parts:
            parts.append("### An earlier run, of older kernels, with implementations that the newer ones had no time for")
        parts.append(section(path, table))
    for topic, render in gpu_cases.TOPICS.items():
        for path in newest_files(topic):
            files.setdefault(results.read(path)[0]["device"], []).append(render(path, table))
    return ["\n\n".join([f"## {device}", *parts]) for device, parts in files.items()]


def section(path: Path, table: gpu_cases.Table) -> str:
    first, *lines = results.read(path)
    parts = []
    for dtype in dict.fromkeys(line["dtype"] for line in lines):
        chosen = [line for line in lines if line["dtype"] == dtype]
        names = [NAMES[name] for name in names_in(chosen)]
        tf32 = f"; {first['tf32_tflops']} for TF32" if dtype == "float32" and "tf32_tflops" in first else ""
        parts.append(INTRODUCTION.format(dtype=dtype, gemm=first[f"{dtype}_tflops"], tf32=tf32, copy=first["copy_tbps"],
                                         date=first["date"], commit=first["commit"], file=path.name))
        replayed = rows(chosen, lambda line: line["median_ms"], True)
        parts.append(f"### {dtype}: device time, calls replayed from a graph (share of the floor)")
        parts.append(table([dtype, "floor", *names, "fastest rival takes"], replayed))
        parts.append(f"### {dtype}: one call from Python, timed by events: the host counts")
        parts.append(table([dtype, *names, "fastest rival takes"], rows(chosen, lambda line: line["eager"]["median_ms"], False)))
        parts.append(f"### {dtype}: memory beyond the inputs, MiB (error of a score, relative to the sum of |q| |d|)")
        parts.append(table([dtype, *names], memory(chosen)))
        if dtype != "float32":
            parts.append(f"### {dtype}: aims")
            parts.append(table([dtype, "share of the floor", "aim", "reached"], aims(chosen)))
    return "\n\n".join(parts)
