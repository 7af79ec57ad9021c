"""Gradient caching: the encoder runs twice on chunks, scores are found in one call, gradients are exact."""

import gc
import weakref

import numpy as np
import pytest
import torch
from loss_reference import same_gradients, tensors

from rowmax import losses
from rowmax._torch import TORCH


class Watched(torch.autograd.Function):
    """tanh whose result lies in an array that says when it is freed."""

    @staticmethod
    def forward(ctx, x, encoder):
        array = np.tanh(x.detach().numpy())
        encoder.alive += 1
        encoder.most = max(encoder.most, encoder.alive)
        weakref.finalize(array, encoder.gone)
        y = torch.from_numpy(array)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y), None


class Encoder(torch.nn.Module):
    """Token vectors with dropout; counts its calls and the activations that are alive at once."""

    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(50, 12, dtype=torch.float64)
        self.out = torch.nn.Linear(12, 6, dtype=torch.float64)
        self.dropout = torch.nn.Dropout(dropout)
        self.sizes, self.alive, self.most = [], 0, 0

    def forward(self, ids, mask=None):
        self.sizes.append(len(ids))
        hidden = Watched.apply(self.table(ids), self)
        return self.out(self.dropout(hidden))

    def gone(self):
        self.alive -= 1


def tokens(n, length, seed=0):
    return torch.randint(0, 50, (n, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("chunk", [1, 3, 7, 20])
def test_gradients_are_those_of_one_pass(chunk):
    encoder, q, d = Encoder(), tokens(7, 4), tokens(7, 9, 1)
    weights = tuple(encoder.parameters())
    wanted = losses.contrastive_loss(encoder(q), encoder(d))
    found = losses.contrastive_loss(
        losses.encode_in_chunks(encoder, q, chunk=chunk), losses.encode_in_chunks(encoder, d, chunk=chunk)
    )
    same_gradients(found, wanted, weights)


def test_the_encoder_runs_twice_and_scoring_once(monkeypatch):
    encoder, q, d = Encoder(), tokens(7, 4), tokens(7, 9, 1)
    scored, score = [], TORCH.score
    monkeypatch.setattr(TORCH, "score", lambda *a, **k: scored.append(a[0].shape) or score(*a, **k))
    loss = losses.contrastive_loss(
        losses.encode_in_chunks(encoder, q, chunk=3), losses.encode_in_chunks(encoder, d, chunk=4)
    )
    assert encoder.sizes == [3, 3, 1, 4, 3]
    loss.backward()
    assert sorted(encoder.sizes[5:]) == sorted(encoder.sizes[:5])
    assert scored == [(7, 4, 6)]


def test_the_activations_of_one_chunk_are_alive_at_once():
    encoder, ids = Encoder(), tokens(8, 4)
    gc.collect()
    gc.disable()  # what is freed, is freed at once
    try:
        losses.encode_in_chunks(encoder, ids, chunk=1).square().sum().backward()
        assert len(encoder.sizes) == 16 and encoder.most <= 2
        encoder.most = 0
        torch.cat([encoder(ids[i : i + 1]) for i in range(8)]).square().sum().backward()
        assert encoder.most >= 8
    finally:
        gc.enable()


def test_dropout_is_repeated():
    encoder, ids = Encoder(dropout=0.5), tokens(6, 4)
    weights = tuple(encoder.parameters())
    torch.manual_seed(1)
    wanted = torch.cat([encoder(ids[i : i + 2]) for i in (0, 2, 4)]).square().sum()
    torch.manual_seed(1)
    same_gradients(losses.encode_in_chunks(encoder, ids, chunk=2).square().sum(), wanted, weights)


def test_mappings_and_chunks_of_different_length():
    """Chunks that their encoder cuts to their longest document, as tokenisers pad."""
    encoder = Encoder()
    mask = torch.arange(9) < torch.tensor([2, 3, 9, 1, 5, 5])[:, None]
    q, batch = tensors((6, 3, 6))[0], {"ids": tokens(6, 9), "mask": mask}

    def cut(inputs, scale):
        length = int(inputs["mask"].sum(1).max())
        return encoder(inputs["ids"][:, :length]) * scale, inputs["mask"][:, :length]

    found, found_mask = losses.encode_in_chunks(cut, batch, 2, chunk=2)
    assert torch.equal(found_mask, mask)
    wanted = losses.contrastive_loss(q, encoder(batch["ids"]) * 2, d_mask=mask)
    same_gradients(losses.contrastive_loss(q, found, d_mask=found_mask), wanted, (q, *encoder.parameters()))


def test_without_gradients_and_without_items():
    encoder = Encoder()
    with torch.no_grad():
        assert not losses.encode_in_chunks(encoder, tokens(5, 4), chunk=2).requires_grad
    assert encoder.sizes == [2, 2, 1]
    assert losses.encode_in_chunks(encoder, tokens(0, 4), chunk=2).shape == (0, 4, 6)


def test_errors_name_the_argument_and_the_values():
    encoder, ids = Encoder(), tokens(5, 4)
    uneven = (lambda x: torch.zeros(len(x), len(x), 6)), (lambda x: [1])
    for kind, message, call in [
        (ValueError, "chunk must be at least 1, got 0", lambda: losses.encode_in_chunks(encoder, ids, chunk=0)),
        (TypeError, "chunk must be an int, got 2.0", lambda: losses.encode_in_chunks(encoder, ids, chunk=2.0)),
        (ValueError, "inputs hold no tensor", lambda: losses.encode_in_chunks(encoder, 3, chunk=2)),
        (ValueError, r"inputs\[0\] holds 5 items but inputs\[1\]\['a'\] holds 4",
         lambda: losses.encode_in_chunks(encoder, ids, {"a": ids[:4]}, chunk=2)),
        (ValueError, "chunks of 1 to 2 tokens: it must also give their mask",
         lambda: losses.encode_in_chunks(uneven[0], ids, chunk=2)),
        (TypeError, "result 0 of encoder must be a torch tensor, got a builtins.list",
         lambda: losses.encode_in_chunks(uneven[1], ids, chunk=2)),
    ]:  # fmt: skip
        with pytest.raises(kind, match=message):
            call()
