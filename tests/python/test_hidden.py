"""Documents as hidden states: scores by projecting first, in float64, and scoring then."""

import numpy as np
import oracle
import pytest

import rowmax

RNG = np.random.default_rng(5)


def problem(nq=3, lq=7, nd=4, ld=30, hidden=48, d=24, kind=np.float32, integers=False):
    def make(*shape):
        values = RNG.integers(-3, 4, shape) if integers else RNG.standard_normal(shape)
        return values.astype(kind)

    return make(nq, lq, d), make(nd, ld, hidden), make(d, hidden), make(d)


def tokens(h, w, b, normalize):
    """In float64: the tokens, and what their error is relative to."""
    u = h.astype(np.float64) @ w.astype(np.float64).T
    u = u if b is None else u + b
    size = np.linalg.norm(w.astype(np.float64)) * np.linalg.norm(h.astype(np.float64), axis=-1)
    size = size + (0 if b is None else np.linalg.norm(b.astype(np.float64)))
    norm = np.linalg.norm(u, axis=-1, keepdims=True)
    return (u * oracle.inverse_norm(u)[..., None], size / norm[..., 0]) if normalize else (u, size)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_scores_of_projected_tokens(kind, biased, normalize):
    q, h, w, b = problem(kind=kind)
    mask = RNG.integers(0, 2, h.shape[:2])
    mask[2] = 0
    call = (q, h, w, b if biased else None)
    got, index = rowmax.maxsim_from_hidden(*call, d_mask=mask, normalize=normalize, return_index=True)
    assert got.dtype == (np.float64 if kind is np.float64 else np.float32)
    assert (got.shape, index.shape) == ((3, 4), (3, 4, 7))
    eps = {np.float64: 1e-14, np.float32: 4e-7, np.float16: 1e-6}[kind]
    d, size = tokens(h, w, b if biased else None, normalize)
    for i in range(3):
        for j in range(4):
            wanted = oracle.score_item(q[i], d[j], d_keep=mask[j])
            winners = [t for t in wanted.index if t >= 0]
            allowed = sum(np.linalg.norm(q[i].astype(np.float64), axis=-1)[: len(winners)].max() * size[j, t] for t in winners)
            assert abs(got[i, j] - wanted.score) <= eps * (wanted.scale + allowed)
            assert (index[i, j] == wanted.index).mean() > 0.9


def test_small_integers_give_the_bits_of_projecting_first():
    q, h, w, b = problem(integers=True)
    for kind in (np.float64, np.float32, np.float16):
        q, h, w, b = (x.astype(kind) for x in (q, h, w, b))
        got = rowmax.maxsim_from_hidden(q, h, w, b, normalize=False, return_index=True)
        d = (h.astype(np.float64) @ w.T + b).astype(np.float64 if kind is np.float64 else np.float32)
        wanted = rowmax.maxsim(q.astype(d.dtype), d, return_index=True)
        for a, c in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a, c)


def test_bits_of_bfloat16():
    q, h, w, b = problem(integers=True)
    bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (q, h, w, b)]
    got = rowmax.maxsim_from_hidden(*bits, normalize=False, dtype="bfloat16")
    np.testing.assert_array_equal(got, rowmax.maxsim_from_hidden(q, h, w, b, normalize=False))


def test_layouts_batches_threads_and_kernels_give_the_same_bits():
    q, h, w, b = problem(nd=6)
    whole = rowmax.maxsim_from_hidden(q, h, w, b)
    np.testing.assert_array_equal(rowmax.maxsim_from_hidden(q[1], h, w, b), whole[1])
    assert rowmax.maxsim_from_hidden(q[1], h[2], w, b) == whole[1, 2]
    own = np.stack([h, h[::-1], h])
    np.testing.assert_array_equal(rowmax.maxsim_from_hidden(q, own, w, b)[1], whole[1, ::-1])
    lengths = np.array([30, 0, 7, 1, 29, 30])
    kept = np.arange(30) < lengths[:, None]
    masked = rowmax.maxsim_from_hidden(q, h, w, b, d_mask=kept)
    cu_seqlens = np.concatenate([[0], np.cumsum(lengths)])
    np.testing.assert_array_equal(rowmax.maxsim_from_hidden(q, h[kept], w, b, cu_seqlens_d=cu_seqlens), masked)
    for name in [k.name for k in rowmax.kernels() if k.available and k.name.endswith(".f32") and k.backend == "cpu"]:
        for threads in (1, 3):
            got = rowmax.maxsim_from_hidden(q, h, w, b, kernel=name, threads=threads)
            np.testing.assert_array_equal(got, whole)


