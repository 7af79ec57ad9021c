"""The parts of docs/benchmarks.md about training on the CPU, from the result files of training_drift.py and hidden_states.py."""

from collections.abc import Callable
from pathlib import Path

import results

Table = Callable[[list[str], list[list[str]]], str]
DRIFT_AIM = 1e-5


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(value: float) -> str:
    return f"{100 * value:.2g} %" if value else "0"


def load_of(first: dict, path: Path) -> str:
    load = f"Load {first['load_before']:.1f} before and {first['load_after']:.1f} after the run"
    return f"{load}. {first['device']}, {first['date']}, commit `{first['commit']}`, `{path.name}`."


def drift(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    runs = {line["impl"]: line for line in lines}
    ours, torch = runs["rowmax"], runs["torch"]
    shuffled = runs["torch, sums of halves"]
    both = "by rowmax and by torch's sums of halves" if shuffled["drift_largest"] > DRIFT_AIM else "by rowmax"
    reached = "reached" if ours["drift_largest"] <= DRIFT_AIM else f"missed {both}"
    note = f"""`bench/training_drift.py`: an encoder of two transformer layers on {first['texts']} texts ({first['source']}),
batches of {first['batch']} with in-batch negatives, {ours['steps']} steps of AdamW in float32 from the same seed; the loss falls
from {torch['first_loss']:.3f} to {torch['last_loss']:.3f}. Drift is the difference of a step's loss from that of torch's einsum,
over it (aim: {percent(DRIFT_AIM)}, {reached}). "Sums of halves" is torch again, with its products added in another order:
what rounding alone does to this run. At the first step rowmax differs by {percent(ours['drift'][0])}; training amplifies what
differs from step to step, whoever rounds. Milliseconds: medians; *MaxSim* is scores, loss and their gradients.
{first['threads']} thread{'s' * (first['threads'] > 1)}, torch {first['torch']}. {load_of(first, path)}"""
    rows = [[line["impl"], f"{line['last_loss']:.5f}", percent(line["drift_median"]), percent(line["drift_largest"]),
             number(line["median_ms"]), number(line["step_ms"]["median"]), f"{100 * line['scoring_share']['median']:.0f} %"]
            for line in lines]
    header = ["loss by", "loss at the end", "drift, median", "largest", "MaxSim, ms", "step, ms", "share of MaxSim"]
    plot = f"![drift](plots/{path.name.removesuffix('.jsonl')}.svg)"
    return f"## Drift of a training run\n\n{note}\n\n{table(header, rows)}\n\n{plot}"


def hidden(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    names = list(dict.fromkeys(line["impl"] for line in lines))
    rows = []
    for key in dict.fromkeys((x["case"], x["dtype"], x["threads"], x["pass"]) for x in lines):
        chosen = {x["impl"]: x for x in lines if (x["case"], x["dtype"], x["threads"], x["pass"]) == key}
        case, dtype, threads, which = key
        rows.append([f"{case}, {dtype}, {which}, {threads} thread{'s' * (threads > 1)}",
                     *(f"{number(chosen[n]['median_ms'])} ({chosen[n]['extra_mib']:.0f})" for n in names)])
    shapes = "; ".join(f"{case}: {shape}" for case, shape in dict.fromkeys((x["case"], x["shape"]) for x in lines))
    note = f"""`bench/hidden_states.py`: `maxsim_from_hidden` beside writing the projected tokens; *step* is both passes, with
gradients of queries, states, weight and bias. Milliseconds, medians; in brackets MiB held at most beyond the inputs,
gradients included. {shapes}. torch multiplies bfloat16 in bfloat16 and rounds tokens and similarities to it."""
    note += " " + load_of(first, path)
    return f"## Projecting while scoring\n\n{note}\n\n{table(['case', *names], rows)}"
