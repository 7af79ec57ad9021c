#!/usr/bin/env python3
"""Times scores of residual codes, sign bits and centroids, and a PLAID search, beside late-interaction-kernels."""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from report import Report, attempted, parser
from timing import ceilings, eager, extra_mib, replayed_or

import rowmax

DOCUMENTS, LENGTH, LQ, DIM, CENTROIDS = 10000, 300, 32, 128, 2**14
TRUE_DOCUMENTS = 20


class Form(NamedTuple):
    case: str
    impl: str
    dtype: str
    call: Callable[[], torch.Tensor]
    bytes_of_token: float
    truth: torch.Tensor | None
    """Scores of the first documents."""


def unit(*shape: int) -> torch.Tensor:
    return F.normalize(torch.randn(shape, device="cuda"), dim=-1)


def decoded(codes: torch.Tensor, residuals: torch.Tensor, tables: dict) -> torch.Tensor:
    buckets = rowmax.unpack_residual(residuals.cpu(), tables["nbits"]).long().cuda()
    tokens = tables["centroids"].float()[codes.long()] + tables["bucket_weights"].float()[buckets]
    return F.normalize(tokens.double(), dim=-1)


def residual_forms(nbits: int, dtype: torch.dtype) -> Iterator[Form]:
    torch.manual_seed(1)
    Q = unit(LQ, DIM).to(dtype)
    tables = {
        "centroids": unit(CENTROIDS, DIM).to(dtype), "nbits": nbits,
        "bucket_weights": torch.linspace(-0.1, 0.1, 2**nbits, device="cuda").to(dtype),
    }  # fmt: skip
    codes = torch.randint(0, CENTROIDS, (DOCUMENTS, LENGTH), device="cuda", dtype=torch.int32)
    residuals = torch.randint(0, 256, (DOCUMENTS, LENGTH, DIM * nbits // 8), device="cuda", dtype=torch.uint8)
    lengths = torch.full((DOCUMENTS,), LENGTH, device="cuda", dtype=torch.int32)
    offsets = torch.arange(DOCUMENTS + 1, device="cuda", dtype=torch.int32) * LENGTH
    tokens = decoded(codes[:TRUE_DOCUMENTS], residuals[:TRUE_DOCUMENTS], tables)
    truth = torch.einsum("qd,ntd->nqt", Q.double(), tokens).amax(-1).sum(-1)
    kind = f"{str(dtype).removeprefix('torch.')} nbits {nbits}"
    form = partial(Form, bytes_of_token=4 + DIM * nbits / 8, truth=truth)
    packed = codes.flatten(), residuals.flatten(0, 1), offsets
    yield form("residual-10k", "rowmax", kind, lambda: rowmax.maxsim_residual(Q, codes, residuals, lengths, **tables))
    yield form("residual-10k-packed", "rowmax", kind, lambda: rowmax.maxsim_residual_varlen(Q, *packed, **tables))
    if dtype is not torch.float16 or nbits not in (2, 4):
        return
    try:
        from late_interaction_kernels import plaid

        rest = (tables["centroids"], tables["bucket_weights"], nbits)
        call = partial(plaid.maxsim_residual_varlen, Q[None], packed[0], packed[1], offsets, *rest, max_seqlen_d=LENGTH)
        yield form("residual-10k-packed", "lik", kind, call)
    except ImportError:
        pass


def bit_forms() -> Iterator[Form]:
    torch.manual_seed(1)
    Q, D = unit(LQ, DIM), torch.randn(DOCUMENTS, LENGTH, DIM, device="cuda", dtype=torch.float16)
    bits, queries = rowmax.sign_bits(D), rowmax.sign_bits(Q)
    signs = torch.where(D[:TRUE_DOCUMENTS] > 0, 1.0, -1.0).double()

    def best(tokens: torch.Tensor) -> torch.Tensor:
        return torch.einsum("qd,ntd->nqt", tokens.double(), signs).amax(-1).sum(-1)

    yield Form("text-10k", "rowmax", "float16", lambda: rowmax.maxsim(Q.half(), D), 2 * DIM, None)
    yield Form("bits-10k", "rowmax", "float16", lambda: rowmax.maxsim_bits(Q.half(), bits), DIM / 8, best(Q.half()))
    yield Form("bits-10k", "rowmax", "float32", lambda: rowmax.maxsim_bits(Q, bits), DIM / 8, best(Q))
    both = best(torch.where(Q > 0, 1.0, -1.0))
    yield Form("hamming-10k", "rowmax", "bits", lambda: rowmax.maxsim_hamming(queries, bits), DIM / 8, both)
    yield Form("sign-bits-10k", "rowmax", "float16", lambda: rowmax.sign_bits(D), 2 * DIM + DIM / 8, None)


def centroid_forms() -> Iterator[Form]:
    torch.manual_seed(1)
    codes = torch.randint(0, CENTROIDS, (DOCUMENTS, LENGTH), device="cuda")
    lengths = torch.full((DOCUMENTS,), LENGTH, device="cuda")
    table = (unit(CENTROIDS, DIM) @ unit(LQ, DIM).T).contiguous()
    truth = table.double()[codes[:TRUE_DOCUMENTS]].amax(1).sum(-1)
    yield Form("plaid-approx-10k", "rowmax", "float32", lambda: rowmax.plaid_approx_score(table, codes, lengths), 8, truth)
    short = codes.int()
    yield Form("plaid-approx-10k", "rowmax", "float32 int32", lambda: rowmax.plaid_approx_score(table, short, lengths), 4, truth)
    try:
        from late_interaction_kernels import plaid

        yield Form("plaid-approx-10k", "lik", "float32", lambda: plaid.plaid_approx_score(table, codes, lengths), 8, truth)
    except ImportError:
        pass


def search_forms(folder: Path) -> Iterator[Form]:
    """Searches of 100 000 short documents."""
    torch.manual_seed(1)
    documents, length = 100_000, 32
    centers = unit(2048, DIM)
    tokens = centers[torch.randint(0, 2048, (documents * length,), device="cuda")] + 0.3 * unit(documents * length, DIM)
    offsets = torch.arange(documents + 1) * length
    packed = (F.normalize(tokens, dim=-1).half().cpu(), offsets)
    index = rowmax.PlaidIndex.pack(folder / "index", packed, nbits=2, centroids=2048, iterations=1)
    Q = unit(LQ, DIM).half()
    for nprobe, candidates in ((2, 256), (4, 1024), (8, 4096)):
        call = partial(rowmax.plaid_search, Q, index, 10, nprobe=nprobe, candidates=candidates)
        yield Form("plaid-search-100k", "rowmax", f"nprobe {nprobe} of {candidates}", lambda call=call: call()[0], 0, None)


def measure(form: Form) -> dict:
    result: dict = {"eager": eager(form.call)}
    result |= replayed_or(result["eager"], form.call, 10)
    result["extra_mib"] = extra_mib(form.call)
    if form.truth is not None:
        found = form.call().reshape(-1)[: len(form.truth)].double()
        result["error"] = ((found - form.truth).abs() / LQ).max().item()
    return result


def main() -> None:
    args = parser(__doc__).parse_args()
    limits = ceilings(rounds=15)
    report = Report(args, **limits)
    with tempfile.TemporaryDirectory() as folder:
        # Those with an aim first: a part of a run that ends early has them.
        sources = [residual_forms(nbits, torch.float16) for nbits in (2, 4)]
        sources += [centroid_forms(), bit_forms(), search_forms(Path(folder))]
        sources += [residual_forms(nbits, torch.float16) for nbits in (1, 8)]
        sources += [residual_forms(nbits, torch.float32) for nbits in (2, 4)]
        for source in sources:
            for form in source:
                floor = DOCUMENTS * LENGTH * form.bytes_of_token / limits["copy_tbps"] / 1e9
                line = report.add(
                    case=form.case, impl=form.impl, dtype=form.dtype, floor_ms=round(floor, 5),
                    **attempted(form.impl, partial(measure, form)),
                )  # fmt: skip
                shown = line.get("failed") or f"{line['median_ms']:9.4f} ms {line.get('error', 0):8.1e} +{line['extra_mib']} MiB"
                print(f"{form.case:22} {form.impl:8} {form.dtype:22} {shown}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
