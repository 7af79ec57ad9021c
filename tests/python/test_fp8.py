"""float8 (e4m3) codes: the values and the rounding of ml_dtypes, and scores of the numbers that codes stand for."""

import ml_dtypes
import numpy as np
import oracle
import pytest

import rowmax

RNG = np.random.default_rng(31)
E4M3 = ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize("granularity", ["token", "tensor"])
@pytest.mark.parametrize("shape", [(7, 5), (3, 7, 48), (2, 3, 4, 129), (0, 3, 4)])
def test_the_quantiser_by_its_definition(shape, granularity):
    x = RNG.standard_normal(shape).astype(np.float32)
    codes, scale = rowmax.quantize_fp8(x, granularity)
    assert (codes.dtype, scale.dtype) == (E4M3, np.float32)
    most = np.abs(x).max(axis=None if granularity == "tensor" else -1, initial=0)
    np.testing.assert_array_equal(scale, np.float32(most) / np.float32(448))
    if x.size:
        wanted = (x / (scale if granularity == "tensor" else scale[..., None])).astype(E4M3)
        np.testing.assert_array_equal(codes.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_the_quantiser_takes_every_type(kind):
    x = RNG.standard_normal((3, 5, 16)).astype(kind)
    codes, scale = rowmax.quantize_fp8(x)
    np.testing.assert_allclose(
        codes.astype(np.float32) * scale[..., None], x.astype(np.float32), rtol=0.0626, atol=scale.max() / 512
    )
    out = np.empty((3, 5, 16), np.uint8), np.empty((3, 5), np.float32)
    rowmax.quantize_fp8(x, out=out)
    np.testing.assert_array_equal(out[0], codes.view(np.uint8))


def test_zeros_nan_and_infinity():
    codes, scale = rowmax.quantize_fp8(np.array([[[0, 0], [1, -2]], [[np.nan, 1], [3, np.inf]]], np.float32))
    assert scale[0, 0] == 0 and np.isnan(scale[1]).all()
    assert codes.astype(float).tolist() == [[[0, 0], [224, -448]], [[0, 0], [0, 0]]]


@pytest.mark.parametrize(("lq", "ld", "d"), [(1, 1, 1), (5, 33, 128), (33, 180, 96), (17, 9, 768)])
@pytest.mark.parametrize("granularity", ["token", "tensor"])
def test_scores_of_the_numbers_that_codes_stand_for(lq, ld, d, granularity):
    q, x = RNG.standard_normal((3, lq, d)).astype(np.float32), RNG.standard_normal((4, ld, d)).astype(np.float32)
    (q8, q_scale), (x8, d_scale) = rowmax.quantize_fp8(q, granularity), rowmax.quantize_fp8(x, granularity)
    got, index = rowmax.maxsim_fp8(q8, q_scale, x8, d_scale, return_index=True)
    q, x = (
        codes.astype(np.float64) * (scale[..., None] if scale.ndim else scale)
        for codes, scale in ((q8, q_scale), (x8, d_scale))
    )
    for i in range(3):
        for j in range(4):
            wanted = oracle.score_item(q[i], x[j])
            assert abs(got[i, j] - wanted.score) <= 1e-6 * wanted.scale
            assert (index[i, j] == wanted.index).mean() > 0.9
    bits = rowmax.maxsim_fp8(q8.view(np.uint8), q_scale, x8.view(np.uint8), d_scale)
    np.testing.assert_array_equal(bits, got)


def test_layouts_masks_and_kernels():
    q, x = RNG.standard_normal((2, 6, 24)).astype(np.float32), RNG.standard_normal((5, 9, 24)).astype(np.float32)
    (q8, q_scale), (x8, d_scale) = rowmax.quantize_fp8(q), rowmax.quantize_fp8(x)
    whole = rowmax.maxsim_fp8(q8, q_scale, x8, d_scale)
    np.testing.assert_array_equal(rowmax.maxsim_fp8(q8[1], q_scale[1], x8[2], d_scale[2]), whole[1, 2])
    packed = rowmax.maxsim_fp8(q8, q_scale, x8.reshape(45, 24), d_scale.reshape(45), cu_seqlens_d=np.arange(0, 46, 9))
    np.testing.assert_array_equal(packed, whole)
    mask = np.ones((5, 9), bool)
    mask[:, 3:] = False
    d_scale[~mask] = np.nan
    masked = rowmax.maxsim_fp8(q8, q_scale, x8, d_scale, d_mask=mask)
    np.testing.assert_array_equal(masked, rowmax.maxsim_fp8(q8, q_scale, x8[:, :3], d_scale[:, :3]))
    names = [k.name for k in rowmax.kernels() if k.available and k.name.endswith(".f8e4m3")]
    assert len(names) >= 2
    for name in names:
        np.testing.assert_array_equal(rowmax.maxsim_fp8(q8, q_scale, x8, d_scale, d_mask=mask, kernel=name), masked)


def test_what_does_not_fit_is_named():
    x = RNG.standard_normal((2, 6, 24)).astype(np.float32)
    codes, scale = rowmax.quantize_fp8(x)
    for call, error, text in [
        ((x, scale, codes, scale), TypeError, "Q8 must be float8_e4m3fn or uint8, got float32"),
        ((codes, scale, codes.astype(ml_dtypes.float8_e5m2), scale), TypeError, "D8 must be .*got float8_e5m2"),
        ((codes, None, codes, scale), TypeError, "q_scale must be float32, got None"),
        ((codes, scale[:, :5], codes, scale), ValueError, r"q_scale \[2, 5\] does not fit Q8 \[2, 6, 24\]"),
    ]:
        with pytest.raises(error, match=text):
            rowmax.maxsim_fp8(*call)
    with pytest.raises(ValueError, match="granularity must be one of 'token', 'tensor', got 'document'"):
        rowmax.quantize_fp8(x, "document")
