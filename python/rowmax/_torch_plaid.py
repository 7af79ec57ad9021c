"""PLAID on a GPU: the index in its memory, and the search as steps that stay there."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rowmax import _native
from rowmax._frameworks import Extras
from rowmax._torch import TORCH, _last_contiguous, _read_as


class DeviceIndex(NamedTuple):
    """An index whose arrays lie on one GPU, its documents one behind the other."""

    centroids: Tensor
    """`[C, d]`, as they are stored"""
    wide: Tensor
    """The same in float32"""
    bucket_weights: Tensor
    codes: Tensor
    """`[T]` int32 or int64"""
    residuals: Tensor
    """uint8 `[T, d * nbits / 8]`"""
    cu_seqlens: Tensor
    """int64 `[N + 1]`"""
    ivf: Tensor
    ivf_lengths: Tensor
    nbits: int

    @property
    def documents(self) -> int:
        return len(self.cu_seqlens) - 1


_KEPT: weakref.WeakKeyDictionary[Any, dict[torch.device, DeviceIndex]] = weakref.WeakKeyDictionary()


def index_on(index: Any, device: Any) -> DeviceIndex:
    """The index on a GPU, copied there once."""
    device = torch.device(device)
    if device.index is None:
        device = torch.device(device.type, torch.cuda.current_device())
    copies = _KEPT.setdefault(index, {})
    if device not in copies:
        copies[device] = _copied(index, device)
    return copies[device]


def _copied(index: Any, device: torch.device) -> DeviceIndex:
    def moved(array: Any) -> Tensor:
        return TORCH.adopted(array).to(device)

    chunks = index.chunks
    lengths = [int(chunk.cu_seqlens[-1]) for chunk in chunks]
    before = np.cumsum([0, *lengths])
    starts = np.concatenate([[0], *(c.cu_seqlens[1:] + n for c, n in zip(chunks, before[:-1], strict=True))])
    codes = [moved(chunk.codes[:n]) for chunk, n in zip(chunks, lengths, strict=True)]
    residuals = [moved(chunk.residuals[:n]) for chunk, n in zip(chunks, lengths, strict=True)]
    width = index.dim * index.nbits // 8
    centroids = moved(index.centroids)
    return DeviceIndex(
        centroids, centroids.float(), moved(index.bucket_weights),
        torch.cat(codes) if codes else torch.empty(0, dtype=torch.int32, device=device),
        torch.cat(residuals) if residuals else torch.empty((0, width), dtype=torch.uint8, device=device),
        moved(starts.astype(np.int64)), moved(index.ivf), moved(index.ivf_lengths), index.nbits,
    )  # fmt: skip


def candidates(cells: Tensor, ivf: Any, ivf_lengths: Any, documents: int, validate: bool | None) -> Tensor:
    """Documents in the lists of some cells. The host waits for their number."""
    ivf, ivf_lengths = TORCH.beside(ivf, cells), TORCH.beside(ivf_lengths, cells)
    found = torch.empty(documents, dtype=torch.int64, device=cells.device)
    count = torch.empty(1, dtype=torch.int64, device=cells.device)
    _native.plaid_candidates_into(cells, ivf, ivf_lengths, None if validate is None else bool(validate), found, count)
    return found[: int(count)]


def search(
    Q: Tensor, index: Any, how: tuple[int, int, int, float], q_mask: Any, cu_seqlens_q: Any, validate: bool | None,
    kernel: str | None, dtype: Any, out: Any,
) -> Any:  # fmt: skip
    """`plaid_search` of queries on a GPU."""
    if dtype is not None:
        Q = _read_as(Q, "Q", str(dtype).removeprefix("torch."))
    if Q.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"Q must be float32, float16 or bfloat16, got {str(Q.dtype).removeprefix('torch.')}")
    here = index_on(index, Q.device)
    if Q.shape[-1] != here.centroids.shape[1]:
        raise ValueError(f"centroids {list(here.centroids.shape)} must be [C, {Q.shape[-1]}], as Q {list(Q.shape)}")
    Q = _last_contiguous(TORCH.detached(Q))
    k = min(how[0], here.documents)
    extras: Extras = {} if kernel is None else {"kernel": kernel}
    if validate is not None:
        extras["validate"] = bool(validate)
    queries = _queries(Q, q_mask, cu_seqlens_q)
    scores = torch.full((len(queries), k), -torch.inf, dtype=torch.float32, device=Q.device)
    best = torch.full((len(queries), k), -1, dtype=torch.int64, device=Q.device)
    for i, (tokens, mask) in enumerate(queries):
        if k == 0 or len(here.centroids) == 0:
            continue
        found, values = _one(tokens, mask, here, how, extras)
        scores[i, : len(found)], best[i, : len(found)] = values, found
    if Q.ndim == 2 and cu_seqlens_q is None:
        scores, best = scores[0], best[0]
    if out is None:
        return scores, best
    from rowmax import _torch_ops

    return _torch_ops.deliver(scores, best, True, out)


def _queries(Q: Tensor, q_mask: Any, cu_seqlens_q: Any) -> list[tuple[Tensor, Tensor | None]]:
    """Each query's tokens, and which of them count."""
    if cu_seqlens_q is not None:
        if q_mask is not None or Q.ndim != 2:
            raise ValueError("q_mask: a mask goes with dense tokens [N, L, d], not with packed ones")
        starts = torch.as_tensor(cu_seqlens_q).tolist()
        if not starts or starts[0] != 0 or starts[-1] > len(Q) or any(a > b for a, b in zip(starts, starts[1:], strict=False)):
            raise ValueError(f"cu_seqlens_q must rise from 0 to at most {len(Q)}, got {starts[:8]}...")
        return [(Q[a:b], None) for a, b in zip(starts, starts[1:], strict=False)]
    items = Q[None] if Q.ndim == 2 else Q
    if q_mask is None:
        return [(item, None) for item in items]
    mask = torch.as_tensor(q_mask, device=Q.device) != 0
    if mask.shape[-1] != items.shape[1] or mask.numel() not in (items.shape[1], items.shape[0] * items.shape[1]):
        raise ValueError(f"q_mask {list(mask.shape)} does not fit Q {list(Q.shape)}: it needs one value a token")
    masks = mask.reshape(-1, items.shape[1]).expand(items.shape[:2])
    return list(zip(items, masks, strict=True))


