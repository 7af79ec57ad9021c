"""Which library an array belongs to, and how that library makes new ones.

The same kind comes out as went in. Nothing here imports torch, CuPy or JAX: their glue loads when one of their arrays is
first seen, by which time the caller has imported them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from rowmax._native import KernelInfo, Request
from rowmax._native import inverse_grid as invert
from rowmax._native import scatter_sum as sum_sources

NUMBERS = (
    "q_mask", "d_mask", "cu_seqlens_q", "cu_seqlens_d", "offsets", "lengths", "pair_q", "pair_d", "q_scale", "d_scale", "codes",
    "doc_lengths", "centroids", "bucket_weights",
)  # fmt: skip
"""Arguments that hold arrays besides Q and D; lists and numpy arrays go where Q is."""
Extras = dict[str, Any]
"""What a call gave beyond Q and D, by argument name; an argument that was not given is absent."""


class Framework(ABC):
    """One array library. Subclasses say how to allocate; torch also differentiates."""

    name: str
    xp: Any = np
    """The functions of the library, as far as they go by the names of numpy's."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        """A new array that the native module can fill, where `like` is."""

    def finished(self, array: Any) -> Any:
        """The filled array as the caller gets it."""
        return array

    def adopted(self, array: Any) -> Any:
        """A numpy array as one of this library, without a copy."""
        return array

    def detached(self, array: Any) -> Any:
        """The array for a function without a gradient, its memory as its values say."""
        return array

    def on_stream(self, array: Any) -> tuple[Any, int]:
        """The array as kernels read it in place, and the stream of its device on which it is used; 0 on the CPU."""
        return array, 0

    def stream_of(self, array: Any) -> int | None:
        """The stream of its device on which an array is used that the native module does not know as torch's; else None."""
        return None

    def dispatched(self, name: str, *arguments: Any) -> Any:
        """The result of the library's own operator of this name, where it traces the call; else None."""
        return None

    def recorder(self, *arrays: Any) -> Any:
        """Of functions on points: the module that records them, where the library traces or differentiates; else None."""
        return None

    def casts(self, array: Any) -> bool:
        """Whether scores are computed in another type than the array's."""
        return False

    def as_bytes(self, array: Any) -> Any:
        """float8 numbers as uint8, the same memory; uint8 as it is."""
        return array.view("uint8")

    def as_float8(self, array: Any) -> Any:
        """The way back, where the library has that type."""
        return array

    def numbers(self, array: Any) -> Any:
        """The array as numpy, on the CPU; bfloat16 perhaps as float32."""
        return np.asarray(array)

    def made(self, array: Any, like: Any = None) -> Any:
        """A small numpy array as one of this library, on the device of `like`; None: on the CPU."""
        return array

    def taken(self, array: Any, order: Any) -> Any:
        """array[i, order[i, j]] of two dimensions; `order` is of numpy."""
        return np.take_along_axis(array, order, 1)

    def delivered(self, results: tuple[Any, Any], out: Any) -> tuple[Any, Any]:
        """Results, or copied to `out`."""
        if out is None:
            return results
        for array, result in zip(self.split_out(out, True), results, strict=True):
            if array.shape != result.shape or array.dtype != result.dtype:
                raise ValueError(
                    f"out must be {list(result.shape)} {result.dtype}, got {list(array.shape)} {array.dtype}"
                )
            array[...] = result
        return out[0], out[1]

    def refuse_gradient(self, **arrays: Any) -> None:  # noqa: B027
        """NotImplementedError where one of these wants a gradient that it will not get."""

    def request(self, Q: Any, D: Any, pairing: str, extras: Extras) -> Request:
        return Request(Q, D, pairing, extras)

    def score(
        self, Q: Any, D: Any, pairing: str, extras: Extras, return_index: bool = False, out: Any = None,
        backward: str = "auto",
    ) -> Any:  # fmt: skip
        """Scores, and with `return_index` the winning tokens; into `out` where it is given."""
        request = self.request(Q, D, pairing, extras)
        if out is not None:
            scores, index = self.split_out(out, return_index)
            request.score(scores, index)
            return out
        shape, index_shape, dtype = request.result()
        scores = self.empty(shape, dtype, Q)
        if not return_index:
            request.score(scores)
            return self.finished(scores)
        index = self.empty(index_shape, "int32", Q)
        request.score(scores, index)
        return self.finished(scores), self.finished(index)

    def score_hidden(
        self, Q: Any, H: Any, W: Any, b: Any, pairing: str, extras: Extras, return_index: bool, out: Any, backward: str
    ) -> Any:
        """score() of documents that are hidden states, projected by W and b."""
        layer = {"W": W} if b is None else {"W": W, "b": b}
        return self.score(Q, H, pairing, extras | layer, return_index, out)

    def topk(
        self, Q: Any, D: Any, k: int, chunk: int, extras: Extras, out: Any = None, backward: str = "auto"
    ) -> Any:
        """The k best documents of every query: (scores, index)."""
        request = self.request(Q, D, "cross", extras)
        shape = request.topk_shape(k)
        one_query = Q.ndim == 2 and "cu_seqlens_q" not in extras
        if out is not None:
            best = [array[None] if one_query else array for array in self.split_out(out, True)]
            request.topk(k, chunk, *best)
            return out
        scores = self.empty(shape, request.result()[2], Q)
        index = self.empty(shape, "int64", Q)
        request.topk(k, chunk, scores, index)
        lead = shape[1:] if one_query else shape
        return self.finished(scores).reshape(lead), self.finished(index).reshape(lead)

    def streams(self, Q: Any) -> bool:
        """Whether Q is on a device that documents of the host have to be brought to."""
        return False

    def search(self, Q: Any, D: Any, k: int, chunk: int, extras: Extras, out: Any = None) -> Any:
        """topk() of documents on the host, brought to the device of Q block by block."""
        raise NotImplementedError(f"documents of the host are not streamed for arrays of {self.name}")

    def explain(self, Q: Any, D: Any, pairing: str, extras: Extras, out: Any = None) -> tuple[Any, Any]:
        """(winning token, its similarity) of every query token of every pair."""
        request = self.request(Q, D, pairing, extras)
        shape, token_shape, dtype = request.result()
        index, similarity = self.split_out(out, True, "(index, similarity)")
        if out is None:
            index, similarity = self.empty(token_shape, "int32", Q), self.empty(token_shape, dtype, Q)
        request.score(self.empty(shape, dtype, Q), index, similarity)
        return (self.finished(index), self.finished(similarity)) if out is None else (index, similarity)

    def inverse_grid(self, index: Any, n: int, validate: bool, out: Any = None) -> tuple[Any, Any]:
        """(row_ptr, source) of an index of at most four dimensions."""
        row_ptr, source = self.split_out(out, True, "(row_ptr, source)")
        if out is None:
            row_ptr = self.empty((*index.shape[:-1], n + 1), "int64", index)
            source = self.empty(tuple(index.shape), "int64", index)
        invert(index, n, row_ptr, source, validate, self.stream_of(index))
        return (self.finished(row_ptr), self.finished(source)) if out is None else (row_ptr, source)

    def scatter_sum(
        self, index: Any, values: Any, n: int, grid: tuple[Any, Any], validate: bool, threads: int, bits: bool,
        deterministic: bool = True, out: Any = None,
    ) -> Any:  # fmt: skip
        """Sums [..., n] or [..., n, C] of values of at most four dimensions; `bits`: uint16 that is bfloat16."""
        array, _ = self.split_out(out, False)
        if array is None:
            shape = (*values.shape[: index.ndim - 1], n, *values.shape[index.ndim :])
            array, filled = self.result(shape, values)
        else:
            filled = array.view("uint16") if getattr(array.dtype, "name", "") == "bfloat16" else array
        half = bits or filled is not array
        call = (n, *grid, validate, threads, half, deterministic, filled, self.stream_of(index))
        sum_sources(index, self.detached(values), *call)
        return self.finished(array) if out is None else out

    def result(self, shape: tuple[int, ...], like: Any) -> tuple[Any, Any]:
        """A new array of the type of `like`, and the same memory as the native module fills it."""
        array = self.empty(shape, str(like.dtype).rpartition(".")[2], like)
        return array, array

    def select(
        self, kind: str, Q: Any, D: Any, pairing: str, extras: Extras, parameters: tuple[Any, ...],
        second: bool = False, out: Any = None,
    ) -> Any:  # fmt: skip
        """What the request's method `kind` gives: scores, and where wanted its second result."""
        request = self.request(Q, D, pairing, extras)
        shapes = selection_shapes(kind, parameters, *request.result())
        results = self.split_out(out, second)
        if out is None:
            results = tuple(self.empty(shape, dtype, Q) for shape, dtype in shapes[: 1 + second])
        getattr(request, kind)(*parameters, *(result for result in results if result is not None))
        if out is not None:
            return out
        finished = tuple(self.finished(result) for result in results)
        return finished if second else finished[0]

    def rows(self, index: Any, table: Any) -> Any:
        """table[..., index, :]: [..., n(, C)] by [..., S] -> [..., S(, C)]; zeros where the index is out of range."""
        return _rows(self.xp, index, table)

    def positions(self, count: int, like: Any) -> Any:
        """0, 1, .. count - 1, where `like` is."""
        return self.xp.arange(count)

    def validates(self, array: Any) -> bool:
        """Whether the contents of an array like this are looked at where the caller does not say."""
        return True

    def beside(self, value: Any, array: Any) -> Any:
        """A mask or offsets where the native module can read them beside the array."""
        return value

    def cast(self, array: Any, dtype: str) -> Any:
        """The same numbers in another type."""
        return array if array.dtype == dtype else array.astype(dtype)

    def largest(self, array: Any, k: int) -> tuple[Any, Any]:
        """The k largest of every row, best first: NaN before numbers, the first among equals; (index int64, values)."""
        nan = self.xp.isnan(array)
        ranks = self.xp.lexsort((-self.xp.where(nan, 0, array), ~nan), axis=-1)[..., :k]
        return self.cast(ranks, "int64"), self.xp.take_along_axis(array, ranks, -1)

    def explain_dispatch(self, Q: Any, D: Any, pairing: str, extras: Extras) -> list[KernelInfo]:
        """Which kernel would score this."""
        return self.request(Q, D, pairing, extras).explain_dispatch()

    def split_out(self, out: Any, pair: bool, names: str = "(scores, index)") -> tuple[Any, Any]:
        """The one or two arrays of `out=`, which must be of this library."""
        if out is None:
            return None, None
        arrays = out if pair else (out,)
        if not isinstance(arrays, tuple | list) or len(arrays) != (2 if pair else 1):
            raise ValueError(f"out must be a pair {names} here, got {type(out).__name__}")
        for array in arrays:
            if framework_of(array, "out") is not self:
                raise TypeError(f"out is {describe(array)} but Q is of {self.name}")
        return arrays[0], arrays[1] if pair else None


