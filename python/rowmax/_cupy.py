"""CuPy arrays: read in place through DLPack, scored on CuPy's current stream of their own device. No gradients."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from rowmax import _native
from rowmax._frameworks import NUMBERS, Extras, Framework


class CupyFramework(Framework):
    name = "cupy"

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        with like.device:
            return cupy.empty(shape, dtype)

    def adopted(self, array: Any) -> Any:
        raise TypeError("Q is a CuPy array but D is a Corpus, which is read on the CPU: pass numpy or torch queries")

    def on_stream(self, array: Any) -> tuple[Any, int]:
        with array.device:
            return _last_contiguous(array), cupy.cuda.get_current_stream().ptr

    def stream_of(self, array: Any) -> int | None:
        with array.device:
            return cupy.cuda.get_current_stream().ptr  # type: ignore[no-any-return]

    def validates(self, array: Any) -> bool:
        return False

    def beside(self, value: Any, array: Any) -> Any:
        with array.device:
            return _on_device(value)

    def numbers(self, array: Any) -> Any:
        return cupy.asnumpy(array)

    def made(self, array: Any, like: Any = None) -> Any:
        return array if like is None else cupy.asarray(array)

    def taken(self, array: Any, order: Any) -> Any:
        return cupy.take_along_axis(array, cupy.asarray(order), 1)

    def request(self, Q: Any, D: Any, pairing: str, extras: Extras) -> _native.Request:
        device = Q.device

        def scratch(size: int) -> Any:
            with device:
                return cupy.empty(size, np.uint8)

        with device:  # whose current stream is asked for
            Q, D = _last_contiguous(Q), _last_contiguous(D)
            extras = {name: _on_device(value) if name in NUMBERS else value for name, value in extras.items()}
            return _native.Request(Q, D, pairing, extras, cupy.cuda.get_current_stream().ptr, scratch)


def _last_contiguous(array: Any) -> Any:
    """The array itself where a kernel can read it in place."""
    return array if array.strides[-1:] == (array.itemsize,) or array.shape[-1:] == (1,) else cupy.ascontiguousarray(array)


def _on_device(value: Any) -> Any:
    return cupy.asarray(value) if isinstance(value, np.ndarray | list | tuple) else value


CUPY = CupyFramework()