def _one(
    tokens: Tensor, mask: Tensor | None, here: DeviceIndex, how: tuple[int, int, int, float], extras: Extras
) -> tuple[Tensor, Tensor]:
    """The best documents of one query and their scores, best first."""
    k, nprobe, wanted, threshold = how
    kept = tokens if mask is None else tokens[mask]
    if len(kept) == 0:
        return torch.empty(0, dtype=torch.int64, device=tokens.device), torch.empty(0, device=tokens.device)
    table = torch.mm(here.wide, kept.float().T)
    cells = torch.empty((len(kept), min(nprobe, len(table))), dtype=torch.int64, device=tokens.device)
    _native.plaid_probe(table, nprobe, 0, False, cells)
    found = candidates(cells, here.ivf, here.ivf_lengths, here.documents, None)
    rounds = 4  # as PLAID: ndocs by pruned scores, a quarter of them by all centroids
    if threshold > -torch.inf and len(found) > rounds * wanted:
        found = _best(found, _approximate(table, here, found, threshold), rounds * wanted)
    if len(found) > wanted:
        found = _best(found, _approximate(table, here, found, -torch.inf), wanted)
    begin = here.cu_seqlens[found]
    where = {"codes": here.codes, "offsets": begin, "lengths": here.cu_seqlens[found + 1] - begin}
    tables = {"centroids": here.centroids, "bucket_weights": here.bucket_weights, "nbits": here.nbits}
    given = {} if mask is None else {"q_mask": mask}
    request = extras | where | tables | given | {"normalize_residuals": True}
    scores = TORCH.evaluate(tokens, here.residuals, "cross", request)
    order = torch.sort(scores, descending=True, stable=True).indices[:k]
    return found[order], scores[order]


def _approximate(table: Tensor, here: DeviceIndex, documents: Tensor, threshold: float) -> Tensor:
    scores = torch.empty(len(documents), dtype=torch.float32, device=table.device)
    _native.plaid_approx_score_packed(table, here.codes, here.cu_seqlens, documents, threshold, None, 0, False, scores)
    return scores


def _best(documents: Tensor, scores: Tensor, count: int) -> Tensor:
    """Those with the best scores, ascending by number; of equal scores the lowest documents."""
    order = torch.sort(scores, descending=True, stable=True).indices[:count]
    return torch.sort(documents[order]).values
