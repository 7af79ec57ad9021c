"""What several processes tell one another: what each holds, its documents, and the gradients of those.

Documents travel packed, without padding, as bytes: every backend can move those. What one process finds wrong with its
arguments it tells the others before anything else, so that all of them raise and none waits for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from rowmax.losses import _arguments as check
from rowmax.losses._blocks import bounds_of, mask_of

_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Packed(NamedTuple):
    tokens: Tensor
    lengths: Tensor


class GatheredDocuments(NamedTuple):
    """The documents of all processes, in the order of their ranks.

    tokens:     `[T, d]`, packed; their gradients flow back to the processes.
    cu_seqlens: `[Nd + 1]`, int64: document i is rows cu_seqlens[i]:cu_seqlens[i + 1].
    first:      the number of this process's first document: what `contrastive_loss` takes as `offset`.
    """

    tokens: Tensor
    cu_seqlens: Tensor
    first: int


@dataclass
class Facts:
    """What a process holds, and how it was called."""

    failed: bool
    queries: int = 0
    documents: int = 0
    tokens: int = 0
    d: int = 0
    type: int = 0
    recording: bool = False
    """Whether autograd is on."""
    q_grad: bool = False
    d_grad: bool = False
    ring: bool = False


class Peers:
    """The processes of a group, and what each holds once they have agreed."""

    def __init__(self, group: Any) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError("losses over several processes need torch.distributed.init_process_group() first")
        self.group = group if group is not None else dist.group.WORLD
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.rank < 0:
            raise ValueError("group does not hold this process")
        self.facts: list[Facts] = []

    def agree(self, prepare: Callable[[], tuple[Facts, Any]], *tensors: Any) -> Any:
        """What `prepare` gives besides facts, once all processes have theirs and they fit together."""
        mine, result, problem = Facts(failed=True), None, None
        try:
            mine, result = prepare()
        except Exception as error:  # raised below, after the others have heard of it
            problem = error
        self._exchange(mine, next((t.device for t in tensors if isinstance(t, Tensor)), None))
        if problem is not None:
            raise problem
        self._compare()
        return result

    @property
    def documents(self) -> list[int]:
        return [facts.documents for facts in self.facts]

    @property
    def tokens(self) -> list[int]:
        return [facts.tokens for facts in self.facts]

    @property
    def first(self) -> int:
        return sum(self.documents[: self.rank])

    def wants(self, gradient: str) -> bool:
        """Whether any process does: then all take part in finding it."""
        return any(getattr(facts, gradient) for facts in self.facts)

    def neighbour(self, step: int) -> int:
        return dist.get_global_rank(self.group, (self.rank + step) % self.size)

    def gather(self, mine: Tensor, rows: list[int]) -> Tensor:
        """The rows of all processes, one behind the other."""
        result = mine.new_empty(sum(rows), *mine.shape[1:])
        if not result.numel():
            return result
        parts = result.split(rows)
        if len(set(rows)) == 1:
            dist.all_gather_into_tensor(as_bytes(result), as_bytes(mine.contiguous()), group=self.group)
            return result
        parts[self.rank].copy_(mine)
        sent = [
            dist.broadcast(as_bytes(part), dist.get_global_rank(self.group, rank), group=self.group, async_op=True)
            for rank, part in enumerate(parts)
            if part.numel()
        ]
        for work in sent:
            work.wait()
        return result

    def _exchange(self, mine: Facts, device: torch.device | None) -> None:
        if device is None:
            device = torch.device("cuda" if dist.get_backend(self.group) == "nccl" else "cpu")
        sent = torch.tensor(astuple(mine), dtype=torch.int64, device=device)
        received = sent.new_empty(self.size * len(sent))
        dist.all_gather_into_tensor(received, sent, group=self.group)
        self.facts = [Facts(*row) for row in received.reshape(self.size, -1).tolist()]

    def _compare(self) -> None:
        if failed := [rank for rank, facts in enumerate(self.facts) if facts.failed]:
            raise RuntimeError(f"rank {failed[0]} of the group was called with wrong arguments: its own error says which")
        for field in fields(Facts):
            if field.name not in ("d", "type", "recording", "ring"):
                continue
            values = [getattr(facts, field.name) for facts in self.facts]
            if other := [rank for rank, value in enumerate(values) if value != values[0]]:
                here, there = (_shown(field.name, values[rank]) for rank in (0, other[0]))
                raise ValueError(f"rank 0 and rank {other[0]} of the group differ: {here} and {there}")


@torch.compiler.disable
def gather_documents(
    D: Tensor, *, d_mask: Any = None, cu_seqlens_d: Any = None, group: Any = None
) -> GatheredDocuments:
    """The documents of all processes of `group` (default: all), packed, with gradients that flow back to each.

    `D` `[Nd, Ld, d]` with `d_mask`, or packed tokens `[T, d]` with `cu_seqlens_d`: as many documents, of as many tokens, as each
    process has, none at all too. Only tokens that are kept travel. The gradient of a document is the sum of those of all
    processes, in the order of their ranks, in float32 or better. Every process has to call this and, if any of
    them wants gradients, run its backward pass. The call waits for what the others say of their sizes.
    """
    peers = Peers(group)

    def prepare() -> tuple[Facts, Packed]:
        packed = pack(D, d_mask, cu_seqlens_d)
        return facts_of(packed, None), packed

    packed = peers.agree(prepare, D)
    return gathered(peers, packed)


def gathered(peers: Peers, packed: Packed) -> GatheredDocuments:
    lengths = peers.gather(packed.lengths, peers.documents)
    tokens = taking_part(packed.tokens, peers.wants("d_grad"))
    cu_seqlens = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return GatheredDocuments(_Gather.apply(tokens, peers), cu_seqlens, peers.first)


def pack(D: Tensor, d_mask: Any, cu_seqlens_d: Any) -> Packed:
    """Documents without padding and without hidden tokens; differentiable."""
    check.tensor("D", D)
    if cu_seqlens_d is not None:
        if D.ndim != 2:
            raise ValueError(f"D must be [T, d] with cu_seqlens_d, got {list(D.shape)}")
        if d_mask is not None:
            raise ValueError("d_mask and cu_seqlens_d exclude each other: packed tokens are all kept")
        bounds = torch.tensor(bounds_of(cu_seqlens_d, D), device=D.device)
        return Packed(D[: int(bounds[-1])], bounds.diff())
    if D.ndim != 3:
        raise ValueError(f"D must be [N, L, d], or [T, d] with cu_seqlens_d, got {list(D.shape)}")
    items, length, d = D.shape
    if d_mask is None:
        return Packed(D.reshape(items * length, d), torch.full((items,), length, device=D.device))
    mask = (mask_of(d_mask, D, "cross") != 0).expand(items, length)
    kept = mask.reshape(-1).nonzero()[:, 0]
    return Packed(D.reshape(items * length, d).index_select(0, kept), mask.sum(1))


def facts_of(packed: Packed, Q: Tensor | None, queries: int = 0, ring: bool = False) -> Facts:
    tokens, recording = packed.tokens, torch.is_grad_enabled()
    if tokens.dtype not in _TYPES:
        raise TypeError(f"D must be float16, bfloat16, float32 or float64, got {str(tokens.dtype).removeprefix('torch.')}")
    return Facts(
        failed=False, queries=queries, documents=len(packed.lengths), tokens=len(tokens), d=tokens.shape[1],
        type=_TYPES.index(tokens.dtype), recording=recording, q_grad=recording and Q is not None and Q.requires_grad,
        d_grad=recording and tokens.requires_grad, ring=ring,
    )  # fmt: skip


def taking_part(tensor: Tensor, wanted: bool) -> Tensor:
    """Where another process wants gradients, this one's backward pass has to come by as well."""
    return tensor.detach().requires_grad_() if wanted and not tensor.requires_grad else tensor


def starts(lengths: list[int]) -> list[int]:
    return [0, *accumulate(lengths)]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, peers: Peers) -> Tensor:
        ctx.peers = peers
        return peers.gather(tokens, peers.tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        peers = ctx.peers
        own = peers.tokens[peers.rank]
        received = grad.new_empty(peers.size * own, *grad.shape[1:])
        dist.all_to_all_single(as_bytes(received), as_bytes(grad.contiguous()), [own] * peers.size, peers.tokens, group=peers.group)
        parts = received.reshape(peers.size, own, *grad.shape[1:])
        total = check.wide(parts[0]).clone()
        for part in parts[1:]:
            total += part
        return total.to(grad.dtype), None


def as_bytes(tensor: Tensor) -> Tensor:
    return tensor.view(torch.uint8)


def _shown(name: str, value: int) -> str:
    if name == "type":
        return f"D is {str(_TYPES[value]).removeprefix('torch.')}"
    if name == "recording":
        return f"gradients are {'on' if value else 'off'}"
    return f"{name} = {bool(value) if name == 'ring' else value}"
