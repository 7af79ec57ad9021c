"""int8 codes with scales: the quantiser by its definition, MaxSim by integer arithmetic in numpy."""

import ml_dtypes
import numpy as np
import pytest

import rowmax

RNG = np.random.default_rng(5)


def quantised(x, granularity="token"):
    """The definition, in numpy float32."""
    axes = -1 if granularity == "token" else (-2, -1)
    scale = np.abs(x).max(axes).astype(np.float32) / np.float32(127)
    divisor = np.where(scale == 0, np.float32(1), scale)
    codes = np.rint(x / np.expand_dims(divisor, axes)).astype(np.int8)
    return codes, scale


def scored(q, q_scale, d, d_scale, keep=None):
    """One query and one document: (score, winners)."""
    with np.errstate(invalid="ignore"):
        products = (q.astype(np.int64) @ d.astype(np.int64).T).astype(np.float32)
        similarity = products * np.broadcast_to(np.float32(d_scale), len(d))
    if keep is not None:
        similarity = np.where(keep, similarity, np.float32(-np.inf))
    winners = similarity.argmax(-1)
    best = similarity[np.arange(len(q)), winners] * np.broadcast_to(np.float32(q_scale), len(q))
    return best.astype(np.float64).sum().astype(np.float32), winners


def codes(*shape):
    return RNG.integers(-128, 128, shape).astype(np.int8)


def scales(*shape):
    return RNG.uniform(0.001, 0.1, shape).astype(np.float32)


@pytest.mark.parametrize("granularity", ["token", "document"])
@pytest.mark.parametrize("shape", [(7, 5), (3, 7, 48), (2, 3, 4, 129), (2, 0, 4), (0, 3, 4)])
def test_the_quantiser_by_its_definition(shape, granularity):
    x = RNG.standard_normal(shape).astype(np.float32)
    got, scale = rowmax.quantize_int8(x, granularity)
    assert (got.dtype, scale.dtype) == (np.int8, np.float32)
    if x.size:
        wanted = quantised(x, granularity)
        np.testing.assert_array_equal(got, wanted[0])
        np.testing.assert_array_equal(scale, wanted[1])
    else:
        assert got.shape == shape
        assert scale.tolist() == np.zeros(shape[: -1 if granularity == "token" else -2]).tolist()


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_the_quantiser_takes_every_type(kind):
    x = RNG.standard_normal((3, 5, 16)).astype(kind)
    got, scale = rowmax.quantize_int8(x)
    wanted, wanted_scale = quantised(x.astype(np.float32))
    np.testing.assert_allclose(scale, wanted_scale, rtol=1e-6)
    assert np.abs(got.astype(int) - wanted).max() <= (1 if kind is np.float64 else 0)
    if kind is ml_dtypes.bfloat16:
        bits = rowmax.quantize_int8(x.view(np.uint16), dtype="bfloat16")
        np.testing.assert_array_equal(bits[0], got)


def test_zeros_nan_and_infinity():
    x = np.array([[[0, 0], [1, -2]], [[np.nan, 1], [3, np.inf]]], np.float32)
    got, scale = rowmax.quantize_int8(x)
    assert scale[0, 0] == 0
    assert np.isnan(scale[1]).all()
    assert got.tolist() == [[[0, 0], [64, -127]], [[0, 0], [0, 0]]]
    assert np.isnan(rowmax.quantize_int8(x, "document")[1]).tolist() == [False, True]


def test_more_than_four_dimensions():
    x = RNG.standard_normal((2, 1, 3, 2, 5, 16)).astype(np.float32)
    flat = x.reshape(-1, 5, 16)
    for call, keywords in ((rowmax.quantize_int8, {}), (rowmax.quantize_int8, {"granularity": "document"}),
                           (rowmax.quantize_fp8, {}), (rowmax.quantize_fp8, {"granularity": "tensor"})):  # fmt: skip
        (codes, scale), wanted = call(x, **keywords), call(flat, **keywords)
        assert codes.shape == x.shape
        np.testing.assert_array_equal(codes.reshape(wanted[0].shape).view(np.uint8), wanted[0].view(np.uint8))
        np.testing.assert_array_equal(scale.reshape(wanted[1].shape), wanted[1])
    np.testing.assert_array_equal(rowmax.sign_bits(x), np.packbits(x > 0, axis=-1, bitorder="little"))
    packed = rowmax.sign_bits(x)
    assert rowmax.unpack_residual(packed, 2).shape == (2, 1, 3, 2, 5, 8)
    with pytest.raises(ValueError, match="out goes with at most 4 dimensions"):
        rowmax.sign_bits(x, out=packed)


