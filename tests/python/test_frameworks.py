"""Arrays of other libraries: DLPack in, the same kind out; devices and mixtures that are refused."""

import array
import contextlib
import ctypes
import sys
import types

import numpy as np
import pytest

import rowmax

Q = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
D = np.random.default_rng(2).standard_normal((5, 6, 4)).astype(np.float32)


class Exported:
    """An array that speaks nothing but DLPack."""

    def __init__(self, values):
        self.values = values
        self.ndim = values.ndim

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OnDevice(Exported):
    """The same, claiming a device: the second field of DLManagedTensor's tensor is the device type."""

    def __init__(self, values, device_type):
        super().__init__(values)
        self.device_type = device_type

    def __dlpack__(self, **keywords):
        capsule = self.values.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)).value = self.device_type
        return capsule


def test_masks_and_offsets_come_from_any_library():
    mask = np.random.default_rng(3).random((5, 6)) < 0.5
    np.testing.assert_array_equal(rowmax.maxsim(Q, D, d_mask=Exported(mask)), rowmax.maxsim(Q, D, d_mask=mask))
    offsets = array.array("q", [0, 2, 6])
    np.testing.assert_array_equal(
        rowmax.maxsim_varlen(Q[0], D[0], [0, 3], offsets), rowmax.maxsim_varlen(Q[0], D[0], [0, 3], np.array(offsets))
    )


@pytest.mark.parametrize("device_type", [2, 13])
def test_arrays_on_a_device_are_not_taken_for_the_cpus(device_type):
    wanted = (
        (TypeError, "Q is on the CPU but d_mask is on CUDA device 0")
        if rowmax.version_info().cuda
        else (NotImplementedError, "d_mask is on CUDA device 0.*no CUDA kernels")
    )
    with pytest.raises(wanted[0], match=wanted[1]):
        rowmax.maxsim(Q, D, d_mask=OnDevice(np.ones((5, 6)), device_type))


def test_other_devices_are_a_type_error():
    with pytest.raises(TypeError, match="d_mask is on a device.*10"):
        rowmax.maxsim(Q, D, d_mask=OnDevice(np.ones((5, 6)), 10))


@pytest.mark.skipif(
    any(kernel.backend == "cuda" and kernel.available for kernel in rowmax.kernels()),
    reason="a GPU would read the double's memory; tests/python_cuda has tests with CuPy itself",
)
def test_cupy_arrays_are_recognised(monkeypatch):
    """A double of CuPy, so that its glue runs without a GPU as far as that goes: to the native module's answer."""

    class Array(OnDevice):
        device = contextlib.nullcontext()
        strides = property(lambda self: self.values.strides)
        shape = property(lambda self: self.values.shape)
        itemsize = property(lambda self: self.values.itemsize)
        dtype = property(lambda self: self.values.dtype)
        __dlpack_device__ = staticmethod(lambda: (2, 0))

    module = types.ModuleType("cupy")
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=0))
    module.ndarray = type("ndarray", (Array,), {"__module__": "cupy"})
    module.empty = lambda shape, dtype: module.ndarray(np.empty(shape, dtype), 2)
    monkeypatch.setitem(sys.modules, "cupy", module)
    q, d = module.ndarray(Q, 2), module.ndarray(D, 2)
    with pytest.raises(TypeError, match="Q is a cupy.ndarray but D is a numpy.ndarray"):
        rowmax.maxsim(q, D)
    missing = "a CUDA device" if rowmax.version_info().cuda else "no CUDA kernels"
    with pytest.raises(NotImplementedError, match=missing):
        rowmax.maxsim(q, d)
    sys.modules.pop("rowmax._cupy")


def test_unknown_arrays_are_a_type_error():
    with pytest.raises(TypeError, match="Q must be a numpy, torch, CuPy or JAX array"):
        rowmax.maxsim(Exported(Q), Exported(D))


class TestJax:
    @pytest.fixture(autouse=True)
    def jax(self):
        self.jax = pytest.importorskip("jax", reason="JAX is not installed")
        self.jnp = self.jax.numpy

    def test_jax_in_jax_out(self):
        q, d = self.jnp.asarray(Q), self.jnp.asarray(D)
        scores, index = rowmax.maxsim(q, d, d_mask=self.jnp.ones((1, 6), bool), return_index=True)
        wanted_scores, wanted_index = rowmax.maxsim(Q, D, return_index=True)
        assert isinstance(scores, self.jax.Array) and isinstance(index, self.jax.Array)
        np.testing.assert_array_equal(scores, wanted_scores)
        np.testing.assert_array_equal(index, wanted_index)
        best, documents = rowmax.topk(q, d, 2)
        assert isinstance(best, self.jax.Array) and isinstance(documents, self.jax.Array)
        np.testing.assert_array_equal(documents, rowmax.topk(Q, D, 2)[1])

    def test_bfloat16(self):
        q, d = self.jnp.asarray(Q, self.jnp.bfloat16), self.jnp.asarray(D, self.jnp.bfloat16)
        np.testing.assert_array_equal(rowmax.maxsim(q, d), rowmax.maxsim(np.asarray(q), np.asarray(d)))

    def test_points_and_sums(self):
        p, r = self.jnp.asarray(Q), self.jnp.asarray(D[:2])
        keep = self.jnp.asarray([[True, True, False]])
        for function, options in ((rowmax.nearest, {"k": 2}), (rowmax.chamfer, {"reduction": "none", "return_index": True})):
            got = function(p, r, p_mask=keep, **options)
            want = function(Q, D[:2], p_mask=np.asarray(keep), **options)
            for g, w in zip(self.jax.tree.leaves(got), self.jax.tree.leaves(want), strict=True):
                assert isinstance(g, self.jax.Array) and g.dtype == w.dtype
                np.testing.assert_array_equal(g, w)
        index, values = self.jnp.asarray([[2, 0, -1], [1, 1, 1]]), self.jnp.asarray(Q, self.jnp.bfloat16)
        sums = rowmax.scatter_sum(index, values, 3, rowmax.inverse_grid(index, 3))
        assert isinstance(sums, self.jax.Array) and sums.dtype == self.jnp.bfloat16
        np.testing.assert_array_equal(sums, rowmax.scatter_sum(np.asarray(index), np.asarray(values), 3))

    def test_refusals(self):
        q, d = self.jnp.asarray(Q), self.jnp.asarray(D)
        with pytest.raises(TypeError, match="Q is .*Array.* but D is a numpy.ndarray"):
            rowmax.maxsim(q, D)
        with pytest.raises(TypeError, match="out.*cannot be written"):
            rowmax.maxsim(q, d, out=np.empty((2, 5), np.float32))
        with pytest.raises(TypeError, match="Tracer"):
            self.jax.jit(rowmax.maxsim)(q, d)
