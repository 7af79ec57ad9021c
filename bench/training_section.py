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


def reached(value: float) -> str:
    return f"{percent(value)}, {'reached' if value <= DRIFT_AIM else 'missed'}"


def drift_cells(line: dict) -> list[str]:
    same = [percent(line[name]) if name in line else "" for name in ("loss_error_largest", "gradient_error_largest")]
    runs = [percent(line[name]) for name in ("drift_median", "drift_largest", "from_torch_largest")]
    again = {True: "yes", False: "**no**", None: ""}[line.get("rerun_same_bits")]
    share = f"{100 * line['scoring_share']['median']:.0f} %"
    return [f"{line['impl']}, {line['dtype']}", *same, *runs, again, f"{line['last_loss']:.5f}", share]


def drift(path: Path, table: Table) -> str:
    first, *lines = results.read(path)
    runs = {(line["impl"], line["dtype"]): line for line in lines}
    ours, torch, halves = (runs[impl, "float32"] for impl in ("rowmax", "torch", "torch, sums of halves"))
    double, exact = (runs[impl, "float64"] for impl in ("rowmax", "torch"))
    far = {name: percent(run["drift_largest"]) for name, run in (("torch", torch), ("rowmax", ours), ("halves", halves))}
    note = f"""`bench/training_drift.py`: an encoder of two transformer layers on {first['texts']} texts ({first['source']}),
batches of {first['batch']} with in-batch negatives, {ours['steps']} steps of AdamW from the same seed; torch's loss in float64
falls from {exact['first_loss']:.3f} to {exact['last_loss']:.3f}. The aim is a loss within {percent(DRIFT_AIM)} of the naive
path's, torch's einsum. The largest difference of all steps:

- at the same weights, every step's loss in float32: {reached(ours['loss_from_torch_largest'])};
- whole runs in float64: {reached(double['from_torch_largest'])};
- whole runs in float32: {reached(ours['from_torch_largest'])}. There training amplifies what differs in the last bit from
  step to step, whoever rounds: torch's own float32 run is up to {far['torch']} away from its float64 run, rowmax's up to
  {far['rowmax']}, and torch's with the same products added in another order ("sums of halves") up to {far['halves']}.

*Same weights*: the largest errors of loss and of the tokens' gradients (in norm) against torch in float64, at the weights of
torch's float32 run. *Drift*: a step's loss against that of torch's float64 run, over it; *from torch*: from its run in the same
type. *MaxSim* is scores, loss and their gradients.
{first['threads']} thread{'s' * (first['threads'] > 1)}, torch {first['torch']}. {load_of(first, path)}"""
    header = ["loss by", "same weights: loss", "gradients", "drift, median", "largest", "from torch, largest", "same bits again",
              "loss at the end", "share of MaxSim"]
    plot = f"![drift](plots/{path.name.removesuffix('.jsonl')}.svg)"
    return f"## Drift of a training run\n\n{note}\n\n{table(header, [drift_cells(line) for line in lines])}\n\n{plot}"


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
