#!/usr/bin/env python3
"""After the first use of the device, 200 calls of shapes that were never seen: is a first call slower than its repeats?

Each is timed on the host from the call to the end of its work, first call and repeats alike. How often a mere repeat
takes twice the median says what of that the machine does by itself.
"""

import random
import statistics
import time

import torch
from report import Report, parser

SHAPES, REPEATS = 200, 21


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
        if work < 1e12 and made["documents"] * made["ld"] * made["dim"] < 1 << 29:
            return made


def tensors(flat: torch.Tensor, made: dict) -> tuple[torch.Tensor, torch.Tensor]:
    def view(*sizes: int) -> torch.Tensor:
        return flat[: torch.Size(sizes).numel()].view(getattr(torch, made["dtype"])).view(sizes)

    return view(made["queries"], made["lq"], made["dim"]), view(made["documents"], made["ld"], made["dim"])


def outputs(made: dict) -> object:
    scores = torch.empty(made["queries"], made["documents"], device="cuda")
    if not made["index"]:
        return scores
    return scores, torch.empty(made["queries"], made["documents"], made["lq"], device="cuda", dtype=torch.int32)


def main() -> None:
    args = parser(__doc__).parse_args()
    import rowmax

    report = Report(args)
    flat = torch.randn(1 << 29, device="cuda", dtype=torch.float16).clamp(-3, 3)
    # The caching allocator's first blocks are not what is measured.
    del [torch.empty(1 << size, device="cuda", dtype=torch.uint8) for size in (30, *[19] * 64)][:]
    first_use = milliseconds(rowmax.maxsim, flat[:128].view(1, 1, 128), flat[:128].view(1, 1, 128))
    rng = random.Random(7)
    slow_repeats = 0
    for number in range(SHAPES):
        made = shape(rng)
        Q, D = tensors(flat, made)
        out = outputs(made)
        options = {"out": out, "return_index": made["index"]}
        first = milliseconds(rowmax.maxsim, Q, D, **options)
        repeats = sorted(milliseconds(rowmax.maxsim, Q, D, **options) for _ in range(REPEATS))
        median = statistics.median(repeats)
        slow_repeats += sum(time > 2 * median for time in repeats)
        report.add(case="shapes", x=number, impl="rowmax", dtype=made["dtype"], shape=made, first_ms=round(first, 5),
                   median_ms=round(median, 5), p10_ms=round(repeats[2], 5), p90_ms=round(repeats[-3], 5))
    ratios = sorted(line["first_ms"] / line["median_ms"] for line in report.lines[1:])
    over = sum(ratio > 2 for ratio in ratios)
    report.add(case="shapes-summary", impl="rowmax", first_use_ms=round(first_use, 3), shapes=SHAPES, over_twice=over,
               worst=round(ratios[-1], 3), median_ratio=round(statistics.median(ratios), 3),
               slow_repeats=slow_repeats, repeats=SHAPES * REPEATS)
    print(report.lines[-1], flush=True)


if __name__ == "__main__":
    main()
