#!/usr/bin/env python3
"""Times scores of 8-bit codes, and the quantisers that make them, beside own float16 scores and other implementations."""

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from report import Report, attempted, parser
from timing import ceilings, eager, extra_mib, replayed_or


class Case(NamedTuple):
    name: str
    queries: int
    documents: int
    lq: int
    ld: int
    dim: int = 128

    def floor_ms(self, limits: dict, rate: str, bytes_of_token: float) -> float:
        """Of the tokens' bytes, or of the multiplications at the rate of a matrix product of that type."""
        flop = 2 * self.queries * self.documents * self.lq * self.ld * self.dim
        return max(flop / limits[rate] / 1e9, self.documents * self.ld * bytes_of_token / limits["copy_tbps"] / 1e9)


# Those with an aim come first.
CASES = (
    Case("text-10k", 1, 10000, 32, 300), Case("colpali-10k", 1, 10000, 1024, 1024), Case("colpali-1k", 1, 1000, 1024, 1024),
    Case("batch-128x1k", 128, 1000, 32, 180), Case("text-1k", 1, 1000, 32, 300), Case("medium-1k", 1, 1000, 128, 1024),
)  # fmt: skip
BEST = 100


class Form(NamedTuple):
    impl: str
    dtype: str
    granularity: str
    call: Callable[[], torch.Tensor]
    truth: tuple[torch.Tensor, torch.Tensor]
    """What the codes stand for: of the queries, and of the first documents."""


TRUE_DOCUMENTS = 8


def fp8_tflops() -> float:
    a, b = (torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    ms = eager(lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16))["median_ms"]
    return round(2 * 8192**3 / ms / 1e9, 1)


def embeddings(*shape: int) -> torch.Tensor:
    made = torch.empty(shape, device="cuda", dtype=torch.float16)
    for part in made.split(1024):
        part.copy_(torch.nn.functional.normalize(torch.randn(part.shape, device="cuda"), dim=-1))
    return made


