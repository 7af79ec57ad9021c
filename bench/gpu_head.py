"""The parts of docs/benchmarks.md about hidden states and about whole training steps on a GPU, from the result files of
bench/gpu/head.py and bench/gpu/step_share.py."""

from collections.abc import Callable
from pathlib import Path

import results
from gpu_training import find, milliseconds

Table = Callable[[list[str], list[list[str]]], str]
NAMES = {"rowmax": "rowmax", "rowmax-projected": "torch, then rowmax", "torch": "torch", "lik": "late-interaction-kernels, fused",
         "lik-projected": "torch, then late-interaction-kernels"}
# Milliseconds, of the forward pass and of both.
AIMS = {"head-1x1024x2048": (0.85, 1.9)}


def mark(line: dict) -> str:
    return "" if line.get("timing") == "graph" else " *"


def head(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    names = [name for name in NAMES if any(x["impl"] == name for x in lines)]
    note = f"""`maxsim_from_hidden` beside projecting and normalising first: queries x documents x tokens, 32 query tokens, hidden
dimension 768, d 128 or as the case says. Milliseconds, replayed from a graph (*: not captured); *called*: from Python and timed by
events, so that the host counts; MiB that both passes allocate at most, gradients included. The floor reads the states once, and
for both passes writes their gradient once.
{first['date']}, commit `{first['commit']}`, `{path.name}`."""
    parts = ["### Documents as hidden states", note]
    for dtype in dict.fromkeys(x["dtype"] for x in lines):
        of_type = [x for x in lines if x["dtype"] == dtype]
        rows = []
        for case in dict.fromkeys(x["case"] for x in of_type):
            found = {name: line for name in names if (line := find(of_type, case, name)) and "failed" not in line}
            floors = next(iter(found.values()))
            aim = AIMS.get(case)
            for title, floor, text in (
                ("forward", floors["forward_floor_ms"], lambda x: milliseconds(x["forward"]["median_ms"]) + mark(x["forward"])),
                ("both passes", floors["floor_ms"], lambda x: milliseconds(x["median_ms"]) + mark(x)),
                ("both passes, called", None, lambda x: milliseconds(x["eager"]["median_ms"])),
                ("MiB", None, lambda x: f"{x['extra_mib']:,.0f}"),
            ):
                shown = "" if floor is None else milliseconds(floor)
                wanted = "" if aim is None or floor is None else milliseconds(aim[title != "forward"])
                rows.append([f"{case}, {title}", shown, wanted, *(text(found[n]) if n in found else "failed" for n in names)])
        parts.append(table([dtype, "floor", "aim", *(NAMES[name] for name in names)], rows))
    return "\n\n".join(parts)


def step_share(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    rows = []
    for case in dict.fromkeys(x["case"] for x in lines):
        for impl in ("rowmax", "torch"):
            line = find(lines, case, impl)
            if line is None or "failed" in line:
                rows.append([f"{case}, {impl}", "failed", "", "", ""])
                continue
            shape = f"{line['batch']} x {line['batch']}, {line['lq']} and {line['ld']} tokens"
            times = milliseconds(line["median_ms"]), milliseconds(line["scoring_ms"]["median_ms"])
            rows.append([f"{shape}, {impl}", *times, f"{100 * line['share']:.1f} %", f"{line['extra_mib']:,.0f}"])
    note = f"""A transformer of {first['parameters'] / 1e6:.0f} million parameters (22 layers, hidden 768, 12 heads; random weights,
bfloat16) with in-batch negatives: a whole step (encoding, scores, loss, gradients, AdamW), and scores, loss and their gradients
by themselves. Called from Python, milliseconds by events; MiB that scoring allocates.
{first['date']}, commit `{first['commit']}`, `{path.name}`."""
    return "\n\n".join(["### Share of MaxSim in a training step", note,
                        table(["batch, scored by", "step", "scoring", "share", "MiB"], rows)])