def test_the_quantiser_writes_where_it_is_told():
    x = RNG.standard_normal((3, 5, 16)).astype(np.float32)
    out = np.empty((3, 5, 16), np.int8), np.empty((3, 5), np.float32)
    assert rowmax.quantize_int8(x, out=out)[0] is out[0]
    np.testing.assert_array_equal(out[0], rowmax.quantize_int8(x)[0])
    with pytest.raises(ValueError, match=r"scale must have shape \[3, 5\], got \[3\]"):
        rowmax.quantize_int8(x, out=(out[0], out[1][:, 0].copy()))


@pytest.mark.parametrize(("lq", "ld", "d"), [(1, 1, 1), (5, 33, 128), (33, 180, 96), (17, 9, 4096), (40, 7, 3)])
@pytest.mark.parametrize("per_token", [True, False])
def test_scores_by_integer_arithmetic(lq, ld, d, per_token):
    q, x = codes(3, lq, d), codes(4, ld, d)
    q_scale, d_scale = (scales(3, lq), scales(4, ld)) if per_token else (scales(3), scales(4))
    got, index = rowmax.maxsim_int8(q, q_scale, x, d_scale, return_index=True)
    assert got.dtype == np.float32
    for i in range(3):
        for j in range(4):
            score, winners = scored(q[i], q_scale[i], x[j], d_scale[j])
            assert got[i, j] == pytest.approx(score, rel=1e-7)
            np.testing.assert_array_equal(index[i, j], winners)


def test_shapes_and_layouts():
    q, x, q_scale, d_scale = codes(2, 6, 24), codes(5, 9, 24), scales(2, 6), scales(5, 9)
    whole = rowmax.maxsim_int8(q, q_scale, x, d_scale)
    assert whole.shape == (2, 5)
    np.testing.assert_array_equal(rowmax.maxsim_int8(q[1], q_scale[1], x, d_scale), whole[1])
    assert rowmax.maxsim_int8(q[1], q_scale[1], x[2], d_scale[2]) == whole[1, 2]
    own = np.broadcast_to(x, (2, 5, 9, 24)), np.broadcast_to(d_scale, (2, 5, 9))
    np.testing.assert_array_equal(rowmax.maxsim_int8(q, q_scale, *own), whole)
    packed = rowmax.maxsim_int8(
        q.reshape(12, 24), q_scale.reshape(12), x.reshape(45, 24), d_scale.reshape(45),
        cu_seqlens_q=[0, 6, 12], cu_seqlens_d=np.arange(0, 46, 9),
    )  # fmt: skip
    np.testing.assert_array_equal(packed, whole)
    one = rowmax.maxsim_int8(q, scales(2), x.reshape(45, 24), np.float32(0.5).reshape(()), cu_seqlens_d=[0, 45])
    assert one.shape == (2, 1)


def test_masks_hide_codes_and_scales():
    q, x, q_scale, d_scale = codes(2, 6, 24), codes(5, 9, 24), scales(2, 6), scales(5, 9)
    q_mask, d_mask = RNG.random((2, 6)) < 0.6, RNG.random((5, 9)) < 0.6
    d_mask[3] = False
    q_scale[~q_mask] = d_scale[~d_mask] = np.nan
    got, index = rowmax.maxsim_int8(q, q_scale, x, d_scale, q_mask=q_mask, d_mask=d_mask, return_index=True)
    for i in range(2):
        for j in range(5):
            if not d_mask[j].any():
                assert got[i, j] == 0 and (index[i, j] == -1).all()
                continue
            kept = q_mask[i]
            score, winners = scored(q[i][kept], q_scale[i][kept], x[j], d_scale[j], d_mask[j])
            assert got[i, j] == pytest.approx(score, rel=1e-7)
            assert index[i, j][kept].tolist() == winners.tolist()
            assert (index[i, j][~kept] == -1).all()


