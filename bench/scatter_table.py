"""scatter_sum beside torch's sums by index: time and whether two runs agree, at low, mean and extreme contention.

    scatter_table.py [-o FILE] [--threads 1,2] [--repetitions N]

Implementations take turns on the same data within every repetition. torch's are measured as they come and, where it
exists, in their deterministic form; "same" says whether five runs gave the same bits.
"""

import argparse
import datetime
import time
from pathlib import Path

import numpy as np
import torch

import machine
import results
import rowmax

SHAPES = (  # sources, destinations, channels: contention is sources / destinations
    ("low", 1 << 18, 1 << 18, 1),
    ("low", 1 << 17, 1 << 17, 64),
    ("mean", 1 << 20, 1 << 16, 1),
    ("mean", 1 << 18, 1 << 13, 64),
    ("mean", 1 << 16, 1 << 12, 256),
    ("extreme", 1 << 20, 4, 1),
    ("extreme", 1 << 18, 4, 64),
    ("extreme", 1 << 16, 1, 256),
)


def implementations(index, values, n, threads):
    grid = rowmax.inverse_grid(index, n)
    wide = index[:, None].expand_as(values)
    zeros = torch.zeros(n, values.shape[1])
    return {
        "rowmax": lambda: rowmax.scatter_sum(index, values, n, threads=threads),
        "rowmax, unvalidated": lambda: rowmax.scatter_sum(index, values, n, validate=False, threads=threads),
        "rowmax, grid again": lambda: rowmax.scatter_sum(index, values, n, grid, validate=False, threads=threads),
        "torch index_add": lambda: zeros.index_add(0, index, values),
        "torch scatter_add": lambda: zeros.scatter_add(0, wide, values),
        "torch scatter_reduce": lambda: zeros.scatter_reduce(0, wide, values, "sum"),
        "torch index_put": lambda: zeros.index_put((index,), values, accumulate=True),
    }


def measure(contention, sources, destinations, channels, threads, repetitions):
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(destinations, (sources,), generator=generator)
    values = torch.randn(sources, channels, generator=generator)
    exact = torch.zeros(destinations, channels, dtype=torch.float64).index_add(0, index, values.double())
    scale = torch.zeros_like(exact).index_add(0, index, values.double().abs()).clamp(min=1e-30)
    runs = implementations(index, values, destinations, threads)
    times = {name: [] for name in runs}
    for repetition in range(repetitions + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if repetition > 0:  # the first warms up
                times[name].append((time.perf_counter() - start) * 1e3)
    for name, run in runs.items():
        sums = run()
        yield {
            "case": f"{contention}-{channels}", "shape": f"{sources} x {channels} into {destinations}", "impl": name,
            "threads": threads, **{f"{key}_ms": value for key, value in results.spread(times[name]).items()},
            "error": float(((sums.double() - exact).abs() / scale).max()),
            "same": all(torch.equal(run(), sums) for _ in range(5)),
        }  # fmt: skip


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-o", "--output", type=Path, help="default: bench/results/<device>-<date>-scatter.jsonl")
    options.add_argument("--threads", default="1,2")
    options.add_argument("--repetitions", type=int, default=21)
    arguments = options.parse_args()
    today = datetime.date.today().isoformat()
    about = {"device": machine.device(), "commit": machine.commit(), "date": today}
    lines = [{"case": "ceilings", "torch": torch.__version__, "numpy": np.__version__}]
    for threads in map(int, arguments.threads.split(",")):
        torch.set_num_threads(threads)
        for shape in SHAPES:
            for line in measure(*shape, threads, arguments.repetitions):
                lines.append(line)
                print(f"{threads}  {line['case']:12} {line['impl']:22} {line['median_ms']:9.3f} ms", end="  ")
                print(f"error {line['error']:.1e}  same {line['same']}")
    path = arguments.output or results.FOLDER / f"{machine.slug(about['device'])}-{today}-scatter.jsonl"
    results.write(path, [line | about for line in lines])


if __name__ == "__main__":
    main()
