"""JAX arrays: read through DLPack, results handed over the same way. No gradients and no `jax.jit`.

On a CUDA device a call waits for its result: JAX frees and reuses memory in the order of streams of its own, and has no
way to hear that somebody else still reads an array.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from rowmax import _native
from rowmax._frameworks import NUMBERS, Extras, Framework, bfloat16_result

# Whose number for DLPack, on which JAX makes it wait for arrays that are not computed yet, is 1.
_DEFAULT_STREAM = 0


# It moved with JAX 0.8.
_enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64


class JaxFramework(Framework):
    name = "jax"
    xp = jax.numpy

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        device = _cuda_device(like)
        if device is None:
            return np.empty(shape, dtype)
        with _enable_x64(True):  # int64 would become int32
            return jax.numpy.zeros(shape, dtype, device=device)

    def finished(self, array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            _native.wait(array.__dlpack_device__()[1], _DEFAULT_STREAM)
        if array.dtype.name == "bfloat16":  # which numpy does not export
            return jax.numpy.asarray(array)
        with _enable_x64(True):  # int64 would become int32
            return jax.dlpack.from_dlpack(array)

    def result(self, shape: tuple[int, ...], like: Any) -> tuple[Any, Any]:
        if _cuda_device(like) is not None:  # where JAX exports bfloat16 itself
            return super().result(shape, like)
        return bfloat16_result(shape, like) or super().result(shape, like)

    def stream_of(self, array: Any) -> int | None:
        return None if _cuda_device(array) is None else _DEFAULT_STREAM

    def validates(self, array: Any) -> bool:
        return _cuda_device(array) is None

    def beside(self, value: Any, array: Any) -> Any:
        device = _cuda_device(array)
        return value if device is None else _on_device(value, device)

    def rows(self, index: Any, table: Any) -> Any:
        with _enable_x64(True):
            return super().rows(index, table)

    def cast(self, array: Any, dtype: str) -> Any:
        with _enable_x64(True):
            return array.astype(dtype)

    def as_float8(self, array: Any) -> Any:
        return array.view(jax.numpy.float8_e4m3fn)

    def made(self, array: Any, like: Any = None) -> Any:
        with _enable_x64(True):
            return jax.numpy.asarray(array)

    def taken(self, array: Any, order: Any) -> Any:
        return jax.numpy.take_along_axis(array, order, 1)

    def request(self, Q: Any, D: Any, pairing: str, extras: Extras) -> _native.Request:
        device = _cuda_device(Q)
        if device is not None:
            extras = {name: _on_device(value, device) if name in NUMBERS else value for name, value in extras.items()}
        return _native.Request(Q, D, pairing, extras, _DEFAULT_STREAM)

    def split_out(self, out: Any, pair: bool, names: str = "(scores, index)") -> tuple[Any, Any]:
        if out is not None:
            raise TypeError("out: JAX arrays cannot be written to")
        return None, None


def _cuda_device(array: Any) -> Any:
    """Where the array is, None for the CPU."""
    device = next(iter(array.devices()))
    return None if device.platform == "cpu" else device


def _on_device(value: Any, device: Any) -> Any:
    return jax.device_put(np.asarray(value), device) if isinstance(value, np.ndarray | list | tuple) else value


JAX = JaxFramework()
