#!/usr/bin/env python3
"""One ColPali query against corpora of 1000 to 100 000 pages of 1024 tokens: time, and memory beyond the corpus.

An implementation that runs out of memory is out: larger corpora are not tried with it. late-interaction-kernels tunes itself
anew for every size, for half a minute each, and is not asked.
"""

import itertools

import torch
from report import Report, failure, parser
from timing import ceilings, eager, extra_mib

from cases import Case, Inputs
from implementations import IMPLEMENTATIONS

PAGES = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
LENGTH, DIM = 1024, 128


def corpus(pages: int) -> torch.Tensor:
    flat = torch.empty(pages, LENGTH, DIM, device="cuda", dtype=torch.float16)
    for part in flat.split(2048):
        part.copy_(torch.randn(part.shape, device="cuda") / DIM**0.5)
    return flat


def main(arguments: list[str] | None = None) -> None:
    args = parser(__doc__).parse_args(arguments)
    limits = ceilings(rounds=9)
    report = Report(args, **limits, memory_mib=torch.cuda.get_device_properties(0).total_memory >> 20)
    torch.manual_seed(1)
    query = corpus(1)
    gone: set[str] = set()
    # Implementations that tune themselves at their first call come last: when time runs out, the rest is there.
    for impl, pages in itertools.product(("rowmax", "torch", "fm"), PAGES):
        if impl in gone:
            continue
        documents = corpus(pages)  # by itself: an implementation may use all memory besides
        inputs = Inputs(Case("ladder", 1, pages, LENGTH, LENGTH), query, documents)
        line = {"case": "ladder", "x": pages, "impl": impl, "dtype": "float16",
                "floor_ms": round(inputs.floor_ms(limits["float16_tflops"], limits["copy_tbps"]), 4),
                "corpus_mib": round(documents.numel() * 2 / 2**20)}
        try:
            with torch.inference_mode():
                call = IMPLEMENTATIONS[impl](inputs)
                line |= {"extra_mib": extra_mib(call), **eager(call, repeats=3, warm=1)}
        except Exception as error:
            line["failed"] = failure(error)
            gone.add(impl)
        line = report.add(**line)
        print(f"{pages:7} {impl:7} {line.get('median_ms', 'failed')!s:>9} ms {line.get('extra_mib', '')!s:>10} MiB", flush=True)
        del documents, inputs
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
