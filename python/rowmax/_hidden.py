"""Documents as hidden states: the encoder's last linear layer is computed while its tokens are scored."""

from __future__ import annotations

from typing import Any

from rowmax._frameworks import common_framework
from rowmax._options import Backward, given, options, pairing_of


def maxsim_from_hidden(
    Q: Any, H: Any, W: Any, b: Any = None, *, q_mask: Any = None, d_mask: Any = None, cu_seqlens_d: Any = None,
    normalize: bool = True, backward: Backward = "auto", deterministic: bool = True, return_index: bool = False,
    validate: bool | None = None, out: Any = None, dtype: Any = None, threads: int | None = None,
    kernel: str | None = None,
) -> Any:  # fmt: skip
    """MaxSim with documents that are hidden states: token = W h + b, divided by its L2 norm with `normalize`.

    Q is `[Nq, Lq, d]` or `[Lq, d]`, taken as it is (normalise it before); H `[Nd, Ld, h]` hidden states, W `[d, h]` and b `[d]`
    (or None) a linear layer as torch.nn.Linear keeps it: all of one type, float64, float32, float16 or bfloat16. Scores are
    `[Nq, Nd]` or `[Nd]`; H `[Nq, K, Ld, h]` are each query's own candidates; with `cu_seqlens_d` H is packed, `[T, h]`.
    Tokens are computed and scored in float32 (float64), a block at a time: they are never all held. On a GPU those of 16-bit
    states are rounded to the states' type before they are scored. A token of zeros stays zero and has no gradient.

    Differentiable in Q, H, W and b for torch tensors. The backward pass projects only tokens that won, each once; gradients have
    the same bits on every run and for any number of threads. Masks and the other keywords as in `maxsim`;
    the idea of projecting inside the operator is that of fused linear losses (Liger kernel, https://arxiv.org/abs/2410.10989).
    """
    extras = options(False, "highest", backward, deterministic, validate, dtype, threads, kernel)
    extras |= given(q_mask=q_mask, d_mask=d_mask, cu_seqlens_d=cu_seqlens_d)
    if normalize:
        extras["normalize_hidden"] = True
    framework = common_framework(Q, H, ("Q", "H"))
    common_framework(Q, W, ("Q", "W"))
    if b is not None:
        common_framework(Q, b, ("Q", "b"))
    return framework.score_hidden(Q, H, W, b, pairing_of(H), extras, return_index, out, backward)
