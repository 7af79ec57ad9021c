"""Checks that the losses share."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.compiler import is_compiling

from rowmax._frameworks import describe

Reduction = Literal["mean", "sum", "none"]


def tensor(name: str, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {describe(value)}")
    return value


def positive(name: str, value: float) -> float:
    # A tensor would be taken for a constant where the scores are found again in the backward pass.
    if isinstance(value, Tensor) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {describe(value)}: a learned one multiplies Q")
    if not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}")
    return value


def one_of_reductions(reduction: str) -> None:
    if reduction not in get_args(Reduction):
        raise ValueError(f"reduction must be one of {', '.join(map(repr, get_args(Reduction)))}, got {reduction!r}")


def reduced(losses: Tensor, reduction: str) -> Tensor:
    one_of_reductions(reduction)
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def wide(scores: Tensor) -> Tensor:
    """Scores in at least float32: what half precision holds may still overflow in a sum of exponentials or a square."""
    return scores if scores.dtype is torch.float64 else scores.float()


def same_shape(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    if value.shape != other.shape:
        raise ValueError(f"{name} {list(value.shape)} does not fit {other_name} {list(other.shape)}")


def in_range(name: str, values: Tensor, count: int, validate: bool | None) -> None:
    """The contents are read only on the CPU, or where asked to: on CUDA that would wait for the stream."""
    if is_compiling() or not (validate if validate is not None else not values.is_cuda) or not values.numel():
        return
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= count:
        raise ValueError(f"{name} must name one of {count} documents, got {low if low < 0 else high}")