def test_views_are_read_as_they_are():
    q, h, w, b = problem()
    whole = rowmax.maxsim_from_hidden(q, h, w, b)
    wide = np.zeros((24, 100), np.float32)
    wide[:, :48] = w
    np.testing.assert_array_equal(rowmax.maxsim_from_hidden(q, h, wide[:, :48], b), whole)
    np.testing.assert_array_equal(rowmax.maxsim_from_hidden(q, h, np.ascontiguousarray(w.T).T, b), whole)
    np.testing.assert_array_equal(rowmax.maxsim_from_hidden(q, h, w, b[::-1].copy()[::-1]), whole)


def test_zero_nan_and_infinite_tokens():
    q, w = np.ones((1, 2, 2), np.float32), np.eye(2, dtype=np.float32)
    h = np.array([[[0, 0], [0, 0]], [[3, 4], [np.nan, 0]], [[np.inf, 0], [1, 1]]], np.float32)
    score, index = rowmax.maxsim_from_hidden(q, h, w, return_index=True)
    assert score[0, 0] == 0 and np.isnan(score[0, 1:]).all()
    assert index.tolist() == [[[0, 0], [1, 1], [0, 0]]]
    assert rowmax.maxsim_from_hidden(q, h, np.ones_like(w), normalize=False)[0, 2] == np.inf
    assert rowmax.maxsim_from_hidden(q, h[:, :0], w).tolist() == [[0, 0, 0]]


def test_projections_beyond_half_precision():
    """Tokens are not rounded to the type of what they are made of."""
    q, h = np.ones((1, 1, 1), np.float16), np.full((1, 1, 2), 60000, np.float16)
    w = np.array([[60000, 1]], np.float16)
    assert rowmax.maxsim_from_hidden(q, h, w, normalize=False)[0, 0] == np.float32(np.float32(h[0, 0, 0]) ** 2 + 60000)


def test_out():
    q, h, w, b = problem()
    out = np.empty((3, 4), np.float32), np.empty((3, 4, 7), np.int32)
    assert rowmax.maxsim_from_hidden(q, h, w, b, return_index=True, out=out) is out
    np.testing.assert_array_equal(out[0], rowmax.maxsim_from_hidden(q, h, w, b))
    with pytest.raises(ValueError, match=r"out must have shape \[3, 4\], got \[3, 5\]"):
        rowmax.maxsim_from_hidden(q, h, w, b, out=np.empty((3, 5), np.float32))


def test_what_does_not_fit_is_named():
    q, h, w, b = problem()

    def call(q=q, h=h, w=w, b=b, **options):
        return rowmax.maxsim_from_hidden(q, h, w, b, **options)

    for change, error, text in [
        ({"h": h.astype(np.float16)}, TypeError, "Q is float32 but H is float16"),
        ({"w": w.astype(np.float64)}, TypeError, "Q is float32 but W is float64"),
        ({"b": b.astype(np.float16)}, TypeError, "Q is float32 but b is float16"),
        ({"q": q.astype(np.int8)}, TypeError, "Q must be"),
        ({"w": w.tolist()}, TypeError, "W must be a numpy, torch, CuPy or JAX array"),
        ({"w": w[:, :47]}, ValueError, r"H \[4, 30, 48\] and W \[24, 47\] differ in the hidden dimension: 48 and 47"),
        ({"w": w[:23]}, ValueError, r"b \[24\] must be \[23\]"),
        ({"w": w[:23], "b": None}, ValueError, r"Q \[3, 7, 24\] and W \[23, 48\].*: 24 and 23"),
        ({"w": w[0]}, ValueError, r"W \[48\] must be \[d, hidden\]"),
        ({"d_mask": np.ones((4, 29))}, ValueError, r"d_mask \[4, 29\] does not fit H \[4, 30, 48\]"),
        ({"h": h[..., :0], "w": w[:, :0]}, ValueError, "hidden dimension must be at least 1, got 0"),
        ({"threads": -1}, ValueError, "threads"),
        ({"dtype": "bfloat16"}, TypeError, "Q is float32 but dtype is 'bfloat16'"),
    ]:
        with pytest.raises(error, match=text):
            call(**change)


def test_tokens_are_never_all_held():
    """64 MiB of tokens, had they been written: the process grows by far less while they are scored."""
    import resource
    import sys

    q, _, w, _ = problem(nq=1, lq=4, hidden=4, d=512)
    h = np.broadcast_to(RNG.standard_normal((1, 32, 4)).astype(np.float32), (1024, 32, 4))
    rowmax.maxsim_from_hidden(q, h[:1], w, threads=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rowmax.maxsim_from_hidden(q, h, w, threads=1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (16 << 20 if sys.platform == "darwin" else 16 << 10)
