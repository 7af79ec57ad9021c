"""Roofline and speed-up plots of one result file, as SVG that is the same on every run."""

from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt

import results

matplotlib.use("Agg")

MARKERS = {"rowmax": "o", "torch": "s", "torch-matmul": "D", "openblas": "^", "numpy": "v", "numkong": "X", "maxsim-cpu": "P"}
COLOURS = {"rowmax": "#c1272d", "torch": "#e08214", "torch-matmul": "#b8860b", "openblas": "#2166ac", "numpy": "#4393c3",
           "numkong": "#762a83", "maxsim-cpu": "#1b7837"}


def save(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "rowmax"}):
        figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def place_legend(axes) -> None:
    """Beside the axes, each label once."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles))
    axes.legend(unique.values(), unique.keys(), fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))


def base(line: dict) -> str:
    return line["impl"].removesuffix("@avx2")


def intensity(line: dict) -> float:
    """Operations for each byte of documents read."""
    return line["gflops"] * 1e9 * line["median_ms"] * 1e-3 / (line["document_mib"] * 2**20)


def roofline(first: dict, lines: list[dict], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 5))
    bandwidth = first["read_gb_s"]["1"]["median"]
    x = [0.2, 2000]
    for name, style in (("avx2", "-"), ("avx512", "--")):
        peak = first[f"fma_{name}_gflops"]["1"]["median"]
        if peak:
            knee = peak / bandwidth
            axes.plot([x[0], knee, x[1]], [x[0] * bandwidth, peak, peak], "k", linestyle=style, linewidth=1,
                      label=f"{name.upper()} peak {peak:.0f} GFLOP/s, read {bandwidth:.1f} GB/s")
    for line in lines:
        if line["impl"] in MARKERS and line["threads"] == 1:
            filled = line["impl"] == "rowmax"
            axes.plot(intensity(line), line["gflops"], MARKERS[line["impl"]], color=COLOURS[line["impl"]],
                      markersize=7 if filled else 5, alpha=1 if filled else 0.6, label=line["impl"])
    axes.set(xscale="log", yscale="log", xlabel="operations per byte of documents", ylabel="GFLOP/s, one thread",
             title=f"Roofline, {first['device']}, {first['date']}")
    axes.grid(True, which="both", linewidth=0.3)
    place_legend(axes)
    save(figure, path)


def speedup(first: dict, lines: list[dict], path: Path) -> None:
    """Filled: as the library comes. Hollow: rival and rowmax both held to AVX2."""
    lines = [line for line in lines if line["threads"] == 1]
    groups = list(dict.fromkeys((x["case"], x["dtype"]) for x in lines))
    times = {(x["case"], x["dtype"], x["impl"]): x["median_ms"] for x in lines}
    figure, axes = plt.subplots(figsize=(10, 5))
    for line in lines:
        case, dtype, name = line["case"], line["dtype"], base(line)
        held = line["impl"] != name
        ours = times.get((case, dtype, "rowmax@avx2" if held else "rowmax"), times[case, dtype, "rowmax"])
        if name != "rowmax" and name in MARKERS:
            axes.plot(groups.index((case, dtype)) + (0.15 if held else -0.15), line["median_ms"] / ours, MARKERS[name],
                      color=COLOURS[name], fillstyle="none" if held else "full",
                      label=name + (" (AVX2)" if held else ""))
    axes.axhline(1, color=COLOURS["rowmax"], linewidth=1.5, label="rowmax")
    axes.set_xticks(range(len(groups)), [f"{c}\n{d}" for c, d in groups], rotation=60, fontsize=7)
    axes.set(yscale="log", ylabel="rival's time over rowmax's, one thread", title=f"{first['device']}, {first['date']}")
    axes.yaxis.set_major_formatter("{x:g}x")
    axes.yaxis.set_minor_formatter("{x:g}x")
    axes.grid(True, axis="y", which="both", linewidth=0.3)
    place_legend(axes)
    save(figure, path)


def draw(source: Path, folder: Path) -> None:
    first, *lines = results.read(source)
    timed = [line for line in lines if "peak_share" in line]
    name = source.name.removesuffix(".jsonl")
    roofline(first, timed, folder / f"{name}-roofline.svg")
    speedup(first, timed, folder / f"{name}-speedup.svg")


def draw_drift(source: Path, folder: Path) -> None:
    """Losses of training runs, and how far each run's are from those of torch's float64 run."""
    first, *lines = results.read(source)
    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 6), sharex=True)
    for line, colour in zip(lines, ("#c1272d", "#2166ac", "#e08214", "#7b3294", "#4d4d4d"), strict=True):
        name = f"{line['impl']}, {line['dtype']}"
        above.plot(line["losses"], color=colour, linewidth=0.8, label=name)
        if any(line["drift"]):
            below.plot(line["drift"], color=colour, linewidth=0.8, label=name)
    above.set(ylabel="loss", title=f"Training from one seed, {first['device']}, {first['date']}")
    below.set(yscale="log", xlabel="step", ylabel="|loss - that of torch, float64| / it")
    for axes in (above, below):
        axes.grid(True, linewidth=0.3)
        place_legend(axes)
    save(figure, folder / f"{source.name.removesuffix('.jsonl')}.svg")
