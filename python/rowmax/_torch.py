"""torch tensors: eager scoring and its gradients.

Plain tensors go straight to the native module, with an `autograd.Function` around it only where a gradient is wanted.
Under `torch.compile` and for tensor subclasses the operators of _torch_ops.py are called instead.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, is_autocast_enabled
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from rowmax import _native
from rowmax._frameworks import NUMBERS, Extras, Framework

_DTYPES = {
    name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64")
}  # fmt: skip
_PLAIN = (Tensor, torch.nn.Parameter)

# Since torch 2.10 the native module reads and makes tensors without a way through Python code.
_exchange = getattr(Tensor, "__dlpack_c_exchange_api__", None)
_native_tensors = _exchange is not None and _native.use_torch(Tensor, _exchange, torch.empty, torch.device, _DTYPES)


class TorchFramework(Framework):
    name = "torch"
    xp = torch

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        # Not on the default device. Separate sizes are parsed in half the time of a tuple.
        return torch.empty(*(shape or ((),)), dtype=_DTYPES[dtype], device=like.device)

    def adopted(self, array: Any) -> Any:
        bits = array.view("uint16") if array.dtype.name == "bfloat16" else array
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a mapped file is read-only, and only read here
            tensor = torch.from_numpy(bits)
        return tensor.view(torch.bfloat16) if bits is not array else tensor

    def detached(self, array: Any) -> Any:
        return array.detach().resolve_neg() if isinstance(array, Tensor) else array

    def on_stream(self, array: Any) -> tuple[Any, int]:
        if not array.is_cuda:
            return array, 0
        return _last_contiguous(array), torch.cuda.current_stream(array.device).cuda_stream

    def dispatched(self, name: str, *arguments: Any) -> Any:
        if not _needs_dispatcher(*(a for a in arguments if isinstance(a, Tensor))):
            return None
        from rowmax import _torch_ops

        return _torch_ops.call(name, *arguments)

    def recorder(self, *arrays: Any) -> Any:
        if not _needs_dispatcher(*arrays) and not (torch.is_grad_enabled() and any(a.requires_grad for a in arrays)):
            _refuse_tangents(*arrays)
            return None
        from rowmax import _torch_points

        return _torch_points

    def casts(self, array: Any) -> bool:
        return is_autocast_enabled(array.device.type)

    def as_bytes(self, array: Any) -> Any:
        return array.view(torch.uint8)

    def as_float8(self, array: Any) -> Any:
        return array.view(torch.float8_e4m3fn)

    def numbers(self, array: Any) -> Any:
        array = array.detach().resolve_neg().cpu()
        return (array.float() if array.dtype is torch.bfloat16 else array).numpy()

    def made(self, array: Any, like: Any = None) -> Any:
        return torch.from_numpy(array) if like is None else torch.from_numpy(array).to(like.device)

    def taken(self, array: Any, order: Any) -> Any:
        return array.gather(1, torch.from_numpy(order).to(array.device))

    def delivered(self, results: tuple[Any, Any], out: Any) -> tuple[Any, Any]:
        if out is not None and results[0].requires_grad:
            raise ValueError("out cannot be given when Q or D requires grad")
        return super().delivered(results, out)

    def refuse_gradient(self, **arrays: Any) -> None:
        for name, array in arrays.items():
            if isinstance(array, Tensor) and array.requires_grad and torch.is_grad_enabled():
                raise NotImplementedError(f"{name} requires grad: this function has no gradient for it; pass {name}.detach()")

    def request(self, Q: Any, D: Any, pairing: str, extras: Extras) -> _native.Request:
        Q, D, extras = _as_read(Q, D, extras)
        if _native_tensors or not Q.is_cuda:
            return _native.Request(Q, D, pairing, extras)
        device = Q.device
        stream = torch.cuda.current_stream(device).cuda_stream

        def scratch(size: int) -> Tensor:
            return torch.empty(size, dtype=torch.uint8, device=device)

        return _native.Request(_last_contiguous(Q), _last_contiguous(D), pairing, extras, stream, scratch)

    def evaluate(
        self, Q: Any, D: Any, pairing: str, extras: Extras, return_index: bool = False, out: Any = None,
        saved: bool = False,
    ) -> Any:  # fmt: skip
        """Scores without a gradient. `saved`: the index is only for gradients(), of 16 bits where they suffice."""
        if _native_tensors and out is None:
            Q, D, extras = _as_read(Q, D, extras)
            return _native.score_tensors(Q, D, pairing, extras, return_index, saved)
        return Framework.score(self, Q, D, pairing, extras, return_index, out)

    def score(
        self, Q: Any, D: Any, pairing: str, extras: Extras, return_index: bool = False, out: Any = None,
        backward: str = "auto",
    ) -> Any:  # fmt: skip
        if _native_tensors and _is_plain(Q, D, extras):
            extras = _on_device(extras, Q.device) if extras and Q.is_cuda else extras
            if out is None:
                return _native.score_tensors(Q, D, pairing, extras, return_index)
            _native.score_into(Q, D, pairing, extras, *self.split_out(out, return_index))
            return out
        Q, D = _as_computed(Q, D, extras)
        differentiable = _differentiable(Q, D, out)
        if _needs_dispatcher(Q, D):
            from rowmax import _torch_ops

            keep = differentiable and backward != "recompute"
            scores, index = _torch_ops.score(Q, D, pairing, extras, return_index, keep)
            return _torch_ops.deliver(scores, index, return_index, out)
        if differentiable:
            function = _TransformedScore if torch._C._are_functorch_transforms_active() else _Score
            scores, index = function.apply(Q, D, pairing, _kept(extras), return_index, backward != "recompute")
            return (scores, index) if return_index else scores
        _refuse_tangents(Q, D)
        return self.evaluate(Q, D, pairing, extras, return_index, out)

    def score_hidden(
        self, Q: Any, H: Any, W: Any, b: Any, pairing: str, extras: Extras, return_index: bool, out: Any, backward: str
    ) -> Any:
        from rowmax import _torch_hidden

        return _torch_hidden.score(Q, H, W, b, pairing, extras, return_index, out, backward)

    def topk(
        self, Q: Any, D: Any, k: int, chunk: int, extras: Extras, out: Any = None, backward: str = "auto"
    ) -> Any:
        """The scores are differentiable: the best documents are found first, then scored again as pairs."""
        Q, D = _as_computed(Q, D, extras)
        differentiable = _differentiable(Q, D, out)
        if _needs_dispatcher(Q, D):
            from rowmax import _torch_ops

            scores, index = _torch_ops.deliver(*_torch_ops.topk(Q, D, k, chunk, extras), True, out)
        else:
            with torch.no_grad():
                scores, index = super().topk(Q, D, k, chunk, extras, out)
        if not differentiable:
            return (scores, index) if out is None else out
        queries = torch.arange(index.numel() // max(index.shape[-1], 1), device=index.device)
        rows = queries.repeat_interleave(index.shape[-1])
        pairs = extras | {"pair_q": rows, "pair_d": index.flatten()}
        return self.score(Q, D, "list", pairs, backward=backward).reshape(index.shape), index

    def streams(self, Q: Any) -> bool:
        return bool(Q.is_cuda)

    @torch.compiler.disable
    def search(self, Q: Any, D: Any, k: int, chunk: int, extras: Extras, out: Any = None) -> Any:
        """Q goes to the host once; blocks of D, and Q, go to the device from there."""
        if Q.requires_grad and torch.is_grad_enabled():
            raise NotImplementedError(
                "Q requires grad: documents that are streamed to a device have no gradient; use torch.no_grad()"
            )
        device = Q.device
        dtype = extras.pop("dtype", None)  # of D, which stays as it is: nothing of its size is made
        Q, _ = _as_computed(Q, Q, extras)
        if dtype is not None:
            Q, D = _read_as(Q, "Q", dtype), _read_as(D, "D", dtype)
        extras = {name: value.cpu() if isinstance(value, Tensor) else value for name, value in extras.items()}
        request = self.request(Q.detach().cpu(), D, "cross", extras)
        request.result()  # what is wrong with the arguments, in their names
        shape = request.topk_shape(k)
        scores, index = torch.empty(shape, dtype=torch.float32), torch.empty(shape, dtype=torch.int64)
        request.search(k, chunk, device.index, scores, index)
        lead = shape[1:] if Q.ndim == 2 else shape
        found = scores.reshape(lead).to(device), index.reshape(lead).to(device)
        if out is None:
            return found
        for array, result in zip(self.split_out(out, True), found, strict=True):
            if array.shape != result.shape or array.dtype is not result.dtype:
                raise ValueError(
                    f"out must be {tuple(result.shape)} {result.dtype}, got {tuple(array.shape)} {array.dtype}"
                )
            array.copy_(result)
        return out

    def explain(self, Q: Any, D: Any, pairing: str, extras: Extras, out: Any = None) -> tuple[Any, Any]:
        Q, D = _as_computed(Q, D, extras)
        if not _needs_dispatcher(Q, D):
            return super().explain(Q, D, pairing, extras, out)
        from rowmax import _torch_ops

        return _torch_ops.explain(Q, D, pairing, extras, out)

    def inverse_grid(self, index: Any, n: int, validate: bool, out: Any = None) -> tuple[Any, Any]:
        if not _needs_dispatcher(index):
            return super().inverse_grid(index, n, validate, out)
        from rowmax import _torch_ops

        return _torch_ops.inverse_grid(index, n, validate, out)

    def scatter_sum(
        self, index: Any, values: Any, n: int, grid: tuple[Any, Any], validate: bool, threads: int, bits: bool,
        deterministic: bool = True, out: Any = None,
    ) -> Any:  # fmt: skip
        if bits:
            numbers = None if out is None else out.view(torch.bfloat16)
            bfloats = values.view(torch.bfloat16)
            sums = self.scatter_sum(index, bfloats, n, grid, validate, threads, False, deterministic, numbers)
            return sums.view(torch.uint16) if out is None else out
        if out is not None and values.requires_grad and torch.is_grad_enabled():
            raise ValueError("out cannot be given when values requires grad")
        if _is_eager(values) and not _needs_dispatcher(index, values):
            return super().scatter_sum(index, values, n, grid, validate, threads, False, deterministic, out)
        from rowmax import _torch_ops

        return _torch_ops.scatter_sum(index, values, n, grid, validate, threads, deterministic, out)

    def positions(self, count: int, like: Any) -> Any:
        return torch.arange(count, device=like.device)

    def validates(self, array: Any) -> bool:
        return not array.is_cuda

    def beside(self, value: Any, array: Any) -> Any:
        return torch.as_tensor(value, device=array.device) if array.is_cuda and not isinstance(value, Tensor) else value

    def cast(self, array: Any, dtype: str) -> Any:
        return array.to(_DTYPES[dtype])

    def largest(self, array: Any, k: int) -> tuple[Any, Any]:
        index = torch.sort(array, dim=-1, descending=True, stable=True).indices[..., :k]
        return index, torch.take_along_dim(array, index, -1)

    def select(
        self, kind: str, Q: Any, D: Any, pairing: str, extras: Extras, parameters: tuple[Any, ...],
        second: bool = False, out: Any = None,
    ) -> Any:  # fmt: skip
        Q, D = _as_computed(Q, D, extras)
        differentiable = _differentiable(Q, D, out)
        _refuse_tangents(Q, D)
        if not differentiable and not Q.is_cuda and not _needs_dispatcher(Q, D):
            return super().select(kind, Q, D, pairing, extras, parameters, second, out)
        from rowmax import _torch_ops, _torch_selection

        results = _torch_selection.call(kind, Q, D, pairing, extras, parameters, second or differentiable)
        return _torch_ops.deliver(results[0], results[1], second, out)

    def rows(self, index: Any, table: Any) -> Any:
        from rowmax import _torch_ops

        return _torch_ops.rows(index, table)

    def explain_dispatch(self, Q: Any, D: Any, pairing: str, extras: Extras) -> list[_native.KernelInfo]:
        return super().explain_dispatch(*_as_computed(Q, D, extras), pairing, extras)

    def split_out(self, out: Any, pair: bool, names: str = "(scores, index)") -> tuple[Any, Any]:
        arrays = (out, None) if type(out) is Tensor and not pair else super().split_out(out, pair, names)
        for array in arrays:
            if array is not None and not is_compiling():
                if array.is_neg():
                    raise ValueError("out is a view of numbers with the opposite sign: pass a tensor of its own")
                _announce_write(array)
        return arrays


def _is_plain(Q: Tensor, D: Tensor, extras: Extras) -> bool:
    """Whether torch has no part in the call: nothing is traced, cast, differentiated or computed lazily. Each of these
    questions takes a tenth of a microsecond, of some ten that a call on a GPU takes in all."""
    if type(Q) is not Tensor or type(D) is not Tensor or is_compiling() or forward_ad._current_level >= 0:
        return False
    if (Q.requires_grad or D.requires_grad) and torch.is_grad_enabled():
        return False
    if is_autocast_enabled("cuda" if Q.is_cuda else "cpu") or "dtype" in extras:
        return False
    return not (Q.is_neg() or D.is_neg())


def _as_computed(Q: Tensor, D: Tensor, extras: Extras) -> tuple[Tensor, Tensor]:
    """Q and D in the type they are scored in: `dtype=` reads uint16 as bfloat16, autocast casts as for einsum."""
    if "dtype" in extras:
        dtype = extras.pop("dtype")
        Q, D = _read_as(Q, "Q", dtype), D if "nbits" in extras or "signs" in extras else _read_as(D, "D", dtype)
    device = Q.device.type  # torch raises for the name of one without autocast, such as meta
    if device in ("cpu", "cuda") and is_autocast_enabled(device):
        to = torch.get_autocast_dtype(device)
        Q, D = _autocast(Q, to), _autocast(D, to)
    return Q, D


def _as_read(Q: Tensor, D: Tensor, extras: Extras) -> tuple[Tensor, Tensor, Extras]:
    """What the native module takes."""
    if not _native_tensors:  # __dlpack__ refuses tensors that require grad
        Q, D = Q.detach(), D.detach()
    if Q.is_neg() or D.is_neg():  # the imaginary part of a conjugate: the memory holds the values' opposites
        Q, D = Q.resolve_neg(), D.resolve_neg()
    return Q, D, _on_device(extras, Q.device) if extras and Q.is_cuda else extras


def _last_contiguous(tensor: Tensor) -> Tensor:
    """The tensor itself where a kernel can read it in place."""
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] <= 1 else tensor.contiguous()


def _on_device(extras: Extras, device: torch.device) -> Extras:
    """Lists and arrays of numbers that were written out are moved; tensors are where the caller put them."""
    return {
        name: torch.as_tensor(value, device=device) if name in NUMBERS and not isinstance(value, Tensor) else value
        for name, value in extras.items()
    }


def _differentiable(Q: Tensor, D: Tensor, out: Any) -> bool:
    wanted = (Q.requires_grad or D.requires_grad) and torch.is_grad_enabled()
    if wanted and out is not None:
        raise ValueError("out cannot be given when Q or D requires grad")
    return wanted


def saves_16_bits(D: Tensor, extras: Extras) -> bool:
    """Whether an index that is kept for the gradient gets 16 bits, as far as shapes tell."""
    if not (_native_tensors and D.is_cuda) or extras.get("validate"):
        return False
    packed = "cu_seqlens_d" in extras or "offsets" in extras
    longest = extras.get("max_seqlen_d", D.shape[0]) if packed else D.shape[-2]
    return bool(longest < 65535)


def _kept(extras: Extras) -> Extras:
    """Extras for the backward pass: arrays and lists that the caller may change before it runs are copied, tensors
    are watched by autograd."""
    arrays = {name: np.array(value) for name, value in extras.items() if isinstance(value, np.ndarray | list | tuple)}
    return extras | arrays if arrays else extras


def _refuse_tangents(*tensors: Tensor) -> None:
    if forward_ad._current_level < 0:
        return
    if any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        raise NotImplementedError("rowmax scores have no forward-mode derivative: use backward()")


def _announce_write(out: Tensor) -> None:
    """What an operator of torch does with `out=`: no gradient leads through it, and autograd learns of the change."""
    if out.requires_grad and torch.is_grad_enabled():
        raise ValueError("out requires grad, but what is written to it has no gradient: pass a tensor that does not")
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)


def _read_as(tensor: Tensor, name: str, dtype: str) -> Tensor:
    if dtype == "bfloat16" and tensor.dtype is torch.uint16:
        return tensor.view(torch.bfloat16)
    have = str(tensor.dtype).removeprefix("torch.")
    if have != dtype:
        raise TypeError(f"{name} is {have} but dtype is {dtype!r}: tokens are not converted")
    return tensor


def _autocast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    casts = tensor.is_floating_point() and tensor.dtype is not torch.float64
    return tensor.to(dtype) if casts else tensor


def _is_eager(tensor: Tensor) -> bool:
    """Whether autograd has no part in what is done with the tensor."""
    return not (tensor.requires_grad and torch.is_grad_enabled()) and forward_ad._current_level < 0


def _needs_dispatcher(*tensors: Tensor) -> bool:
    return is_compiling() or any(type(tensor) not in _PLAIN for tensor in tensors)


def _forward(
    Q: Tensor, D: Tensor, pairing: str, extras: Extras, return_index: bool, keep: bool
) -> tuple[Tensor, Tensor | None]:
    if return_index or keep:
        return TORCH.evaluate(Q, D, pairing, extras, True, saved=not return_index)  # type: ignore[no-any-return]
    return TORCH.evaluate(Q, D, pairing, extras), None


def apart(extras: Extras) -> tuple[Extras, tuple[str, ...], tuple[Tensor, ...]]:
    """What is no tensor; the tensors' names; and the tensors, to be saved: kept beside that they would live as long as the
    graph, and not until the backward pass."""
    tensors = {name: value for name, value in extras.items() if isinstance(value, Tensor)}
    rest = {name: value for name, value in extras.items() if name not in tensors} if tensors else extras
    return rest, tuple(tensors), tuple(tensors.values())


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor | None]) -> None:
    Q, D, pairing, extras, _, keep = inputs
    index = output[1]
    ctx.extras, ctx.tensor_names, tensors = apart(extras)
    ctx.save_for_backward(Q, D, index if keep else None, *tensors)
    ctx.pairing = pairing
    ctx.set_materialize_grads(False)  # or zeros were made for the index, as large as it is
    if index is not None:
        ctx.mark_non_differentiable(index)


class _Score(torch.autograd.Function):
    """Saves Q, D and the winning tokens; with `keep` False not even those: backward finds them again."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor | None]:  # type: ignore[override]
        output = _forward(*inputs)
        _save(ctx, inputs, output)
        return output

    @staticmethod
    def backward(ctx: Any, grad_scores: Tensor | None, *_: Any) -> Any:
        if grad_scores is None:
            return (None,) * 6
        Q, D, index, *tensors = ctx.saved_tensors
        for_q, for_d, *_ = ctx.needs_input_grad
        if torch.is_grad_enabled():
            # Recorded under create_graph=True, and by torch.func.grad: a second differentiation has to fail.
            how = (ctx.pairing, ctx.extras, ctx.tensor_names, (for_q, for_d))
            grads = _Gradients.apply(how, Q, D, index, grad_scores, *tensors)
        else:
            extras = ctx.extras | dict(zip(ctx.tensor_names, tensors, strict=True)) if tensors else ctx.extras
            grads = gradients(Q, D, ctx.pairing, extras, index, grad_scores, for_q, for_d)
        return *grads, None, None, None, None


