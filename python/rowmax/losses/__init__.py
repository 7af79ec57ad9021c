"""Losses for training with MaxSim scores, in bounded memory; needs torch.

    contrastive_loss              in-batch negatives, hard negatives, symmetric, in blocks
    pairwise_loss                 a positive against its negatives
    kl_distillation_loss          a teacher's distribution over candidates
    margin_mse_loss               a teacher's margins
    min_max_scores                scores scaled to lie between 0 and 1
    distributed_contrastive_loss  in-batch negatives of all processes
    gather_documents              the documents of all processes, with their gradients
    GatheredDocuments             what it gives
    encode_in_chunks              a batch that is larger than what the encoder can hold

Importing rowmax does not import this.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("rowmax.losses needs torch: pip install 'rowmax[torch]'") from error

from rowmax.losses._candidates import kl_distillation_loss, margin_mse_loss, min_max_scores, pairwise_loss
from rowmax.losses._chunks import encode_in_chunks
from rowmax.losses._contrastive import contrastive_loss
from rowmax.losses._distributed import distributed_contrastive_loss
from rowmax.losses._processes import GatheredDocuments, gather_documents

__all__ = [
    "GatheredDocuments",
    "contrastive_loss",
    "distributed_contrastive_loss",
    "encode_in_chunks",
    "gather_documents",
    "kl_distillation_loss",
    "margin_mse_loss",
    "min_max_scores",
    "pairwise_loss",
]
