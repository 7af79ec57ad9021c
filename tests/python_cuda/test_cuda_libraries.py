"""CuPy and JAX arrays on a GPU: read in place, ordered by their streams; the same kind comes out."""

import os

import layouts
import numpy as np
import oracle
import pytest

import rowmax

# JAX would take most of the device's memory at its first use.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def integers(*shape, seed=0, most=3):
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.float32)


class TestCupy:
    @pytest.fixture(autouse=True)
    def cupy(self):
        self.cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

    @pytest.mark.parametrize("dtype", ["float16", "float32"])
    @pytest.mark.parametrize("layout", layouts.ALL, ids=lambda f: f.__name__)
    def test_every_layout_equals_the_oracle(self, layout, dtype):
        rng = np.random.default_rng(17)
        queries, documents = layouts.integers(rng, (33, 1, 0), 20), layouts.integers(rng, (31, 97, 0, 1), 20)
        found = layout(queries, documents, 20, lambda x: self.cupy.asarray(x, dtype))
        assert found == {p: (s.score, s.index) for p, s in oracle.score_all(queries, documents).items()}

    def test_cupy_in_cupy_out(self):
        q, d = self.cupy.asarray(integers(2, 600, 64), "float16"), self.cupy.asarray(integers(7, 50, 64, seed=1), "float16")
        scores, index = rowmax.maxsim(q, d, return_index=True)
        best, where = rowmax.topk(q, d, 3)
        for array, dtype in ((scores, "float32"), (index, "int32"), (best, "float32"), (where, "int64")):
            assert isinstance(array, self.cupy.ndarray) and array.dtype == dtype and array.device == q.device
        wanted = rowmax.maxsim(q.get(), d.get(), return_index=True)
        np.testing.assert_array_equal(scores.get(), wanted[0])
        np.testing.assert_array_equal(index.get(), wanted[1])
        np.testing.assert_array_equal(where.get(), rowmax.topk(q.get(), d.get(), 3)[1])

    def test_bfloat16_bits(self):
        q, d = integers(2, 5, 64), integers(7, 50, 64, seed=1)
        bits = [self.cupy.asarray((x.view(np.uint32) >> 16).astype(np.uint16)) for x in (q, d)]
        np.testing.assert_array_equal(rowmax.maxsim(*bits, dtype="bfloat16").get(), rowmax.maxsim(q, d))

    def test_views_masks_and_out(self):
        q, d = self.cupy.asarray(integers(2, 5, 64)), self.cupy.asarray(integers(7, 50, 64, seed=1))
        keep = self.cupy.asarray(np.random.default_rng(3).random((7, 50)) < 0.5)
        wanted = rowmax.maxsim(q.get(), d.get(), d_mask=keep.get())
        turned = self.cupy.ascontiguousarray(d.swapaxes(1, 2)).swapaxes(1, 2)
        for documents, mask in ((d, keep), (d, keep.get()), (turned, keep), (d, keep.astype("float16"))):
            np.testing.assert_array_equal(rowmax.maxsim(q, documents, d_mask=mask).get(), wanted)
        out = self.cupy.zeros((2, 7), "float32")
        assert rowmax.maxsim(q, d, d_mask=keep, out=out) is out
        np.testing.assert_array_equal(out.get(), wanted)

    def test_work_goes_to_the_current_stream(self):
        cupy = self.cupy
        q, d = cupy.asarray(integers(1, 600, 64), "float16"), cupy.asarray(integers(300, 200, 64, seed=1), "float16")
        wanted = rowmax.maxsim(q, d).get()
        late, stream = cupy.zeros_like(d), cupy.cuda.Stream(non_blocking=True)
        delay = cupy.RawKernel(
            'extern "C" __global__ void delay(long long cycles) { long long t = clock64(); while (clock64() - t < cycles) {} }',
            "delay",
        )
        with stream:
            delay((1,), (1,), (np.int64(50_000_000),))
            late[...] = d
            found = rowmax.maxsim(q, late)
            copied = found.copy()
        stream.synchronize()
        np.testing.assert_array_equal(copied.get(), wanted)

    def test_a_graph_replays_on_new_data(self):
        cupy = self.cupy
        q, d = cupy.asarray(integers(1, 600, 64), "float16"), cupy.asarray(integers(30, 200, 64, seed=1), "float16")
        out, stream = cupy.zeros((1, 30), "float32"), cupy.cuda.Stream(non_blocking=True)
        with stream:
            rowmax.maxsim(q[:, :32], d, out=out)  # 32 tokens need no scratch memory
            stream.begin_capture()
            rowmax.maxsim(q[:, :32], d, out=out)
            graph = stream.end_capture()
            d[...] = cupy.asarray(integers(30, 200, 64, seed=2), "float16")
            graph.launch(stream)
            stream.synchronize()
        np.testing.assert_array_equal(out.get(), rowmax.maxsim(q.get()[:, :32], d.get()))

    def test_refusals(self):
        q, d = self.cupy.asarray(integers(2, 5, 64)), self.cupy.asarray(integers(7, 50, 64, seed=1))
        with pytest.raises(TypeError, match="Q is a cupy.ndarray but D is a numpy.ndarray"):
            rowmax.maxsim(q, d.get())
        with pytest.raises(TypeError, match="out is a numpy.ndarray but Q is of cupy"):
            rowmax.maxsim(q, d, out=np.empty((2, 7), np.float32))
        with pytest.raises(ValueError, match="cu_seqlens_d ends at 51"):
            rowmax.maxsim_varlen(q[0], d[0], [0, 5], [0, 51], validate=True)