def test_nan_scales():
    q, x = np.ones((2, 4), np.int8), np.ones((3, 4), np.int8)
    ones = np.ones(3, np.float32)
    d_scale = np.array([1, np.nan, np.nan], np.float32)
    score, index = rowmax.maxsim_int8(q, ones[:2], x, d_scale, return_index=True)
    assert np.isnan(score) and index.tolist() == [1, 1]
    q_scale = np.array([np.nan, 1], np.float32)
    score, index = rowmax.maxsim_int8(q, q_scale, np.arange(12, dtype=np.int8).reshape(3, 4), ones, return_index=True)
    assert np.isnan(score) and index.tolist() == [0, 2]


def test_every_kernel_gives_the_same_bits():
    q, x = codes(3, 21, 100), codes(6, 50, 100)
    call = (q, scales(3, 21), x, scales(6, 50))
    wanted = rowmax.maxsim_int8(*call, threads=1)
    names = [k.name for k in rowmax.kernels() if k.available and k.name.endswith(".i8") and k.backend == "cpu"]
    assert len(names) >= 2
    for name in names:
        np.testing.assert_array_equal(rowmax.maxsim_int8(*call, kernel=name, threads=2), wanted)


def test_quantised_scores_are_close():
    q, x = (RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 32, 128), (50, 60, 128)))
    q, x = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (q, x))
    exact = rowmax.maxsim(q, x)
    got = rowmax.maxsim_int8(*rowmax.quantize_int8(q), *rowmax.quantize_int8(x))
    np.testing.assert_allclose(got, exact, rtol=5e-3)


def test_what_does_not_fit_is_named():
    q, x, q_scale, d_scale = codes(2, 6, 24), codes(5, 9, 24), scales(2, 6), scales(5, 9)
    for call, error, text in [
        ((q.astype(np.float32), q_scale, x, d_scale), TypeError, "Qi must be int8, got float32"),
        ((q, q_scale, x.view(np.uint8), d_scale), TypeError, "Di must be int8, got uint8"),
        ((q, None, x, d_scale), TypeError, "q_scale must be float32, got None"),
        ((q, q_scale.astype(np.float64), x, d_scale), TypeError, "q_scale must be float32, got float64"),
        ((q, q_scale, x, d_scale[:, :8]), ValueError, r"d_scale \[5, 8\] does not fit Di \[5, 9, 24\]"),
        ((q, q_scale, x[..., :8], d_scale), ValueError, r"Qi \[2, 6, 24\] and Di \[5, 9, 8\] differ.*24 and 8"),
        ((q, q_scale[:, :3], x, d_scale), ValueError, r"q_scale \[2, 3\] does not fit Qi \[2, 6, 24\]"),
    ]:
        with pytest.raises(error, match=text):
            rowmax.maxsim_int8(*call)
    with pytest.raises(TypeError, match="threads must be an integer, got float 1.5"):
        rowmax.quantize_int8(q.astype(np.float32), threads=1.5)
    with pytest.raises(ValueError, match="threads: must not be negative, got -1"):
        rowmax.quantize_int8(q.astype(np.float32), threads=-1)
    with pytest.raises(ValueError, match="granularity must be one of 'token', 'document', got 'row'"):
        rowmax.quantize_int8(q.astype(np.float32), "row")
    with pytest.raises(TypeError, match="X must be float16, bfloat16, float32 or float64, got int8"):
        rowmax.quantize_int8(q)
    with pytest.raises(ValueError, match=r"X must be \[..., L, d\], got shape \[4\]"):
        rowmax.quantize_int8(np.ones(4, np.float32))
    with pytest.raises(TypeError, match="X is float32 but dtype is 'float16'"):
        rowmax.quantize_int8(np.ones((2, 4), np.float32), dtype="float16")
    with pytest.raises(TypeError, match="int8"):
        rowmax.maxsim(q, x)
