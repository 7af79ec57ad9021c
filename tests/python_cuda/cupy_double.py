"""As much of CuPy as rowmax asks for, over torch tensors, for machines without it: arrays that are no tensors, and speak DLPack."""

import contextlib
import sys
import types

import numpy as np
import torch


class ndarray:
    __module__ = "cupy"

    def __init__(self, tensor):
        self.tensor = tensor

    device = property(lambda self: contextlib.nullcontext())
    shape = property(lambda self: tuple(self.tensor.shape))
    ndim = property(lambda self: self.tensor.ndim)
    size = property(lambda self: self.tensor.numel())
    itemsize = property(lambda self: self.tensor.element_size())
    strides = property(lambda self: tuple(step * self.itemsize for step in self.tensor.stride()))
    dtype = property(lambda self: np.dtype(str(self.tensor.dtype).removeprefix("torch.")))

    def reshape(self, *shape):
        return ndarray(self.tensor.reshape(*shape))

    def copy(self):
        return ndarray(self.tensor.clone(memory_format=torch.contiguous_format))

    def swapaxes(self, a, b):
        return ndarray(self.tensor.transpose(a, b))

    def __getitem__(self, key):
        return ndarray(self.tensor[key])

    def __dlpack__(self, **keywords):
        return self.tensor.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def get(self):
        return self.tensor.cpu().numpy()


def _dtype(name):
    return getattr(torch, np.dtype(name).name)


def module():
    """A module that is taken for CuPy once it is in sys.modules."""
    made = types.ModuleType("cupy")
    made.ndarray = ndarray
    made.empty = lambda shape, dtype: ndarray(torch.empty(shape, dtype=_dtype(dtype), device="cuda"))
    made.asarray = lambda values, dtype=None: ndarray(torch.as_tensor(np.array(values, dtype), device="cuda"))
    made.ascontiguousarray = lambda array: array.copy()
    made.asnumpy = lambda array: array.get()
    stream = types.SimpleNamespace
    made.cuda = types.SimpleNamespace(get_current_stream=lambda: stream(ptr=torch.cuda.current_stream().cuda_stream))
    return made


@contextlib.contextmanager
def installed():
    double = module()
    sys.modules["cupy"] = double
    try:
        yield double
    finally:
        for name in ("cupy", "rowmax._cupy"):
            sys.modules.pop(name, None)
