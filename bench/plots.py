"""Roofline and speed-up plots of one result file, as SVG that is the same on every run."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

import results  # noqa: E402

MARKERS = {"rowmax": "o", "torch": "s", "torch-matmul": "D", "openblas": "^", "numpy": "v", "numkong": "x", "maxsim-cpu": "+"}
COLOURS = {"rowmax": "#c1272d", "torch": "#e08214", "torch-matmul": "#b8860b", "openblas": "#2166ac", "numpy": "#4393c3",
           "numkong": "#762a83", "maxsim-cpu": "#1b7837"}


def save(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "rowmax"}):
        figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


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
    unique = dict(zip(*reversed(axes.get_legend_handles_labels())))
    axes.legend(unique.values(), unique.keys(), fontsize=7)
    axes.grid(True, which="both", linewidth=0.3)
    save(figure, path)


def speedup(first: dict, lines: list[dict], path: Path) -> None:
    groups = list(dict.fromkeys((x["case"], x["dtype"]) for x in lines))
    rivals = [name for name in MARKERS if name != "rowmax"]
    figure, axes = plt.subplots(figsize=(10, 5))
    width = 0.8 / len(rivals)
    for i, rival in enumerate(rivals):
        for g, (case, dtype) in enumerate(groups):
            for line in (x for x in lines if (x["case"], x["dtype"], x["threads"]) == (case, dtype, 1)):
                ours = next(x for x in lines if (x["case"], x["dtype"], x["threads"], x["impl"]) == (case, dtype, 1, "rowmax"))
                if base(line) == rival:
                    held = line["impl"].endswith("@avx2")
                    axes.bar(g + i * width, line["median_ms"] / ours["median_ms"], width * (0.5 if held else 1),
                             color=COLOURS[rival], alpha=0.35 if held else 1, label=rival + (" held to AVX2" if held else ""))
    axes.axhline(1, color="k", linewidth=1)
    axes.set_xticks([g + 0.4 for g in range(len(groups))], [f"{c}\n{d}" for c, d in groups], rotation=60, fontsize=7)
    axes.set(yscale="log", ylabel="time over rowmax's, one thread", title=f"{first['device']}, {first['date']}")
    unique = dict(zip(*reversed(axes.get_legend_handles_labels())))
    axes.legend(unique.values(), unique.keys(), fontsize=7, ncols=2)
    save(figure, path)


def draw(source: Path, folder: Path) -> None:
    first, *lines = results.read(source)
    timed = [line for line in lines if "peak_share" in line]
    name = source.name.removesuffix(".jsonl")
    roofline(first, timed, folder / f"{name}-roofline.svg")
    speedup(first, timed, folder / f"{name}-speedup.svg")
