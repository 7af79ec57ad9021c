#!/usr/bin/env python3
"""200 different shapes in a row after the first use of the device, and then the same row again and again: is the first
call of a shape slower than its repeats, which found the same caches?

Each call is timed on the host until its work is done. How often a mere repeat takes twice the median of its shape says
what of that the machine does by itself.
"""

import random
import statistics
import time

import torch
from report import Report, parser
from timing import spread

SHAPES, REPEATS = 200, 15


def milliseconds(call, *arguments, **options) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    call(*arguments, **options)
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def shape(rng: random.Random) -> dict:
    """Sizes over the whole range; at most some milliseconds of work."""
    while True:
        made = {"queries": rng.choice((1, 1, 1, 2, 7, 16)), "documents": round(10 ** rng.uniform(0, 4)),
                "lq": round(10 ** rng.uniform(0, 3.2)), "ld": round(10 ** rng.uniform(0, 3.5)),
                "dim": rng.choice((16, 48, 64, 96, 100, 128, 128, 128, 192, 320, 768)),
                "dtype": rng.choice(("float16", "bfloat16")), "index": rng.random() < 0.3}
        work = made["queries"] * made["documents"] * made["lq"] * made["ld"] * made["dim"]
        pairs = made["queries"] * made["documents"]
        if work < 1e12 and made["documents"] * made["ld"] * made["dim"] < 1 << 29 and pairs * made["lq"] < 1 << 28:
            return made


def tensors(flat: torch.Tensor, made: dict) -> tuple[torch.Tensor, torch.Tensor]:
    def view(*sizes: int) -> torch.Tensor:
        return flat[: torch.Size(sizes).numel()].view(getattr(torch, made["dtype"])).view(sizes)

    return view(made["queries"], made["lq"], made["dim"]), view(made["documents"], made["ld"], made["dim"])


def outputs(scores: torch.Tensor, index: torch.Tensor, made: dict) -> object:
    shape = made["queries"], made["documents"]
    pairs = made["queries"] * made["documents"]
    if not made["index"]:
        return scores[:pairs].view(shape)
    return scores[:pairs].view(shape), index[: pairs * made["lq"]].view(*shape, made["lq"])


def main(arguments: list[str] | None = None) -> None:
    args = parser(__doc__).parse_args(arguments)
    import rowmax

    report = Report(args)
    flat = torch.randn(1 << 29, device="cuda", dtype=torch.float16).clamp(-3, 3)
    scores, index = torch.empty(1 << 18, device="cuda"), torch.empty(1 << 28, device="cuda", dtype=torch.int32)
    # The caching allocator's first blocks are not what is measured.
    del [torch.empty(1 << size, device="cuda", dtype=torch.uint8) for size in (30, *[19] * 64)][:]
    first_use = milliseconds(rowmax.maxsim, flat[:128].view(1, 1, 128), flat[:128].view(1, 1, 128))
    rng = random.Random(7)
    shapes = [shape(rng) for _ in range(SHAPES)]
    calls = [(*tensors(flat, made), outputs(scores, index, made), made["index"]) for made in shapes]
    times: list[list[float]] = [[] for _ in shapes]
    for _ in range(1 + REPEATS):
        for (Q, D, out, wants_index), found in zip(calls, times):
            found.append(milliseconds(rowmax.maxsim, Q, D, out=out, return_index=wants_index))
    slow_repeats = 0
    for number, (made, (first, *repeats)) in enumerate(zip(shapes, times)):
        found = spread(repeats)
        slow_repeats += sum(time > 2 * found["median_ms"] for time in repeats)
        report.add(case="shapes", x=number, impl="rowmax", dtype=made["dtype"], shape=made, first_ms=round(first, 5), **found)
    ratios = sorted(line["first_ms"] / line["median_ms"] for line in report.lines[1:])
    over = sum(ratio > 2 for ratio in ratios)
    report.add(case="shapes-summary", impl="rowmax", first_use_ms=round(first_use, 3), shapes=SHAPES, over_twice=over,
               worst=round(ratios[-1], 3), median_ratio=round(statistics.median(ratios), 3),
               slow_repeats=slow_repeats, repeats=SHAPES * REPEATS)
    print(report.lines[-1], flush=True)


if __name__ == "__main__":
    main()
