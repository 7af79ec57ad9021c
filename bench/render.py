"""Writes docs/benchmarks.md and its plots from the result files, and from nothing else.

    render.py            write docs/benchmarks.md and docs/plots/*.svg (plots need matplotlib)
    render.py --check    fail, with a diff, when docs/benchmarks.md is not what the result files give
    render.py --show F   print the tables of one result file
"""

import argparse
import difflib
import sys
from pathlib import Path

import gpu_section
import nearest_section
import results
import scatter_section
import training_section

DOCS = Path(__file__).parent.parent / "docs"
INTRODUCTION = """# Benchmarks

<!-- Written by bench/render.py from bench/results/*.jsonl. Do not edit. -->

Run `make bench` to measure them again on your machine. One run is one table: the implementations take turns on the same
data within every repetition, because clocks drift and neighbours steal time; compare inside a table, not across tables.

- *ms*: median of the repetitions, 10th to 90th percentile in brackets.
- *of peak*: floating-point operations a second, over what the machine's multiply-add units were measured to do just before
  and just after that very repetition; the median of these ratios. `a2` and `a512` say which vectors the implementation is
  held against: AVX2 or AVX-512. A share above 100 % means that it multiplies in another unit or another type.
- *rowmax is*: how many times faster rowmax is in this run, same type and threads.
- *error*: largest relative error of a score against double precision on the given inputs; *top 10*: how many
  of the ten best documents are the true ten best. An implementation that loses documents does not compute the same thing.
- *memory*: what the process held at most beyond the tokens while preparing and scoring once.
- `@avx2`: the same library kept from using AVX-512 and AMX. `read`: not a rival; it loads the documents and does nothing with them.
"""


def newest_files(topic: str) -> list[Path]:
    """One file a device: names are <device>-<date>-<topic>.jsonl, so that the last in order is the newest."""
    newest = {}
    for path in sorted(results.FOLDER.glob(f"*-{topic}.jsonl")):
        newest[results.read(path)[0]["device"]] = path
    return list(newest.values())


