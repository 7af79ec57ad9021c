#!/usr/bin/env python3
"""One size at a time from its least to its largest, the others fixed: is time linear, and are there cliffs?

Every point is the time of a call replayed from a graph, beside the floor of that shape; scores of a few documents are
compared with float64. The sweep over the fill of padded documents times the other implementations too.
"""

import dataclasses

import torch
from report import Report, failure, parser
from timing import ceilings, replayed

from cases import Case, Inputs, beta_lengths, exact
from implementations import IMPLEMENTATIONS

DIMS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 208, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048)
QUERY_TOKENS = (1, 2, 4, 8, 16, 20, 32, 33, 48, 64, 65, 96, 128, 129, 192, 256, 257, 384, 511, 512, 768, 1024, 1030, 1536, 2048,
                3072, 4096)
DOCUMENT_TOKENS = (1, 2, 4, 8, 16, 31, 32, 33, 64, 96, 128, 129, 180, 256, 300, 512, 777, 1024, 1030, 2048, 4096, 8192, 16384)
DOCUMENTS = (1, 2, 4, 10, 30, 64, 100, 132, 133, 200, 264, 265, 400, 700, 1000, 3000, 10000, 30000, 100000)
QUERIES = (1, 2, 3, 4, 5, 8, 12, 16, 32, 64, 128, 256)
FILLS = (0.14, 0.25, 0.35, 0.5, 0.65, 0.76)

SWEEPS = {
    "dim": [(d, Case("dim", 1, 1000, 32, 300, d)) for d in DIMS],
    "dim-many": [(d, Case("dim-many", 1, 250, 512, 512, d)) for d in DIMS],
    "lq": [(n, Case("lq", 1, 1000, n, 300)) for n in QUERY_TOKENS],
    "ld": [(n, Case("ld", 1, 1000, 32, n)) for n in DOCUMENT_TOKENS],
    "documents": [(n, Case("documents", 1, n, 32, 180)) for n in DOCUMENTS],
    "queries": [(n, Case("queries", n, 1000, 32, 180)) for n in QUERIES],
    "fill": [(fill, Case("fill", 1, 4000, 32, 512, ragged=True)) for fill in FILLS],
}


def storage(dtype: torch.dtype) -> torch.Tensor:
    """Random numbers for the largest shape; every shape is a view of their beginning."""
    most = max(c.documents * c.ld * c.dim for points in SWEEPS.values() for _, c in points)
    flat = torch.empty(most, device="cuda", dtype=dtype)
    for part in flat.split(1 << 26):
        part.copy_(torch.randn(part.shape, device="cuda"))
    return flat.div_(11)  # length 1 at d = 128


def inputs_of(case: Case, point: float, flat: torch.Tensor) -> Inputs:
    def view(*shape: int) -> torch.Tensor:
        return flat[: torch.Size(shape).numel()].view(shape)

    Q = view(case.queries, case.lq, case.dim).clone()
    if not case.ragged:
        return Inputs(case, Q, view(case.documents, case.ld, case.dim))
    lengths = beta_lengths(case, point)
    cu_d = torch.cat([torch.zeros(1, dtype=torch.int32), lengths.cumsum(0).int()]).cuda()
    cu_q = torch.tensor([0, case.lq], dtype=torch.int32, device="cuda")
    return Inputs(case, Q, view(int(lengths.sum()), case.dim), cu_q, cu_d)


def measure(name: str, inputs: Inputs, floor: float) -> dict:
    call = IMPLEMENTATIONS[name](inputs)
    shown = min(inputs.case.documents, 3)
    truth, scale = exact(inputs, shown)
    found = call().reshape(inputs.case.queries, -1)[:, :shown].double()
    calls = int(min(max(1.5 / max(floor, 0.002), 1), 40))
    return {"error": ((found - truth).abs() / scale).max().item(), **replayed(call, calls, repeats=7)}


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--sweep", nargs="*", default=list(SWEEPS))
    made.add_argument("--dtype", default="float16")
    args = made.parse_args(arguments)
    limits = ceilings(rounds=9)
    report = Report(args, **limits)
    flat = storage(getattr(torch, args.dtype))
    for sweep in args.sweep:
        for point, case in SWEEPS[sweep]:
            inputs = inputs_of(case, point, flat)
            floor = inputs.floor_ms(limits[f"{args.dtype}_tflops"], limits["copy_tbps"])
            for impl in ("rowmax", "torch", "fm", "lik") if sweep == "fill" else ("rowmax",):
                line = {"case": f"sweep-{sweep}", "x": point, "impl": impl, "dtype": args.dtype, "floor_ms": round(floor, 6),
                        "shape": dataclasses.asdict(case)}
                try:
                    with torch.inference_mode():
                        line |= measure(impl, inputs, floor)
                except Exception as error:
                    line["failed"] = failure(error)
                line = report.add(**line)
                time = f"{line['median_ms']:9.4f} ms {line['error']:8.1e}" if "median_ms" in line else line["failed"]
                print(f"{sweep:10} {point!s:>8} {impl:7} floor {floor:8.4f} ms {time}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
