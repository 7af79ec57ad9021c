"""Points, inverse grids and sums of CuPy and JAX arrays on a GPU: read in place on the library's stream, the same kind comes out,
with the bits of the CPU. Where CuPy is not installed, a double of it stands in."""

import importlib.util
import os

import numpy as np
import pytest

import rowmax

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class Cupy:
    def __init__(self, module):
        self.array, self.get, self.kind = module.asarray, lambda array: array.get(), module.ndarray


class Jax:
    def __init__(self, jax):
        self.array, self.get, self.kind = jax.numpy.asarray, np.asarray, jax.Array


@pytest.fixture(params=["cupy", "jax"])
def library(request):
    if request.param == "jax":
        jax = pytest.importorskip("jax", reason="JAX is not installed")
        if jax.default_backend() != "gpu":
            pytest.skip("JAX has no GPU")
        yield Jax(jax)
    elif importlib.util.find_spec("cupy"):
        import cupy

        yield Cupy(cupy)
    else:
        import cupy_double

        with cupy_double.installed() as double:
            yield Cupy(double)


def check(library, got, want):
    if isinstance(want, tuple):
        assert isinstance(got, tuple) and len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            check(library, g, w)
        return
    assert isinstance(got, library.kind)
    np.testing.assert_array_equal(library.get(got), want)
    assert str(got.dtype) == str(want.dtype)


def cloud(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dim", [3, 20])
def test_points(library, dim):
    P, R = cloud(2, 300, dim), cloud(2, 200, dim, seed=1)
    p, r = library.array(P), library.array(R)
    keep = np.random.default_rng(2).random((2, 300)) < 0.5
    cu = np.array([0, 100, 300], np.int32)
    check(library, rowmax.nearest(p, r, 3), rowmax.nearest(P, R, 3))
    for mask in (keep, library.array(keep), keep.tolist()):
        got = rowmax.chamfer(p, r, p_mask=mask, return_index=True, metric="l1")
        check(library, got, rowmax.chamfer(P, R, p_mask=keep, return_index=True, metric="l1"))
    for offsets in (cu, library.array(cu), cu.tolist()):
        check(library, rowmax.chamfer(p[0], r, cu_seqlens_p=offsets), rowmax.chamfer(P[0], R, cu_seqlens_p=cu))
    check(library, rowmax.chamfer(p, r, reduction="none"), rowmax.chamfer(P, R, reduction="none"))
    many = cloud(2, 1, 2, 30, dim), cloud(2, 1, 2, 40, dim)
    check(library, rowmax.chamfer(*map(library.array, many)), rowmax.chamfer(*many))
    turned = np.ascontiguousarray(P.swapaxes(1, 2))
    check(library, rowmax.nearest(library.array(turned).swapaxes(1, 2), r, 2), rowmax.nearest(P, R, 2))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_by_an_index(library, dtype):
    index = np.random.default_rng(3).integers(-1, 20, (2, 500)).astype(np.int32)
    values = cloud(2, 500, 6, dtype=dtype)
    i, v = library.array(index), library.array(values)
    check(library, rowmax.inverse_grid(i, 20), rowmax.inverse_grid(index, 20))
    want = rowmax.scatter_sum(index, values, 20)
    check(library, rowmax.scatter_sum(i, v, 20), want)
    check(library, rowmax.scatter_sum(i, v, 20, rowmax.inverse_grid(i, 20)), want)
    check(library, rowmax.scatter_sum(i, library.array(values.round()), 20, deterministic=False),
          rowmax.scatter_sum(index, values.round(), 20))  # fmt: skip
    columns = np.ascontiguousarray(index.T)
    check(library, rowmax.inverse_grid(library.array(columns).swapaxes(0, 1), 20), rowmax.inverse_grid(index, 20))
    with pytest.raises(ValueError, match="index holds 19"):
        rowmax.inverse_grid(library.array(np.full(3, 19)), 5, validate=True)


def test_refusals(library):
    P = cloud(20, 3)
    with pytest.raises(TypeError, match="but R is a numpy"):
        rowmax.chamfer(library.array(P), P)
    with pytest.raises(TypeError, match="values is a numpy"):
        rowmax.scatter_sum(library.array(np.zeros(3, np.int32)), np.ones(3, np.float32), 2)