class _TransformedScore(torch.autograd.Function):
    """The same for torch.func.grad, which wants its two halves apart, and is slower to call."""

    forward = staticmethod(_forward)
    setup_context = staticmethod(_save)
    backward = _Score.backward


class _Gradients(torch.autograd.Function):
    """Gradients that cannot be differentiated again. torch's own once_differentiable would only notice it when
    grad_scores requires grad, and take a gradient penalty on Q or D for a constant."""

    @staticmethod
    def forward(
        how: Any, Q: Tensor, D: Tensor, index: Tensor | None, grad_scores: Tensor, *tensors: Tensor
    ) -> tuple[Tensor | None, ...]:
        pairing, extras, names, wanted = how
        with torch.no_grad():
            extras = extras | dict(zip(names, tensors, strict=True))
            return gradients(Q, D, pairing, extras, index, grad_scores, *wanted)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing is kept. Apart from forward(), as torch.func.grad wants it."""

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        refuse_double_backward()


def refuse_double_backward(*_: Any) -> Any:
    raise RuntimeError("rowmax scores can be differentiated once: double backward is not implemented")


def gradients(
    Q: Tensor, D: Tensor, pairing: str, extras: Extras, index: Tensor | None, grad_scores: Tensor, for_q: bool,
    for_d: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of sum(grad_scores * scores) for Q and D, only the wanted ones; `index` None: found again."""
    if index is None:
        _, index = TORCH.evaluate(Q, D, pairing, extras, True, saved=True)
    grad_scores = grad_scores.contiguous()
    if _native_tensors:
        Q, D, extras = _as_read(Q, D, extras)
        return _native.gradient_tensors(Q, D, pairing, extras, index, grad_scores, for_q, for_d)
    grad_q = torch.empty(Q.shape, dtype=Q.dtype, device=Q.device) if for_q else None
    grad_d = torch.empty(D.shape, dtype=D.dtype, device=D.device) if for_d else None
    TORCH.request(Q, D, pairing, extras).backward(index, grad_scores, grad_q, grad_d)
    return grad_q, grad_d


TORCH = TorchFramework()
