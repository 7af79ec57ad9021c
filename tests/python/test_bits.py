"""Sign bits: numpy's packbits, and products of signs as +1 and -1."""

import ml_dtypes
import numpy as np
import oracle
import pytest

import rowmax

RNG = np.random.default_rng(21)


def signs(x):
    return np.where(x > 0, 1.0, -1.0)


@pytest.mark.parametrize("shape", [(1, 1), (3, 8), (2, 5, 33), (2, 3, 4, 128), (0, 3, 4), (2, 0, 9)])
@pytest.mark.parametrize("bit_order", ["little", "big"])
def test_bits_as_numpy_packs_them(shape, bit_order):
    x = RNG.standard_normal(shape).astype(np.float32)
    got = rowmax.sign_bits(x, bit_order)
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, np.packbits(x > 0, axis=-1, bitorder=bit_order))


@pytest.mark.parametrize("kind", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_bits_of_every_type(kind):
    x = np.array([[1, -1, 0, -0.0, np.nan, np.inf, -np.inf, 0.5]]).astype(kind)
    assert rowmax.sign_bits(x).tolist() == [[0b10100001]]
    if kind is ml_dtypes.bfloat16:
        assert rowmax.sign_bits(x.view(np.uint16), dtype="bfloat16").tolist() == [[0b10100001]]
    out = np.empty((1, 1), np.uint8)
    assert rowmax.sign_bits(x, "big", out=out) is out
    assert out.tolist() == [[0b10000101]]


@pytest.mark.parametrize("d", [1, 8, 20, 32, 100, 128, 1024])
@pytest.mark.parametrize("bit_order", ["little", "big"])
def test_hamming_is_the_product_of_signs(d, bit_order):
    q, x = RNG.standard_normal((3, 17, d)).astype(np.float32), RNG.standard_normal((4, 33, d)).astype(np.float32)
    mask = RNG.random((4, 33)) < 0.7
    got, index = rowmax.maxsim_hamming(
        rowmax.sign_bits(q, bit_order), rowmax.sign_bits(x, bit_order), dim=d, d_mask=mask, return_index=True
    )
    assert got.dtype == np.float32
    for i in range(3):
        for j in range(4):
            wanted = oracle.score_item(signs(q[i]), signs(x[j]), d_keep=mask[j])
            assert got[i, j] == wanted.score
            assert index[i, j].tolist() == wanted.index


@pytest.mark.parametrize("d", [1, 8, 20, 128, 768])
@pytest.mark.parametrize("bit_order", ["little", "big"])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_numbers_beside_bits(d, bit_order, kind):
    q, x = RNG.integers(-3, 4, (3, 17, d)).astype(kind), RNG.standard_normal((4, 33, d)).astype(np.float32)
    bits = rowmax.sign_bits(x, bit_order)
    got, index = rowmax.maxsim_bits(q, bits, bit_order=bit_order, return_index=True)
    for i in range(3):
        for j in range(4):
            wanted = oracle.score_item(q[i], signs(x[j]))
            assert got[i, j] == wanted.score
            assert index[i, j].tolist() == wanted.index


def test_layouts():
    q, x = RNG.standard_normal((2, 6, 32)).astype(np.float32), RNG.standard_normal((5, 9, 32)).astype(np.float32)
    qb, xb = rowmax.sign_bits(q), rowmax.sign_bits(x)
    for call, query in ((rowmax.maxsim_hamming, qb), (rowmax.maxsim_bits, q)):
        whole = call(query, xb)
        assert whole.shape == (2, 5)
        np.testing.assert_array_equal(call(query[0], xb), whole[0])
        np.testing.assert_array_equal(call(query[0], xb[3]), whole[0, 3])
        np.testing.assert_array_equal(call(query, np.stack([xb, xb])), whole)
        packed = call(
            query.reshape(12, -1), xb.reshape(45, -1), cu_seqlens_q=[0, 6, 12], cu_seqlens_d=np.arange(0, 46, 9)
        )
        np.testing.assert_array_equal(packed, whole)


def test_every_kernel_gives_the_same_bits():
    q, x = RNG.standard_normal((2, 37, 200)).astype(np.float32), RNG.standard_normal((5, 60, 200)).astype(np.float32)
    qb, xb = rowmax.sign_bits(q), rowmax.sign_bits(x)
    for end, call, query in ((".bits", rowmax.maxsim_hamming, qb), (".residual", rowmax.maxsim_bits, q)):
        names = [k.name for k in rowmax.kernels() if k.available and k.name.endswith(end)]
        assert len(names) >= 2
        for name in names:
            np.testing.assert_array_equal(call(query, xb, kernel=name), call(query, xb, threads=1))


def test_what_does_not_fit_is_named():
    q, x = np.ones((2, 3, 20), np.float32), np.ones((4, 5, 20), np.float32)
    qb, xb = rowmax.sign_bits(q), rowmax.sign_bits(x)
    for call, error, text in [
        (lambda: rowmax.sign_bits(q, "colbert"), ValueError, "bit_order must be one of 'little', 'big', got 'colbert'"),
        (lambda: rowmax.sign_bits(qb), TypeError, "X must be float16, bfloat16, float32 or float64, got uint8"),
        (lambda: rowmax.maxsim_hamming(q, xb), TypeError, "Qb must be uint8, got float32"),
        (lambda: rowmax.maxsim_bits(q, x), TypeError, "Db must be uint8, got float32"),
        (lambda: rowmax.maxsim_hamming(qb, xb[..., :2]), ValueError, "3 and 2"),
        (lambda: rowmax.maxsim_hamming(qb, xb, dim=30), ValueError, r"Qb \[2, 3, 3\]: sign bits of 30 dimensions take 4 bytes"),
        (lambda: rowmax.maxsim_hamming(qb, xb, dim=0), ValueError, "dim must be at least 1 and at most 4096, got 0"),
        (lambda: rowmax.maxsim_bits(q, xb[..., :2]), ValueError, "Db has shape .4, 5, 2., but Q .* d = 20, which takes 3 bytes"),
        (lambda: rowmax.maxsim_bits(q, xb, d_mask=np.ones((4, 2))), ValueError, r"d_mask \[4, 2\] does not fit Db \[4, 5, 3\]"),
        (lambda: rowmax.maxsim_hamming(qb, xb, q_mask=np.ones((2, 2))), ValueError, r"q_mask \[2, 2\] does not fit Qb \[2, 3, 3\]"),
        (lambda: rowmax.maxsim(qb, xb), TypeError, "uint8"),
    ]:
        with pytest.raises(error, match=text):
            call()