def table(header: list[str], rows: list[list[str]]) -> str:
    rule = "|" + "---|" + "--:|" * (len(header) - 1)
    return "\n".join(["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)])


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def milliseconds(line: dict) -> str:
    return f"{number(line['median_ms'])} ({number(line['p10_ms'])}–{number(line['p90_ms'])})"


def share(line: dict) -> str:
    if "peak_share" not in line:
        return ""
    return f"{100 * line['peak_share']['median']:.0f} % {'a512' if line['peak_of'] == 'avx512' else 'a2'}"


def times_faster(line: dict, rowmax: dict | None) -> str:
    if rowmax is None or line["impl"].startswith(("rowmax", "read")):
        return ""
    return f"{line['median_ms'] / rowmax['median_ms']:.2f}x"


def find(lines: list[dict], **wanted) -> dict | None:
    return next((line for line in lines if all(line.get(k) == v for k, v in wanted.items())), None)


def contest_row(lines: list[dict], impl: str, threads: list[int]) -> list[str]:
    """One implementation's cells; `lines` are of one case and type."""
    first = find(lines, impl=impl, threads=threads[0])
    cells = [f"{impl}<br>*{first['kernel']}*"]
    for count in threads:
        line = find(lines, impl=impl, threads=count)
        rival = "rowmax@avx2" if impl.endswith("@avx2") and find(lines, impl="rowmax@avx2") else "rowmax"
        faster = times_faster(line, find(lines, impl=rival, threads=count))
        cells += [milliseconds(line), share(line), faster]
    exact = [f"{first['error']:.0e}", f"{first['top10_overlap']:.0%}"] if "error" in first else ["", ""]
    return cells + exact + [number(first["extra_mib"])]


def contest(lines: list[dict]) -> str:
    threads = sorted({line["threads"] for line in lines})
    header = ["implementation"]
    for count in threads:
        header += [f"{count} thread{'s' * (count > 1)}, ms", "of peak", "rowmax is"]
    names = dict.fromkeys(line["impl"] for line in lines)
    return table(header + ["error", "top 10", "memory, MiB"], [contest_row(lines, name, threads) for name in names])


def contests(lines: list[dict]) -> str:
    parts = []
    for case, dtype in dict.fromkeys((x["case"], x["dtype"]) for x in lines if "floor_ms" in x):
        chosen = [x for x in lines if x["case"] == case and x["dtype"] == dtype]
        floors = ", ".join(f"{number(x['floor_ms'])} ms on {x['threads']}" for x in chosen if x["impl"] == "rowmax")
        note = f"{chosen[0]['shape']}, {chosen[0]['document_mib']:.0f} MiB of documents."
        parts.append(f"### {case}, {dtype}\n\n{note}" + (f" Floor of rowmax's kernel by threads: {floors}." * bool(floors)))
        parts.append(contest(chosen))
    return "\n\n".join(parts)


def ceilings(first: dict) -> str:
    rows = []
    for name, title in (("fma_avx2_gflops", "multiply-add, AVX2, GFLOP/s"),
                        ("fma_avx512_gflops", "multiply-add, AVX-512, GFLOP/s"), ("read_gb_s", "memory read, GB/s")):
        cells = [f"{number(v['median'])} ({number(v['p10'])}–{number(v['p90'])})" for v in first[name].values()]
        rows.append([title, *cells])
    threads = [f"{count} thread{'s' * (count != '1')}" for count in first["read_gb_s"]]
    how = ", at real-time priority" if first["realtime"] else ""
    note = (f"Load average {first['load_before']:.1f} before and {first['load_after']:.1f} after the run (the run itself "
            f"included){how}; {first['stolen_percent']} % of the time was stolen by neighbours on the host.")
    return table(["ceiling, float32", *threads], rows) + "\n\n" + note


def verdict(value: float, target: float, unit: str, scale: float = 1.0) -> list[str]:
    digits = 1 if scale > 1 else 2
    return [f"{value * scale:.{digits}f} {unit}", f"{target * scale:g} {unit}", "yes" if value >= target else "**no**"]


VECTORS = {"avx2": "AVX2", "avx512": "AVX-512"}


def targets(lines: list[dict]) -> str:
    """What the project set out to reach, and whether this run did."""
    rows = []
    for case, dtype, target in (("text-1k", "float32", 0.85), ("text-1k", "float16", 0.85), ("colpali-32", "float32", 0.92),
                                ("colpali-32", "float16", 0.92)):
        for impl in ("rowmax", "rowmax@avx2"):
            one, two = (find(lines, impl=impl, case=case, dtype=dtype, threads=n) for n in (1, 2))
            if one and two:
                name = f"{case}, {dtype}, {VECTORS[one['peak_of']]}"
                rows.append([f"{name}: share of the peak", *verdict(one["peak_share"]["median"], target, "%", 100)])
                rows.append([f"{name}: two threads over one", *verdict(one["median_ms"] / two["median_ms"], 1.9, "x")])
    for line in (x for x in lines if x["case"] == "host-cost"):
        aim = 2 if "C++" in line["impl"] else 8
        us = 1e3 * line["median_ms"]
        rows.append([f"cost of a call besides the kernel: {line['impl']}, {line['dtype']}", f"{us:.2f} us", f"{aim} us",
                     "yes" if us < aim else "**no**"])
    return table(["target", "measured", "aim", "reached"], rows)


def host_cost(lines: list[dict]) -> str:
    rows = [[x["impl"], x["dtype"], f"{1e3 * x['median_ms']:.2f}", f"{1e3 * x['p10_ms']:.2f}–{1e3 * x['p90_ms']:.2f}"]
            for x in lines if x["case"] == "host-cost"]
    if not rows:
        return ""
    note = "One query of 32 tokens and one document of 180: time of a call less the time of its kernel."
    return f"### Cost of a call\n\n{note}\n\n{table(['caller', 'type', 'us', '10th–90th percentile'], rows)}\n\n"


def device_section(path: Path) -> str:
    first, *lines = results.read(path)
    title = f"## {first['device']}\n\n{first['date']}, commit `{first['commit']}`, `{path.name}`."
    return "\n\n".join([title, ceilings(first), targets(lines), host_cost(lines) + contests(lines)])


def where_time_goes(path: Path) -> str:
    first, *lines = results.read(path)
    note = ("One thread, text-1k with its documents in memory, with one document a thousand times over, and 1024 query "
            "tokens against 32 documents (every row used 32 times): share of the multiply-add peak, medians, 10th to 90th "
            f"percentile. {first['date']}, commit `{first['commit']}`, `{path.name}`.")
    rows = []
    for kernel in dict.fromkeys(line["kernel"] for line in lines):
        of = {line["case"]: line for line in lines if line["kernel"] == kernel}
        shares = [of[case]["peak_share"] for case in ("memory", "cache", "reuse")]
        rows.append([f"`{kernel}`", *(f"{100 * s['median']:.0f} % ({100 * s['p10']:.0f}–{100 * s['p90']:.0f})" for s in shares)])
    parts = [f"### Where the time goes\n\n{note}", table(["kernel", "in memory", "in cache", "used 32 times"], rows)]
    rows = [[f"`{x['kernel']}`", x["case"], f"{x['times_faster']:.2f} x"] for x in lines if x["threads"] == 2]
    if rows:
        parts += ["Two threads over one on text-1k, in calls that follow one another and in calls after a pause of 20 ms.",
                  table(["kernel", "calls", "two threads"], rows)]
    return "\n\n".join(parts)


def plots_section(path: Path) -> str:
    name = path.name.removesuffix(".jsonl")
    return f"![roofline](plots/{name}-roofline.svg)\n\n![speed-up](plots/{name}-speedup.svg)"


MEASURES = {"recip_rank": "MRR", "ndcg_cut_10": "nDCG@10", "success_1": "success at 1", "success_10": "success at 10"}


def quality_section(path: Path) -> str:
    """Known-item search of `make demo`, kept by quality.py."""
    first, *lines = results.read(path)
    corpus = lines[0]
    note = (f"Known-item search, as `make demo` runs it: the one-line synopsis of a package must find its long description among "
            f"{corpus['documents']} ({corpus['source']}, {corpus['queries']} queries, {corpus['model']}). "
            f"{first['date']}, commit `{first['commit']}`, `{path.name}`.")
    rows = [[line["impl"], *(f"{line[name]:.3f}" for name in MEASURES)] for line in lines]
    return f"## What late interaction buys\n\n{note}\n\n{table(['', *MEASURES.values()], rows)}"


def compressed_section(path: Path) -> str:
    """What compressed forms keep of the ranking: compressed_quality.py."""
    first, *both = results.read(path)
    lines = [line for line in both if line["case"] == "compressed"]
    corpus = lines[0]
    note = (f"The demo's texts and model, {corpus['documents']} documents and {corpus['queries']} known-item queries "
            f"({corpus['source']}, {corpus['model']}). Spearman's rank correlation with the float16 ranking of all documents, and "
            f"how many of its 20 best are among the form's 20 best, both as means over queries. {first['date']}, commit "
            f"`{first['commit']}`, `{path.name}`.")
    rows = [[line["impl"], f"{line['bytes']:g}", f"{line['spearman']:.4f}", f"{100 * line['top_20_overlap']:.1f} %",
             f"{line['recip_rank']:.3f}", f"{line['ndcg_cut_10']:.3f}"] for line in lines]
    header = ["documents as", "bytes a token", "Spearman", "top-20 overlap", "MRR", "nDCG@10"]
    text = f"## What compression costs\n\n{note}\n\n{table(header, rows)}"
    searches = [line for line in both if line["case"] == "search"]
    return f"{text}\n\n{search_section(searches)}" if searches else text


def search_section(lines: list[dict]) -> str:
    """What is found when few documents are scored: search_quality.py."""
    note = ("The same queries, when few documents get an exact score: those that a coarse form ranks best (`topk_two_stage`), or "
            "that PLAID finds (`plaid_search`, by `nprobe` centroids a query token). *Of all*: how many of the 20 best of the same "
            "form, when every document is scored, are among the 20 found; *top-20 overlap*: how many of float16's. MRR and nDCG of "
            "the 20 found.")
    rows = [[line["impl"], "" if line["nprobe"] is None else str(line["nprobe"]), str(line["candidates"]),
             f"{100 * line['recall_of_exhaustive']:.1f} %", f"{100 * line['top_20_overlap']:.1f} %",
             f"{line['recip_rank']:.3f}", f"{line['ndcg_cut_10']:.3f}"] for line in lines]
    header = ["search", "nprobe", "scored exactly", "of all", "top-20 overlap", "MRR", "nDCG@10"]
    return f"### What searches find that score few documents\n\n{note}\n\n{table(header, rows)}"


def speed_section(path: Path) -> str:
    """How fast compressed forms are scored: compressed_speed.py."""
    first, *lines = results.read(path)
    note = (f"One query of 32 tokens, {lines[0]['documents']} documents of 300 tokens, d = 128, milliseconds a call: median, 10th "
            f"to 90th percentile. Codes of the query are made in the call; documents and indexes before. Centroids of the residual "
            f"rows are random, so that every code is read; scores of numkong are of cosines. {first['device']}, {first['date']}, "
            f"commit `{first['commit']}`, `{path.name}`.")
    rows = []
    for name in dict.fromkeys(line["impl"] for line in lines):
        here = [find(lines, impl=name, threads=threads) for threads in (1, 2)]
        rows.append([name, f"{here[0]['bytes']:g}",
                     *(f"{x['median_ms']:.2f} ({x['p10_ms']:.2f}–{x['p90_ms']:.2f})" for x in here)])
    return f"## How fast compressed documents are scored\n\n{note}\n\n{table(['', 'bytes a token', '1 thread', '2 threads'], rows)}"


def document() -> str:
    parts = [INTRODUCTION]
    parts += [quality_section(path) for path in newest_files("quality")]
    parts += [compressed_section(path) for path in newest_files("compressed")]
    parts += [speed_section(path) for path in newest_files("compressed-speed")]
    for path in newest_files("cpu"):
        parts += [device_section(path), plots_section(path)]
        parts += [where_time_goes(other) for other in newest_files("where-time-goes")]
    parts += [nearest_section.section(path, table) for path in newest_files("nearest")]
    parts += [scatter_section.section(path, table) for path in newest_files("scatter")]
    parts += [training_section.drift(path, table) for path in newest_files("drift")]
    parts += [training_section.hidden(path, table) for path in newest_files("hidden")]
    parts += gpu_section.document(newest_files, table)
    return "\n".join(part + "\n" for part in parts)


def check() -> int:
    present = (DOCS / "benchmarks.md").read_text().splitlines()
    wanted = document().splitlines()
    difference = list(difflib.unified_diff(present, wanted, "docs/benchmarks.md", "bench/render.py", lineterm=""))
    print("\n".join(difference) or "docs/benchmarks.md is what bench/render.py gives")
    return 1 if difference else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--show", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.check:
        return check()
    if args.show:
        print(device_section(args.show))
        return 0
    import gpu_plots
    import plots

    for path in newest_files("cpu"):
        plots.draw(path, DOCS / "plots")
    for path in newest_files("drift"):
        plots.draw_drift(path, DOCS / "plots")
    for path in [*newest_files("sweeps"), *newest_files("ladder")]:
        gpu_plots.draw(path, DOCS / "plots")
    (DOCS / "benchmarks.md").write_text(document())
    return 0


if __name__ == "__main__":
    sys.exit(main())
