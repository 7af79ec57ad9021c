"""The steps of a backward pass through hidden states that are no matrix products, each one launch on a GPU: which tokens won,
their states side by side, and what lies between sums W h and tokens. tests/support/hidden_steps.py defines them in torch."""

from __future__ import annotations

import torch
from torch import Tensor

from rowmax import _native

_NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}


class Steps:
    """On the device of some tensor, and the stream that is current there."""

    def __init__(self, like: Tensor) -> None:
        self._place = like.device.index, torch.cuda.current_stream(like.device).cuda_stream

    def zeros(self, rows: int, like: Tensor) -> Tensor:
        """[rows, elements of a row]. A quarter faster than torch's fill."""
        zeros = like.new_empty(rows, like.shape[-1])
        _native.clear(zeros.data_ptr(), zeros.nbytes, *self._place)
        return zeros

    def winners(
        self, index: Tensor, first: int, documents: int, length: int, starts: Tensor | None, places: int
    ) -> tuple[Tensor, Tensor]:
        """Of documents from `first` on of an index [queries, all documents, query tokens]: which of its document's winners, in
        ascending order, each query token chose (-1: none), [queries, documents, query tokens]; and which rows of the states
        these are, [documents * places], -1 in places left over. Documents have `length` tokens, or begin at `starts`."""
        queries, _, query_length = index.shape
        place = index.new_empty(queries, documents, query_length)
        rows = torch.empty(documents * places, dtype=torch.int64, device=index.device)
        at = index.data_ptr() + 4 * first * query_length
        begins = 0 if starts is None else starts[first:].data_ptr()
        wide = starts is not None and starts.dtype is torch.int64
        _native.hidden_winners(
            at, queries, index.stride(0), documents, query_length, first * length, length, begins, wide,
            places, place.data_ptr(), rows.data_ptr(), *self._place,
        )  # fmt: skip
        return place, rows

    def gather(self, H: Tensor, rows: Tensor) -> Tensor:
        """Rows of H [documents, length, hidden] or [tokens, hidden] one after the other, zeros where there is none."""
        copy = H.new_empty(len(rows), H.shape[-1])
        self._move(False, H, rows, copy)
        return copy

    def scatter(self, copy: Tensor, rows: Tensor, to: Tensor) -> None:
        """What gather() takes, into `to`."""
        self._move(True, to, rows, copy)

    def _move(self, back: bool, everything: Tensor, rows: Tensor, copy: Tensor) -> None:
        size = everything.itemsize
        item = everything.stride(0) * size if everything.ndim == 3 else 0
        _native.hidden_rows(
            back, rows.data_ptr(), len(rows), everything.shape[-1] * size, everything.data_ptr(), everything.shape[-2],
            item, everything.stride(-2) * size, copy.data_ptr(), *self._place,
        )  # fmt: skip

    def tokens(self, sums: Tensor, bias: Tensor | None, dtype: torch.dtype, normalize: bool) -> tuple[Tensor, Tensor | None]:
        """float32 tokens of sums W h [count, d], which may be overwritten, and one over their norms."""
        tokens = sums if sums.dtype is torch.float32 else torch.empty_like(sums, dtype=torch.float32)
        inverse = torch.empty(len(sums), dtype=torch.float32, device=sums.device) if normalize else None
        self._tokens(sums, bias, dtype, normalize, tokens, inverse)
        return tokens, inverse

    def rounded_tokens(self, sums: Tensor, bias: Tensor | None, dtype: torch.dtype, normalize: bool) -> Tensor:
        """Tokens of the states' type."""
        tokens = torch.empty_like(sums, dtype=dtype)
        self._tokens(sums, bias, dtype, normalize, tokens, None)
        return tokens

    def _tokens(
        self, sums: Tensor, bias: Tensor | None, dtype: torch.dtype, normalize: bool, tokens: Tensor, inverse: Tensor | None
    ) -> None:
        count, dim = sums.shape
        _native.hidden_tokens(
            sums.data_ptr(), 0 if bias is None else bias.data_ptr(), _NAMES[dtype], count, dim, normalize,
            tokens.dtype is dtype, tokens.data_ptr(), 0 if inverse is None else inverse.data_ptr(), *self._place,
        )  # fmt: skip

    def through_norm(self, grad: Tensor, tokens: Tensor, inverse: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Replaces float32 gradients of tokens [count, d] by those of sums; returns them in the states' type."""
        count, dim = grad.shape
        rounded = grad if dtype is torch.float32 else torch.empty_like(grad, dtype=dtype)
        _native.hidden_gradients(
            grad.data_ptr(), tokens.data_ptr(), 0 if inverse is None else inverse.data_ptr(), _NAMES[dtype],
            0 if rounded is grad else rounded.data_ptr(), count, dim, *self._place,
        )  # fmt: skip
        return rounded
