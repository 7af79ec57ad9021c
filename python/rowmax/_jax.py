"""JAX arrays on the CPU: read through DLPack, results handed over the same way. No gradients and no `jax.jit`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from rowmax._frameworks import Framework


class JaxFramework(Framework):
    name = "jax"

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return np.empty(shape, dtype)

    def finished(self, array: Any) -> Any:
        return jax.dlpack.from_dlpack(array)

    def split_out(self, out: Any, pair: bool, names: str = "(scores, index)") -> tuple[Any, Any]:
        if out is not None:
            raise TypeError("out: JAX arrays cannot be written to")
        return None, None


JAX = JaxFramework()
