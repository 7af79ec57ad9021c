"""Two stages on a GPU: candidates are chosen where the scores of the scan are, and nothing waits for the device."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rowmax import _native
from rowmax._frameworks import Extras


def chosen(keys: Tensor, width: int) -> tuple[Tensor, Tensor | None]:
    """The `width` documents of the highest keys `[Nq, Nd]` in ascending order, and the highest key of any other."""
    best = largest(keys, min(width + 1, keys.shape[1]))
    rest = keys.gather(1, best[:, width:])[:, 0] if keys.shape[1] > width else None
    return torch.sort(best[:, :width], dim=1).values, rest


def largest(keys: Tensor, k: int) -> Tensor:
    """int64 `[Nq, k]`: where the k highest of every row are, best first: NaN before numbers, the first among equals."""
    best = torch.empty((len(keys), k), dtype=torch.int64, device=keys.device)
    if best.numel() > 0:
        _native.plaid_probe(keys.detach().T, k, 0, False, best)
    return best


def proved(best: Tensor, rest: Tensor) -> Tensor:
    """Whether every query's last result is above whatever else there may be: one bool, which stays on the device."""
    if best.shape[1] == 0:
        return torch.ones((), dtype=torch.bool, device=best.device)
    return (torch.nan_to_num(best[:, -1].detach(), nan=torch.inf, posinf=torch.inf, neginf=-torch.inf) > rest).all()


def most(found: Tensor, Q: Tensor, query: tuple[Tensor, Tensor], d_scale: Tensor, queries: Extras, documents: Extras) -> Tensor:
    """What exact scores are not above, of int8 scores `[Nq, Nd]`; infinite where nothing is known. As `_int8_error` has it;
    its factor covers float32's rounding."""
    error, size = _error(Q, *query, queries)
    scale = _largest_scale(d_scale, found.shape[1], documents)
    reach = torch.addcmul(found, error[:, None], scale)
    reach = torch.nextafter(reach, reach.new_full((), torch.inf))
    # Where a sum may leave float32's range, or is not finite, nothing is known.
    return torch.where(reach.isfinite() & (size[:, None] * (127 * scale) < 1e37), reach, torch.inf)


def _error(Q: Tensor, codes: Tensor, scale: Tensor, queries: Extras) -> tuple[Tensor, Tensor]:
    # In float64, as there: squares of float32 may leave its range.
    numbers = (Q.view(torch.bfloat16) if Q.dtype is torch.uint16 else Q).detach().double()
    difference = torch.addcmul(numbers, codes.double(), scale[..., None].double(), value=-1)
    magnitude = torch.linalg.vector_norm(numbers, 1, dim=-1)
    rounding = 4e-6 * 128 * math.sqrt(Q.shape[-1]) * torch.linalg.vector_norm(numbers, dim=-1)
    each = magnitude / 2 + 127 * torch.linalg.vector_norm(difference, 1, dim=-1) + rounding + 1e-6
    if "q_mask" in queries:
        mask = torch.as_tensor(queries["q_mask"], device=Q.device) != 0
        each, magnitude = torch.where(mask, each, 0), torch.where(mask, magnitude, 0)
    lead = (-1, Q.shape[-2])
    return 1.0001 * each.reshape(lead).sum(-1).float(), magnitude.reshape(lead).sum(-1).float()


def _largest_scale(scale: Tensor, documents: int, sides: Extras) -> Tensor:
    """Of each document's kept tokens, never below 1e-30; infinite where one is NaN."""
    scale = scale.detach()
    if "cu_seqlens_d" in sides and scale.ndim == 1:
        starts = torch.as_tensor(sides["cu_seqlens_d"], device=scale.device).clamp(0, len(scale))
        known = torch.nan_to_num(scale.abs(), nan=torch.inf, posinf=torch.inf)
        return torch.segment_reduce(known, "max", offsets=starts.long(), initial=1e-30, unsafe=True)
    if scale.ndim >= 2:
        if "d_mask" in sides:
            scale = torch.where(torch.as_tensor(sides["d_mask"], device=scale.device) != 0, scale, 0)
        if scale.shape[-1] == 0:
            return scale.new_full((documents,), 1e-30)
        scale = torch.linalg.vector_norm(scale, torch.inf, dim=-1)
    known = torch.nan_to_num(scale.abs(), nan=torch.inf, posinf=torch.inf).clamp_min(1e-30)
    return known.expand(documents)
