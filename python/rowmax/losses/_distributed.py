"""Cross entropy over the documents of all processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rowmax._frameworks import Extras
from rowmax._options import Backward, Precision, given, options
from rowmax._torch import TORCH, _as_computed
from rowmax.losses import _arguments as check
from rowmax.losses import _blocks
from rowmax.losses._contrastive import check_negatives, contrastive_loss, items_of, labels_of
from rowmax.losses._processes import Facts, Packed, Peers, facts_of, gathered, pack, taking_part
from rowmax.losses._ring import RingDocuments


@torch.compiler.disable
def distributed_contrastive_loss(
    Q: Tensor, D: Tensor, *, q_mask: Any = None, d_mask: Any = None, cu_seqlens_q: Any = None, cu_seqlens_d: Any = None,
    labels: Tensor | None = None, negatives: Tensor | None = None, negative_mask: Any = None, temperature: float = 1.0,
    ring: bool = False, block: int | None = None, group: Any = None, reduction: check.Reduction = "mean",
    normalize: bool = False, precision: Precision = "highest", backward: Backward = "auto", deterministic: bool = True,
    validate: bool | None = None, threads: int | None = None, kernel: str | None = None,
) -> Tensor:  # fmt: skip
    """Cross entropy of this process's queries over the documents of all processes.

    Q, D, masks, offsets, `negatives`, `temperature` and `block` are those of `contrastive_loss`, each process with its own
    queries and documents: numbers and lengths may differ, and a process may have none.

    labels:    `[Nq]`, counted in this process's own documents. Default: its document i answers its query i.
    ring:      False: the documents of all are gathered (`gather_documents`). True: they go round the processes, and none
               holds more than its own and those of its neighbours; scores are found again in the backward pass.
    group:     the processes (default: all); every one of them has to call this and, if any of them wants gradients,
               run its backward pass.
    reduction: "mean" divides the sum over this process's queries by the number of all queries: summed over the processes,
               losses and gradients are those of one process with the joined batch. DistributedDataParallel averages
               over the processes, so multiply the loss by their number there. "sum" and "none" do not divide.

    Errors in the arguments of one process are raised by all of them.
    """
    peers = Peers(group)

    def prepare() -> tuple[Facts, Any]:
        extras = options(normalize, precision, backward, deterministic, validate, None, threads, kernel)
        check.one_of_reductions(reduction)
        check.positive("temperature", temperature)
        _blocks.check_block(block)
        queries = items_of("Q", Q, q_mask, cu_seqlens_q)
        q, d = _as_computed(Q, check.tensor("D", D), {})
        packed = pack(d, d_mask, cu_seqlens_d)
        targets = labels_of(queries, len(packed.lengths), labels, 0, validate, Q.device)
        extras |= given(q_mask=q_mask, cu_seqlens_q=cu_seqlens_q)
        _check_scoring(q, packed, negatives, negative_mask, extras)
        if negatives is not None:
            check_negatives(Q, queries, negatives, cu_seqlens_q)
        return facts_of(packed, q, queries, ring), (q, packed, targets, extras)

    q, packed, targets, extras = peers.agree(prepare, Q, D)
    q = taking_part(q, peers.wants("q_grad"))
    targets = targets + peers.first
    if ring:
        rows = _round_the_ring(peers, q, packed, negatives, negative_mask, targets, extras, temperature, block)
    else:
        documents = gathered(peers, packed)
        rows = contrastive_loss(
            q, documents.tokens, q_mask=q_mask, cu_seqlens_q=cu_seqlens_q, cu_seqlens_d=documents.cu_seqlens, labels=targets,
            negatives=negatives, negative_mask=negative_mask, temperature=temperature, block=block, reduction="none",
            normalize=normalize, precision=precision, backward=backward, deterministic=deterministic, validate=validate,
            threads=threads, kernel=kernel,
        )  # fmt: skip
    if reduction == "none":
        return rows
    total = sum(facts.queries for facts in peers.facts)
    return rows.sum() / max(total, 1) if reduction == "mean" else rows.sum()


def _round_the_ring(
    peers: Peers, q: Tensor, packed: Packed, negatives: Tensor | None, negative_mask: Any, targets: Tensor, extras: Extras,
    temperature: float, block: int | None,
) -> Tensor:  # fmt: skip
    wants_d = peers.wants("d_grad")
    packed = Packed(taking_part(packed.tokens, wants_d), packed.lengths)
    sources: list[Any] = [RingDocuments(peers, packed)]
    wanted = [q.requires_grad, wants_d]
    if negatives is not None:
        sources.append(_blocks.Documents(negatives, given(d_mask=negative_mask), "grouped"))
        wanted.append(negatives.requires_grad)
    block = block or max(*peers.documents, 1)
    rows, _ = _blocks.losses(q, sources, targets, extras, temperature, False, block, tuple(wanted))
    return rows


def _check_scoring(q: Tensor, packed: Packed, negatives: Tensor | None, negative_mask: Any, extras: Extras) -> None:
    """What scoring would find wrong, before other processes wait for this one."""
    cu_seqlens = torch.cat([packed.lengths.new_zeros(1), packed.lengths.cumsum(0)])
    TORCH.request(q.detach(), packed.tokens.detach(), "cross", extras | {"cu_seqlens_d": cu_seqlens}).result()
    if negatives is not None:
        own = _as_computed(q, negatives, {})[1].detach()
        TORCH.request(q.detach(), own, "grouped", extras | given(d_mask=negative_mask)).result()
