#!/usr/bin/env python3
"""What documents cost whose addresses or strides are no multiples of 16 bytes, beside the same documents 16 bytes aligned:
the contract allows twice the time. Also documents of one token, beside those of two.
"""

import torch
from report import Report, parser
from timing import replayed

CASES = {  # query tokens, documents, document tokens, d
    "few": (32, 4000, 300, 128),
    "few-d96": (32, 4000, 300, 96),
    "medium": (128, 1000, 1024, 128),
    "many": (1024, 300, 1024, 128),
    "few-d193": (32, 4000, 300, 193),
    "few-d321": (32, 2000, 300, 321),
    "few-d1025": (32, 700, 300, 1025),
    "many-d193": (512, 300, 512, 193),
}
# Elements from an aligned address to the first token, and how many more than d from token to token.
PLACES = {
    "as it comes": (0, 0), "base + 1": (1, 0), "base + 2": (2, 0), "base + 4": (4, 0), "stride + 1": (0, 1), "stride + 2": (0, 2),
}  # fmt: skip


def documents(flat: torch.Tensor, count: int, length: int, dim: int, pitch: int, shift: int) -> torch.Tensor:
    return flat[shift : shift + count * length * pitch].view(count, length, pitch)[..., :dim]


def time(Q: torch.Tensor, D: torch.Tensor) -> dict:
    import rowmax

    out = torch.empty(1, len(D), device="cuda")
    kernels = [kernel.name for kernel in rowmax.explain_dispatch(Q, D) if kernel.chosen]
    return {"kernel": kernels[0], **replayed(lambda: rowmax.maxsim(Q, D, out=out), 4, repeats=9)}


def measure_case(report: Report, name: str, flat: torch.Tensor) -> None:
    lq, count, length, dim = CASES[name]
    dtype = str(flat.dtype).removeprefix("torch.")
    elements = 16 // flat.element_size()
    Q = torch.randn(1, lq, dim, device="cuda", dtype=flat.dtype)
    base = time(Q, documents(flat, count, length, dim, -(-dim // elements) * elements, 0))
    report.add(case="alignment", x=name, impl="aligned", dtype=dtype, **base)
    for place, (shift, more) in PLACES.items():
        pitch = dim + more
        if (pitch % elements, shift % elements) == (0, 0):
            continue
        found = time(Q, documents(flat, count, length, dim, pitch, shift))
        ratio = round(found["median_ms"] / base["median_ms"], 3)
        report.add(case="alignment", x=name, impl=place, dtype=dtype, ratio=ratio, **found)
        print(f"{dtype} {name:10} {place:12} {found['median_ms']:8.4f} ms, {ratio:5.2f} of aligned: {found['kernel']}", flush=True)


def measure_short(report: Report, flat: torch.Tensor) -> None:
    dtype = str(flat.dtype).removeprefix("torch.")
    Q = torch.randn(1, 32, 128, device="cuda", dtype=flat.dtype)
    for length in (1, 2):
        found = time(Q, documents(flat, 16384, length, 128, 128, 0))
        report.add(case="alignment", x="16k documents", impl=f"{length} tokens", dtype=dtype, **found)
        print(f"{dtype} 16k documents of {length} tokens: {found['median_ms']:.4f} ms", flush=True)


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--dtype", nargs="*", default=["float16", "float32"])
    made.add_argument("--case", nargs="*", default=list(CASES))
    args = made.parse_args(arguments)
    report = Report(args)
    for dtype in args.dtype:
        flat = torch.randn(1 << 28, device="cuda", dtype=getattr(torch, dtype))
        for name in args.case:
            measure_case(report, name, flat)
        measure_short(report, flat)
        del flat
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
