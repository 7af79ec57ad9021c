"""Hard routing: tokens to the experts that an index names, and back, without atomics and with gradients.

    index, logits = routing.top_experts(router(x), k=2)
    packed, route = routing.dispatch(x, index, num_experts)          # every expert's tokens, side by side
    y = ...                                                          # expert e on packed[cu[e]:cu[e + 1]]
    out = routing.combine(y, route, weights=softmax(logits))         # weighted sums, back in the tokens' order

All of it goes through the inverse grid: dispatch is a gather whose gradient is `rowmax.scatter_sum`, combine is a
`scatter_sum` whose gradient is a gather, and both have the same bits on every run and for any number of threads.
Shapes depend on no values, so that torch.compile traces it whole. The layout is that of grouped matrix products
(MegaBlocks, Gale et al., 2022, https://arxiv.org/abs/2211.15841).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rowmax._frameworks import Framework, common_framework, framework_of
from rowmax._grid import inverse_grid, scatter_sum
from rowmax._options import dtype_name, integer

__all__ = ["Route", "combine", "dispatch", "gather", "top_experts"]


class Route(NamedTuple):
    """Where the rows of dispatched tokens come from. `T` tokens, each with `k` choices, `E` experts."""

    cu_seqlens: Any
    """int64 [E + 1]: expert e has rows cu_seqlens[e]:cu_seqlens[e + 1]; rows behind the last are zeros, and nobody's."""
    token: Any
    """int64 [T * k]: the token of each row, ascending within an expert; -1 behind the last."""
    choice: Any
    """int64 [T * k]: the same, as a number into the flattened index [T, k]."""
    tokens: int
    """T"""


def top_experts(logits: Any, k: int = 1) -> tuple[Any, Any]:
    """The k experts of every token with the largest logits, the lowest expert among equals.

    `logits [T, E]` -> (index int64 `[T, k]`, their logits `[T, k]`, differentiable for torch tensors), best first.
    """
    framework = framework_of(logits, "logits")
    k = integer("k", k)
    if dtype_name(logits.dtype) not in ("float16", "bfloat16", "float32", "float64"):
        raise TypeError(f"logits must be float16, bfloat16, float32 or float64, got {dtype_name(logits.dtype)}")
    if logits.ndim != 2:
        raise ValueError(f"logits must be [T, E], got shape {list(logits.shape)}")
    if not 1 <= k <= logits.shape[1]:
        raise ValueError(f"k must be 1 to E = {logits.shape[1]}, got {k}")
    return framework.largest(logits, k)


def dispatch(
    x: Any, index: Any, num_experts: int, *, capacity: int | None = None, validate: bool | None = None
) -> tuple[Any, Route]:
    """Tokens by expert: `x [T, C]` and `index [T]` or `[T, k]` (int32 or int64, -1: to no expert) -> (`[T * k, C]`, route).

    Rows of expert e are `route.cu_seqlens[e]:route.cu_seqlens[e + 1]`, in the order of the tokens; the rows behind the
    last expert's are zeros. A token is copied for each of its choices. Differentiable in x for torch tensors.

    capacity: tokens that an expert takes at most; those that come later are dropped, as if their index were -1.
    validate: as in `scatter_sum`.
    """
    framework = common_framework(x, index, ("x", "index"))
    if x.ndim != 2 or index.ndim not in (1, 2) or index.shape[0] != x.shape[0]:
        shapes = f"x {list(x.shape)} and index {list(index.shape)}"
        raise ValueError(f"{shapes} do not fit: x must be [T, C] and index [T] or [T, k]")
    tokens, choices = x.shape[0], 1 if index.ndim == 1 else index.shape[1]
    flat = index.reshape(tokens * choices)
    row_ptr, choice = inverse_grid(flat, num_experts, validate=validate)
    if capacity is not None:
        flat = _within(framework, flat, row_ptr, choice, integer("capacity", capacity))
        row_ptr, choice = inverse_grid(flat, num_experts, validate=False)
    token = choice // max(choices, 1)  # rounds down: -1 stays
    return framework.rows(token, x), Route(row_ptr, token, choice, tokens)


def combine(y: Any, route: Route, weights: Any = None) -> Any:
    """What the experts made of dispatched tokens, back in the tokens' order: `y [T * k, C]` -> `[T, C]`.

    The sum over a token's choices of `weights [T]` or `[T, k]` (None: 1) times its row; choices that were dropped add nothing.
    float16 and bfloat16 are multiplied and added in float32 and rounded once. Differentiable in y and weights for torch
    tensors.
    """
    if not isinstance(route, Route):
        raise TypeError(f"route must be the Route that dispatch gave, got {type(route).__name__}")
    framework = common_framework(y, route.token, ("y", "route"))
    rows = route.token.shape[0]
    if y.ndim != 2 or y.shape[0] != rows:
        raise ValueError(f"y must be [{rows}, C], one row for every choice of the route, got shape {list(y.shape)}")
    if weights is None:
        return scatter_sum(route.token, y, route.tokens, validate=False)
    common_framework(weights, y, ("weights", "y"))
    if weights.ndim not in (1, 2) or weights.shape[0] != route.tokens or weights.reshape(-1).shape[0] != rows:
        raise ValueError(
            f"weights must be [T] or [T, k] with {rows} numbers for {route.tokens} tokens, got shape {list(weights.shape)}"
        )
    chosen = framework.rows(route.choice, weights.reshape(-1))
    y_type = dtype_name(y.dtype)
    if y_type in ("float16", "bfloat16"):
        y, chosen = framework.cast(y, "float32"), framework.cast(chosen, "float32")
    sums = scatter_sum(route.token, y * chosen[:, None], route.tokens, validate=False)
    return framework.cast(sums, y_type)


def gather(index: Any, table: Any) -> Any:
    """The rows that an index names: `table [..., n]` or `[..., n, C]` by `index [..., S]` -> `[..., S]` or `[..., S, C]`.

    Zeros where the index is -1 or out of range. Differentiable in the table for torch tensors: the gradient is
    `rowmax.scatter_sum`, with the same bits on every run. With the winning tokens of `maxsim` it is top-1 attention, with the
    winners of regions, max pooling.
    """
    framework = common_framework(index, table, ("index", "table"))
    lead = index.ndim - 1
    if index.ndim < 1 or table.ndim not in (index.ndim, index.ndim + 1) or tuple(table.shape[:lead]) != tuple(index.shape[:lead]):
        shapes = f"table {list(table.shape)} does not fit index {list(index.shape)}"
        raise ValueError(f"{shapes}: it must be [..., n] or [..., n, C] for [..., S]")
    if dtype_name(index.dtype) not in ("int32", "int64"):
        raise TypeError(f"index must be int32 or int64, got {dtype_name(index.dtype)}")
    return framework.rows(index, table)


def _within(framework: Framework, index: Any, row_ptr: Any, choice: Any, capacity: int) -> Any:
    """The index with -1 for those that come after `capacity` others of their expert."""
    if capacity < 0:
        raise ValueError(f"capacity must not be negative, got {capacity}")
    # Row i of the grid is number i - row_ptr[expert] of its expert.
    first = framework.rows(framework.rows(choice, index), row_ptr)
    xp, slots = framework.xp, index.shape[0]
    late = xp.where((choice >= 0) & (framework.positions(slots, index) - first >= capacity), choice, -1)
    dropped = scatter_sum(late, xp.ones_like(index, dtype=xp.float32), slots, validate=False)
    return xp.where(dropped > 0, -1, index)