class NumpyFramework(Framework):
    name = "numpy"

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return np.empty(shape, dtype)

    def result(self, shape: tuple[int, ...], like: Any) -> tuple[Any, Any]:
        return bfloat16_result(shape, like) or super().result(shape, like)

    def as_float8(self, array: Any) -> Any:
        try:
            import ml_dtypes
        except ImportError:
            return array
        return array.view(ml_dtypes.float8_e4m3fn)


NUMPY = NumpyFramework()
_known: dict[type, Framework] = {np.ndarray: NUMPY}


def selection_shapes(
    kind: str, parameters: tuple[Any, ...], scores: tuple[int, ...], tokens: tuple[int, ...], dtype: str
) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of the results of a request's method; `scores` and `tokens`: those of plain MaxSim."""
    if kind == "topk_tokens":
        return [(scores, dtype), ((*tokens, parameters[0]), "int32")]
    if kind == "prefixes":
        count = len(parameters[0])
        return [((count, *scores), dtype), ((count, *tokens), "int32")]
    if kind == "smooth":
        return [(scores, dtype), ((2, *tokens), dtype)]
    return [(scores, dtype), (tokens, "int32")]


def bfloat16_result(shape: tuple[int, ...], like: Any) -> tuple[Any, Any] | None:
    """A numpy array of ml_dtypes' bfloat16, which cannot be exported, and its bits, which can; None for other types."""
    if like.dtype.name != "bfloat16":
        return None
    bits = np.empty(shape, np.uint16)
    return bits.view(like.dtype), bits


