"""Plots of the GPU's sweeps and of the corpus ladder, as SVG that is the same on every run."""

from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt
from matplotlib.ticker import NullLocator

import gpu_cases
import results
from plots import save

COLOURS = {"rowmax": "#c1272d", "torch": "#e08214", "fm": "#2166ac", "lik": "#1b7837"}
SMALL = {"svg.fonttype": "none", "font.size": 8}  # text as text: a tenth of the size


def against_size(axes, line: list[dict], impl: str = "rowmax") -> None:
    x = [point["x"] for point in line]
    axes.plot(x, [point["median_ms"] for point in line], "o-", color=COLOURS[impl], markersize=2.5, linewidth=1,
              label=gpu_cases.IMPLEMENTATIONS[impl])


def coarse(axes) -> None:
    """Few ticks: most of such a plot's size is ticks."""
    axes.grid(True, linewidth=0.3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def sweeps(source: Path, folder: Path) -> None:
    _, *lines = results.read(source)
    name = source.name.removesuffix(".jsonl")
    figure, grid = plt.subplots(2, 3, figsize=(10, 5.5))
    for axes, (sweep, title) in zip(grid.flat, gpu_cases.SWEEPS.items()):
        line = gpu_cases.points(lines, sweep)
        against_size(axes, line)
        axes.plot([p["x"] for p in line], [p["floor_ms"] for p in line], "k:", linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel=title.split(",")[0], ylabel="ms")
        axes.set_title(",".join(title.split(",")[1:]).strip(), fontsize=7)
        coarse(axes)
    figure.tight_layout()
    save(figure, folder / f"{name}.svg")
    if gpu_cases.points(lines, "fill"):
        figure, axes = plt.subplots(figsize=(5, 3))
        for impl in COLOURS:
            against_size(axes, gpu_cases.points(lines, "fill", impl), impl)
        axes.set(xlabel="share of the padded form that documents fill", ylabel="ms", yscale="log")
        axes.legend(fontsize=7)
        coarse(axes)
        save(figure, folder / f"{name}-fill.svg")


def ladder(source: Path, folder: Path) -> None:
    _, *lines = results.read(source)
    figure, (time, memory) = plt.subplots(1, 2, figsize=(9, 3.2))
    for impl in COLOURS:
        line = [x for x in lines if x["impl"] == impl and "median_ms" in x]
        if not line:
            continue
        against_size(time, line, impl)
        memory.plot([x["x"] for x in line], [max(x["extra_mib"], 1e-3) for x in line], "o-", color=COLOURS[impl], markersize=2.5,
                    linewidth=1)
    time.set(xscale="log", yscale="log", xlabel="pages", ylabel="ms")
    memory.set(xscale="log", yscale="log", xlabel="pages", ylabel="MiB beyond the corpus")
    time.legend(fontsize=7)
    for axes in (time, memory):
        coarse(axes)
    figure.tight_layout()
    save(figure, folder / f"{source.name.removesuffix('.jsonl')}.svg")


def draw(source: Path, folder: Path) -> None:
    draws = {"sweeps": sweeps, "ladder": ladder}
    topic = source.stem.rpartition("-")[2]
    if topic in draws:
        with matplotlib.rc_context(SMALL):
            draws[topic](source, folder)
