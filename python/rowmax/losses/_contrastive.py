"""Cross entropy over in-batch negatives: every query against every document of the batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rowmax._options import Backward, Precision, given, options
from rowmax._torch import TORCH
from rowmax.losses import _arguments as check
from rowmax.losses import _blocks


def contrastive_loss(
    Q: Tensor, D: Tensor, *, q_mask: Any = None, d_mask: Any = None, cu_seqlens_q: Any = None, cu_seqlens_d: Any = None,
    labels: Tensor | None = None, offset: int = 0, negatives: Tensor | None = None, negative_mask: Any = None,
    temperature: float = 1.0, symmetric: bool = False, block: int | None = None, reduction: check.Reduction = "mean",
    normalize: bool = False, precision: Precision = "highest", backward: Backward = "auto", deterministic: bool = True,
    validate: bool | None = None, threads: int | None = None, kernel: str | None = None,
) -> Tensor:  # fmt: skip
    """Cross entropy of every query's MaxSim scores over all documents of the batch.

    Q, D:        queries `[Nq, Lq, d]` and documents `[Nd, Ld, d]`, with `q_mask` and `d_mask` as in `maxsim`; or packed tokens
                 `[T, d]` with `cu_seqlens_q`, `cu_seqlens_d` as in `maxsim_varlen`, either of them.
    labels:      `[Nq]`, the document that answers each query. Default: document i + `offset` answers query i. All others, also
                 those beyond the queries' own, are its negatives.
    negatives:   `[Nq, K, Ln, d]`, hard negatives of each query, which only its own softmax sees; `negative_mask` as `d_mask`.
    temperature: divides the scores.
    symmetric:   average with the cross entropy of every document's scores over all queries; needs as many queries as
                 documents in the same order. Hard negatives have no part in that half.
    block:       score so many documents at a time, and again in the backward pass: no more than Nq x block scores and
                 winning tokens exist at once. Results differ by rounding only.
    reduction:   over the queries: "mean", "sum" or "none" (`[Nq]`).

    The other keywords are those of `maxsim`; with `block`, `backward` has no effect.
    """
    extras = options(normalize, precision, backward, deterministic, validate, None, threads, kernel)
    check.one_of_reductions(reduction)
    check.positive("temperature", temperature)
    queries = items_of("Q", Q, q_mask, cu_seqlens_q)
    documents = items_of("D", D, d_mask, cu_seqlens_d)
    targets = labels_of(queries, documents, labels, offset, validate, Q.device)
    _check_symmetric(symmetric, queries, documents, labels, offset)
    if negatives is not None:
        check_negatives(Q, queries, negatives, cu_seqlens_q)
    extras |= given(q_mask=q_mask, cu_seqlens_q=cu_seqlens_q)
    in_document = given(d_mask=d_mask, cu_seqlens_d=cu_seqlens_d)
    in_negative = given(d_mask=negative_mask)
    if block is not None:
        sources = [_blocks.Documents(D, in_document)]
        sources += [] if negatives is None else [_blocks.Documents(negatives, in_negative, "grouped")]
        rows, columns = _blocks.losses(Q, sources, targets, extras, temperature, symmetric, block)
        return check.reduced((rows + columns) / 2 if symmetric else rows, reduction)
    scores = TORCH.score(Q, D, "cross", extras | in_document, backward=backward) / temperature
    everything = scores
    if negatives is not None:
        own = TORCH.score(Q, negatives, "grouped", extras | in_negative, backward=backward) / temperature
        everything = torch.cat([scores, own], 1)
    loss = torch.nn.functional.cross_entropy(everything, targets, reduction=reduction)
    if symmetric:
        loss = (loss + torch.nn.functional.cross_entropy(scores.T, targets, reduction=reduction)) / 2
    return loss


def labels_of(
    queries: int, documents: int, labels: Tensor | None, offset: int, validate: bool | None, device: torch.device
) -> Tensor:
    if labels is None:
        if offset < 0 or offset + queries > documents:
            raise ValueError(
                f"offset {offset} and {queries} queries need {offset + queries} documents, D has {documents}: "
                "give labels, or as many documents as queries"
            )
        return torch.arange(offset, offset + queries, device=device)
    if offset:
        raise ValueError(f"offset is {offset}, but labels say which documents answer: give one of them")
    check.tensor("labels", labels)
    if labels.shape != (queries,):
        raise ValueError(f"labels {list(labels.shape)} must be [{queries}], one for each query")
    if labels.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"labels must be int32 or int64, got {str(labels.dtype).removeprefix('torch.')}")
    check.in_range("labels", labels, documents, validate)
    return labels.to(device, torch.int64)


def items_of(name: str, tokens: Tensor, mask: Any, cu_seqlens: Any) -> int:
    """How many items there are."""
    check.tensor(name, tokens)
    letter = name.lower()
    if cu_seqlens is None:
        if tokens.ndim != 3:
            raise ValueError(f"{name} must be [N, L, d], or [T, d] with cu_seqlens_{letter}, got {list(tokens.shape)}")
        return tokens.shape[0]
    if mask is not None:
        raise ValueError(f"{letter}_mask and cu_seqlens_{letter} exclude each other: packed tokens are all kept")
    return len(cu_seqlens) - 1


def _check_symmetric(symmetric: bool, queries: int, documents: int, labels: Tensor | None, offset: int) -> None:
    if symmetric and (labels is not None or offset or queries != documents):
        why = "labels" if labels is not None else f"offset {offset}" if offset else f"{queries} queries, {documents} documents"
        raise ValueError(f"symmetric needs a document for each query, in the same order, got {why}")


def check_negatives(Q: Tensor, queries: int, negatives: Tensor, cu_seqlens_q: Any) -> None:
    check.tensor("negatives", negatives)
    if cu_seqlens_q is not None:
        raise NotImplementedError("negatives need queries [Nq, Lq, d] with q_mask, not packed ones")
    if negatives.ndim != 4 or negatives.shape[0] != queries or negatives.shape[-1] != Q.shape[-1]:
        raise ValueError(f"negatives {list(negatives.shape)} must be [{queries}, K, Ln, {Q.shape[-1]}]")
    if negatives.dtype != Q.dtype:
        raise TypeError(f"negatives are {negatives.dtype} but Q is {Q.dtype}: token types are not promoted")


