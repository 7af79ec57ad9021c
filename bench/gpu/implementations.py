"""The implementations that are compared: each makes, from the inputs of a case, a call without arguments."""

import functools
from collections.abc import Callable

import torch

from cases import Inputs


def tune_quickly() -> None:
    """Triton times every configuration of a kernel for 25 + 100 ms by default; a fifth of that tells them apart too."""
    try:
        from triton import testing
    except ImportError:
        return
    testing.do_bench = functools.partial(testing.do_bench, warmup=5, rep=20)


Call = Callable[[], torch.Tensor]


def torch_call(x: Inputs) -> Call:
    if not x.case.ragged:
        return lambda: torch.einsum("bqd,nld->bnql", x.Q, x.D).amax(-1).sum(-1)
    dense, mask = x.padded()
    hidden = ~mask[:, None]
    return lambda: torch.einsum("bqd,nld->bnql", x.Q, dense).masked_fill(hidden, float("-inf")).amax(-1).sum(-1)


def rowmax_call(x: Inputs, **options: object) -> Call:
    import rowmax

    if not x.case.ragged:
        return lambda: rowmax.maxsim(x.Q, x.D, **options)
    Q = x.Q[0]
    return lambda: rowmax.maxsim_varlen(
        Q, x.D, x.cu_q, x.cu_d, max_seqlen_q=x.case.lq, max_seqlen_d=x.case.ld, **options
    )


def torch_tf32_call(x: Inputs) -> Call:
    call = torch_call(x)

    def with_tf32() -> torch.Tensor:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return call()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return with_tf32


def rowmax_high_call(x: Inputs) -> Call:
    return rowmax_call(x, precision="high")


def rowmax_index_call(x: Inputs) -> Call:
    call = rowmax_call(x, return_index=True)
    return lambda: call()[0]


def fm_call(x: Inputs) -> Call:
    import flash_maxsim as fm

    if x.case.ragged:
        return lambda: fm.flash_maxsim_packed(x.Q[0], x.D, x.cu_d, x.case.ld)[None]
    if x.case.queries == 1:
        return lambda: fm.flash_maxsim(x.Q[0], x.D)[None]
    return lambda: fm.flash_maxsim_batched(x.Q, x.D, shared_docs=True)


def lik_call(x: Inputs) -> Call:
    import late_interaction_kernels as lik

    if x.case.ragged:
        return lambda: lik.maxsim_varlen(
            x.Q[0], x.D, x.cu_q, x.cu_d, max_seqlen_q=x.case.lq, max_seqlen_d=x.case.ld
        )
    return lambda: lik.maxsim(x.Q, x.D)


# precision "high", TF32: differs from the default for float32 only.
TF32 = ("rowmax-high", "torch-tf32")

IMPLEMENTATIONS: dict[str, Callable[[Inputs], Call]] = {
    "rowmax": rowmax_call,
    "rowmax-index": rowmax_index_call,
    "rowmax-high": rowmax_high_call,
    "torch": torch_call,
    "torch-tf32": torch_tf32_call,
    "fm": fm_call,
    "lik": lik_call,
}