class TestJax:
    @pytest.fixture(autouse=True)
    def jax(self):
        self.jax = pytest.importorskip("jax", reason="JAX is not installed")
        if self.jax.default_backend() != "gpu":
            pytest.skip("JAX has no GPU")
        self.jnp = self.jax.numpy

    def test_every_layout_equals_the_oracle(self):
        rng = np.random.default_rng(17)
        queries, documents = layouts.integers(rng, (33, 1, 0), 20), layouts.integers(rng, (31, 97, 0, 1), 20)
        wanted = {p: (s.score, s.index) for p, s in oracle.score_all(queries, documents).items()}
        for layout in (layouts.dense, layouts.varlen, layouts.pairs_packed, layouts.ranges):
            for dtype in ("float16", "bfloat16", "float32"):
                assert layout(queries, documents, 20, lambda x, dtype=dtype: self.jnp.asarray(x, dtype)) == wanted

    def test_jax_in_jax_out(self):
        q, d = self.jnp.asarray(integers(2, 600, 64)), self.jnp.asarray(integers(7, 50, 64, seed=1))
        scores, index = rowmax.maxsim(q, d, d_mask=self.jnp.ones((1, 50), bool), return_index=True)
        best, where = rowmax.topk(q, d, 3)
        for array in (scores, index, best, where):
            assert isinstance(array, self.jax.Array) and array.devices() == q.devices()
        wanted = rowmax.maxsim(np.asarray(q), np.asarray(d), return_index=True)
        np.testing.assert_array_equal(scores, wanted[0])
        np.testing.assert_array_equal(index, wanted[1])
        np.testing.assert_array_equal(where, rowmax.topk(np.asarray(q), np.asarray(d), 3)[1])

    def test_arrays_that_are_not_computed_yet(self):
        """A long computation is still running when its result is scored, and the scores are used at once."""
        jnp = self.jnp
        x = jnp.asarray(integers(4096, 4096, most=1))

        @self.jax.jit
        def slowly(x):
            y = x
            for _ in range(20):
                y = jnp.tanh(y @ x / 64)
            return jnp.round(y[:2, :3200] * 2).reshape(2, 50, 64), jnp.round(y[2:9, :3200] * 2).reshape(7, 50, 64)

        for _ in range(3):
            q, d = slowly(x)
            scores = rowmax.maxsim(q, d) * 2
            wanted = rowmax.maxsim(np.asarray(q), np.asarray(d)) * 2
            np.testing.assert_array_equal(scores, wanted)

    def test_refusals(self):
        q, d = self.jnp.asarray(integers(2, 5, 64)), self.jnp.asarray(integers(7, 50, 64, seed=1))
        with pytest.raises(TypeError, match="out.*cannot be written"):
            rowmax.maxsim(q, d, out=np.empty((2, 7), np.float32))
        with pytest.raises(ValueError, match="cu_seqlens_d ends at 51"):
            rowmax.maxsim_varlen(q[0], d[0], [0, 5], [0, 51], validate=True)
