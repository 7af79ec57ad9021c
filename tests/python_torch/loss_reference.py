"""What the losses are compared with: the full similarity tensor, in torch."""

import torch
from test_autograd import naive, tensors


def naive_own(q, d, mask=None):
    """[B, Lq, d] x [B, K, Ld, d] -> [B, K]."""
    similarity = torch.einsum("bsd,bktd->bkst", q, d)
    if mask is not None:
        similarity = similarity.masked_fill(~mask[:, :, None], -torch.inf)
    return similarity.max(-1).values.sum(-1)


def naive_contrastive(
    q, d, labels=None, negatives=None, negative_mask=None, temperature=1.0, symmetric=False, q_mask=None, d_mask=None
):
    """One loss for each query."""
    scores = naive(q, d, q_mask, d_mask) / temperature
    labels = torch.arange(len(q)) if labels is None else labels
    everything = scores
    if negatives is not None:
        everything = torch.cat([scores, naive_own(q, negatives, negative_mask) / temperature], 1)
    rows = everything.logsumexp(1) - scores.gather(1, labels[:, None])[:, 0]
    return (rows + scores.logsumexp(0) - scores.diagonal()) / 2 if symmetric else rows


def kept(*shape, seed=5):
    """A mask of any pattern that hides no item wholly."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[..., 0] = True
    return mask


def same_gradients(found, wanted, inputs, tolerance=1e-12):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
    pairs = (torch.autograd.grad(value, inputs, retain_graph=True) for value in (found, wanted))
    for a, b in zip(*pairs, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


__all__ = ["kept", "naive_contrastive", "naive_own", "same_gradients", "tensors"]