def worth(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    factor = scale if scale.ndim == 0 else scale.reshape(scale.shape + (1,) * (codes.ndim - scale.ndim))
    return codes.double() * factor.double()


def own_forms(Q: torch.Tensor, D: torch.Tensor) -> Iterator[Form]:
    import rowmax

    first = D[:TRUE_DOCUMENTS]
    yield Form("rowmax", "float16", "", lambda: rowmax.maxsim(Q, D), (Q.double(), first.double()))
    for kind, sizes in (("int8", ("token", "document")), ("fp8", ("token", "tensor"))):
        quantize = getattr(rowmax, f"quantize_{kind}")
        score = getattr(rowmax, f"maxsim_{kind}")
        for size in sizes:
            q, qs = quantize(Q)
            d, ds = quantize(D, size)
            truth = worth(q, qs), worth(d[:TRUE_DOCUMENTS], ds if ds.ndim == 0 else ds[:TRUE_DOCUMENTS])
            yield Form("rowmax", kind, size, lambda q=q, qs=qs, d=d, ds=ds, score=score: score(q, qs, d, ds), truth)


def others_forms(Q: torch.Tensor, D: torch.Tensor) -> Iterator[Form]:
    first = Q.double(), D[:TRUE_DOCUMENTS].double()
    if len(Q) == 1:
        try:
            import flash_maxsim as fm

            d, ds = fm.quantize_int8_symmetric(D)
            q, qs = fm.quantize_query_int8(Q[0])
            yield Form("fm", "int8", "token", lambda: fm.flash_maxsim_int8x8(Q[0], d, ds, q, qs), first)
            del d
        except ImportError:
            pass
    try:
        from late_interaction_kernels import fp8

        q, qs = fp8.quantize_fp8_per_token(Q)
        d, ds = fp8.quantize_fp8_per_token(D)
        yield Form("lik", "fp8", "token", lambda: fp8.maxsim_inference_fp8(q, d, scale_Q=qs, scale_D=ds), first)
    except ImportError:
        pass


def quantizers(D: torch.Tensor) -> Iterator[tuple[str, str, str, Callable[[], object]]]:
    import rowmax

    for kind, sizes in (("int8", ("token", "document")), ("fp8", ("token", "tensor"))):
        quantize = getattr(rowmax, f"quantize_{kind}")
        for size in sizes:
            yield "rowmax", kind, size, lambda quantize=quantize, size=size: quantize(D, size)
    try:
        import flash_maxsim as fm

        yield "fm", "int8", "token", lambda: fm.quantize_int8_symmetric(D)
    except ImportError:
        pass
    try:
        from late_interaction_kernels import fp8

        yield "lik", "fp8", "token", lambda: fp8.quantize_fp8_per_token(D)
    except ImportError:
        pass


def error_of(form: Form) -> float:
    """Largest, in parts of the sum of |q| |d|, for what the codes stand for (others: for the tokens)."""
    q, d = form.truth
    truth = torch.einsum("qsd,nld->qnsl", q, d).amax(-1).sum(-1)
    scale = q.norm(dim=-1).sum(-1)[:, None] * d.norm(dim=-1).amax(-1)[None]
    found = form.call().reshape(len(q), -1)[:, : len(d)].double()
    return ((found - truth).abs() / scale).max().item()


def measured(call: Callable[[], object], floor: float) -> dict:
    found = {"extra_mib": extra_mib(call), "eager": eager(call, 9)}
    return found | replayed_or(found["eager"], call, 20 if floor < 0.1 else 3, 15)


def measured_form(form: Form, floor: float) -> dict:
    return {"error": error_of(form)} | measured(form.call, floor)


Forms = Callable[[torch.Tensor, torch.Tensor], Iterator[Form]]


def measure_codes(report: Report, case: Case, limits: dict, forms: Forms) -> None:
    Q, D = embeddings(case.queries, case.lq, case.dim), embeddings(case.documents, case.ld, case.dim)
    for form in forms(Q, D):
        if form.dtype == "float16":
            floor = case.floor_ms(limits, "float16_tflops", 2 * case.dim)
        else:
            floor = case.floor_ms(limits, "fp8_tflops", case.dim + (4 if form.granularity == "token" else 0))
        line = {"case": case.name, "impl": form.impl, "dtype": form.dtype, "granularity": form.granularity,
                "floor_ms": round(floor, 5)}
        show(report.add(**line, **attempted(form.impl, partial(measured_form, form, floor))))
        del form
        gc.collect()


def best_forms(Q: torch.Tensor, D: torch.Tensor) -> Iterator[tuple[str, str, str, Callable[[], object]]]:
    """The best documents, exactly or in two stages."""
    import rowmax

    yield "rowmax", "float16", "", lambda: rowmax.topk(Q, D, BEST)
    for kind in ("int8", "fp8"):
        coarse = getattr(rowmax, f"quantize_{kind}")(D)
        yield "rowmax, two stages", kind, "token", lambda coarse=coarse: rowmax.topk_two_stage(Q, (D, coarse), BEST)
    try:
        import flash_maxsim as fm

        yield "fm", "float16", "", lambda: fm.flash_maxsim_topk(Q[0], D, BEST)
    except ImportError:
        pass
    try:
        import late_interaction_kernels as lik

        yield "lik", "float16", "", lambda: lik.retrieve(Q, D, BEST, normalize=False)
    except ImportError:
        pass
    yield "torch", "float16", "", lambda: torch.einsum("qd,nld->nql", Q[0], D).amax(-1).sum(-1).topk(BEST)


def measure_best(report: Report, case: Case, limits: dict) -> None:
    Q, D = embeddings(case.queries, case.lq, case.dim), embeddings(case.documents, case.ld, case.dim)
    for impl, dtype, granularity, call in best_forms(Q, D):
        bytes_of_token = 2 * case.dim if dtype == "float16" else case.dim + 4
        floor = case.floor_ms(limits, "float16_tflops" if dtype == "float16" else "fp8_tflops", bytes_of_token)
        line = {"case": f"top-{BEST} of {case.name}", "impl": impl, "dtype": dtype, "granularity": granularity,
                "floor_ms": round(floor, 5)}
        show(report.add(**line, **attempted(impl, partial(measured, call, floor))))


def measure_quantizers(report: Report, case: Case, limits: dict) -> None:
    D = embeddings(case.documents, case.ld, case.dim)
    for impl, dtype, granularity, call in quantizers(D):
        floor = case.documents * case.ld * 3 * case.dim / limits["copy_tbps"] / 1e9
        line = {"case": f"quantize-{case.name}", "impl": impl, "dtype": dtype, "granularity": granularity,
                "floor_ms": round(floor, 5)}
        show(report.add(**line, **attempted(impl, partial(measured, call, floor))))


def show(line: dict) -> None:
    head = f"{line['case']:18} {line['impl']:8} {line['dtype']:8} {line['granularity']:9}"
    if "failed" in line:
        print(head, line["failed"][:90], flush=True)
        return
    error = f" error {line['error']:.1e}" if "error" in line else ""
    print(f"{head} {line['median_ms']:9.4f} ms ({line['timing']}), floor {line['floor_ms']:.4f}{error}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--case", nargs="*", default=[case.name for case in CASES])
    args = made.parse_args(arguments)
    limits = ceilings(rounds=9) | {"fp8_tflops": fp8_tflops()}
    report = Report(args, **limits)
    chosen = [case for case in CASES if case.name in args.case]
    # Own forms of all cases are measured in seconds; others compile first, and are what a run that ends early lacks.
    steps = [(partial(measure_codes, forms=own_forms), case) for case in chosen]
    steps += [(step, case) for step in (measure_best, measure_quantizers) for case in chosen if case.name == "text-10k"]
    steps += [(partial(measure_codes, forms=others_forms), case) for case in chosen]
    with torch.inference_mode():
        for step, case in steps:
            step(report, case, limits)
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
