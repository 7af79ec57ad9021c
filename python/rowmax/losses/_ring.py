"""Documents that travel round the ring of processes, so that no process ever holds more than two processes' of them.

Each process scores what it holds while the next documents arrive. In the backward pass a second tensor goes round behind the
documents, to which every process adds its part of their gradients; after a whole round it is home.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from rowmax.losses import _arguments as check
from rowmax.losses._blocks import Shard
from rowmax.losses._processes import Packed, Peers, as_bytes, starts


class RingDocuments:
    """A source of the shards of all processes; `_blocks.Documents` is the one of a single process."""

    pairing = "cross"

    def __init__(self, peers: Peers, packed: Packed) -> None:
        self.peers, self.tokens = peers, packed.tokens
        lengths = peers.gather(packed.lengths, peers.documents).split(peers.documents)
        first = starts(peers.documents)
        self.shards = [Shard(len(own), first[rank], bounds=starts(own.tolist())) for rank, own in enumerate(lengths)]

    def tour(self, tokens: Tensor, with_gradient: bool) -> RingTour:
        return RingTour(self, tokens, with_gradient)


class RingTour:
    def __init__(self, ring: RingDocuments, tokens: Tensor, with_gradient: bool) -> None:
        self.ring, self.tokens = ring, tokens.contiguous()
        self.gradient = check.wide(torch.zeros_like(self.tokens)) if with_gradient else None

    def __iter__(self) -> Iterator[tuple[Shard, Tensor, Tensor | None]]:
        peers, held = self.ring.peers, self.tokens
        for step in range(peers.size):
            rows = peers.tokens[(peers.rank - step - 1) % peers.size]  # of what arrives next
            last = step == peers.size - 1
            arriving = None if last else _Passing(peers, held, rows)
            yield self.ring.shards[(peers.rank - step) % peers.size], held, self.gradient
            if self.gradient is not None and peers.size > 1:
                self.gradient = _Passing(peers, self.gradient, rows).wait()
            if arriving is not None:
                held = arriving.wait()


class _Passing:
    """A tensor on its way to the next process, and the one that comes from the process before."""

    def __init__(self, peers: Peers, sent: Tensor, rows: int) -> None:
        self.sent = sent  # must live until it has left
        self.received = sent.new_empty(rows, *sent.shape[1:])
        way: list[Any] = [(dist.isend, sent, peers.neighbour(1)), (dist.irecv, self.received, peers.neighbour(-1))]
        # Nothing is sent for a process without documents: both ends know the sizes.
        moves = [dist.P2POp(move, as_bytes(tensor), peer, peers.group) for move, tensor, peer in way if tensor.numel()]
        self.works = dist.batch_isend_irecv(moves) if moves else []

    def wait(self) -> Tensor:
        for work in self.works:
            work.wait()
        return self.received
