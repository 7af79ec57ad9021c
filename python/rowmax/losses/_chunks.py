"""Encoding a batch in chunks, so that the batch of the loss may be larger than what the encoder can hold.

This is gradient caching (Gao et al., https://arxiv.org/abs/2101.06983) by means of autograd: each chunk is a checkpoint, encoded
once without its activations and once more when the backward pass has reached it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rowmax.losses import _arguments as check


def encode_in_chunks(encoder: Callable[..., Any], *inputs: Any, chunk: int) -> Any:
    """`encoder(*inputs)`, computed `chunk` items at a time, with the activations of one chunk at most.

    inputs:  tensors whose first dimension is the batch, and mappings that hold such tensors (a tokeniser's output); each is
             cut along it. Anything else goes to every chunk as it is.
    encoder: gives tokens `[n, L, d]`, or a tuple (tokens, mask `[n, L]`, ...). Chunks may differ in L when a mask
             comes along: shorter ones are padded with hidden tokens.

    What comes out is one batch for one scoring call; `backward()` runs the encoder a second time, chunk by chunk in
    reverse, with the random numbers (dropout) and the autocast state of the first. Gradients are those of a single pass.
    """
    size = _batch_size(inputs)
    if not isinstance(chunk, int):
        raise TypeError(f"chunk must be an int, got {chunk!r}")
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    parts = []
    for begin in range(0, max(size, 1), chunk):
        cut = [_cut(value, begin, begin + chunk) for value in inputs]
        part = checkpoint(encoder, *cut, use_reentrant=False) if torch.is_grad_enabled() else encoder(*cut)
        parts.append(part if isinstance(part, tuple) else (part,))
    joined = _joined(parts)
    return joined if len(joined) > 1 else joined[0]


def _batch_size(inputs: tuple[Any, ...]) -> int:
    sizes = {
        f"inputs[{i}]" + (f"[{key!r}]" if key is not None else ""): len(tensor)
        for i, value in enumerate(inputs)
        for key, tensor in (value.items() if isinstance(value, Mapping) else [(None, value)])
        if isinstance(tensor, Tensor) and tensor.ndim
    }
    if not sizes:
        raise ValueError("inputs hold no tensor whose first dimension is the batch")
    (name, size), *others = sizes.items()
    for other, length in others:
        if length != size:
            raise ValueError(f"{name} holds {size} items but {other} holds {length}")
    return size


def _cut(value: Any, begin: int, end: int) -> Any:
    if isinstance(value, Mapping):
        return {key: _cut(item, begin, end) for key, item in value.items()}
    return value[begin:end] if isinstance(value, Tensor) and value.ndim else value


def _joined(parts: list[tuple[Any, ...]]) -> tuple[Tensor, ...]:
    if any(len(part) != len(parts[0]) for part in parts):
        raise ValueError(f"encoder gave {len(parts[0])} results for one chunk and another number for others")
    for part in parts:
        for i, value in enumerate(part):
            check.tensor(f"result {i} of encoder", value)
    lengths = [part[0].shape[1] for part in parts]
    if len(set(lengths)) > 1:
        if len(parts[0]) < 2:
            raise ValueError(f"encoder gave chunks of {min(lengths)} to {max(lengths)} tokens: it must also give their mask")
        parts = [tuple(_padded(value, max(lengths), n) for value in part) for part, n in zip(parts, lengths, strict=True)]
    return tuple(torch.cat(column) for column in zip(*parts, strict=True))


def _padded(value: Tensor, length: int, have: int) -> Tensor:
    """Zeros behind the tokens: hidden ones, in a mask."""
    if value.ndim < 2 or value.shape[1] != have or have == length:
        return value
    return torch.cat([value, value.new_zeros(len(value), length - have, *value.shape[2:])], 1)