def _rows(xp: Any, index: Any, table: Any) -> Any:
    axis = index.ndim - 1
    n = table.shape[axis]
    channels = tuple(range(index.ndim, table.ndim))
    inside = xp.expand_dims((index >= 0) & (index < n), channels)
    if n == 0:
        return xp.zeros((*index.shape, *table.shape[index.ndim :]), table.dtype)
    chosen = xp.take_along_axis(table, xp.expand_dims(xp.clip(index, 0, n - 1), channels), axis)
    return xp.where(inside, chosen, xp.zeros((), table.dtype))


def framework_of(array: Any, name: str) -> Framework:
    """The library of `array`; `name` is the argument that a TypeError blames."""
    framework = _known.get(type(array))
    return framework if framework is not None else _recognise(array, name)


def common_framework(Q: Any, D: Any, names: tuple[str, str] = ("Q", "D")) -> Framework:
    """The library of both Q and D, as messages call them."""
    framework = framework_of(Q, names[0])
    if type(D) is not type(Q) and framework_of(D, names[1]) is not framework:
        raise TypeError(f"{names[0]} is {describe(Q)} but {names[1]} is {describe(D)}: convert one of them")
    return framework


def describe(array: Any) -> str:
    kind = type(array)
    return f"a {kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _recognise(array: Any, name: str) -> Framework:
    for base in type(array).__mro__:
        root = base.__module__.partition(".")[0]
        if base is np.ma.MaskedArray:
            raise TypeError(f"{name} is a masked array: pass its data, and its mask as q_mask or d_mask")
        if base is np.ndarray:
            return _remember(array, NUMPY)
        if root == "torch" and base.__name__ == "Tensor":
            from rowmax._torch import TORCH

            return _remember(array, TORCH)
        if root == "jaxlib" and base.__name__ == "ArrayImpl":
            from rowmax._jax import JAX

            return _remember(array, JAX)
        if root == "cupy" and base.__name__ == "ndarray":
            from rowmax._cupy import CUPY

            return _remember(array, CUPY)
    raise TypeError(f"{name} must be a numpy, torch, CuPy or JAX array, got {describe(array)}")


def _remember(array: Any, framework: Framework) -> Framework:
    _known[type(array)] = framework
    return framework
