"""Residual codes: bytes by ColBERTv2's reference rule, scores by decoding first and scoring then."""

import numpy as np
import oracle
import pytest

import rowmax

RNG = np.random.default_rng(11)


def colbert_reference(bytes, nbits):
    """colbert/indexing/codecs/residual.py: reversed_bit_map, then fields of nbits from the byte's top."""
    mask = (1 << nbits) - 1
    reversed_bit_map = []
    for i in range(256):
        z, j = 0, 8
        while j > 0:
            x = (i >> (j - nbits)) & mask
            y = 0
            for k in range(nbits - 1, -1, -1):
                y += ((x >> k) & 1) * 2 ** (nbits - k - 1)
            z |= y
            if j > nbits:
                z <<= nbits
            j -= nbits
        reversed_bit_map.append(z)
    fields = [[(reversed_bit_map[b] >> shift) & mask for shift in range(8 - nbits, -1, -nbits)] for b in range(256)]
    return np.array(fields, np.uint8)[bytes].reshape(*bytes.shape[:-1], -1)


def little_reference(bytes, nbits):
    shifts = np.arange(0, 8, nbits, dtype=np.uint8)
    return ((bytes[..., None] >> shifts) & ((1 << nbits) - 1)).reshape(*bytes.shape[:-1], -1).astype(np.uint8)


REFERENCE = {"colbert": colbert_reference, "little": little_reference}


class Documents:
    def __init__(self, shape, d, nbits, centroids=50, bit_order="colbert", code_type=np.int32):
        self.codes = RNG.integers(0, centroids, shape).astype(code_type)
        self.residuals = RNG.integers(0, 256, (*shape, d * nbits // 8)).astype(np.uint8)
        self.tables = {
            "centroids": RNG.standard_normal((centroids, d)).astype(np.float32),
            "bucket_weights": np.sort(RNG.standard_normal(2**nbits)).astype(np.float32) / 4,
            "nbits": nbits,
            "bit_order": bit_order,
        }

    def decoded(self):
        """In float32, as ColBERTv2 adds."""
        buckets = REFERENCE[self.tables["bit_order"]](self.residuals, self.tables["nbits"])
        return self.tables["centroids"][self.codes] + self.tables["bucket_weights"][buckets]


def unit(x):
    x = x.astype(np.float64)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("nbits", [1, 2, 4, 8])
@pytest.mark.parametrize("bit_order", ["colbert", "little"])
def test_every_byte(nbits, bit_order):
    every = np.arange(256, dtype=np.uint8)
    values = rowmax.unpack_residual(every, nbits, bit_order)
    assert values.dtype == np.uint8
    np.testing.assert_array_equal(values, REFERENCE[bit_order](every, nbits))
    deep = RNG.integers(0, 256, (2, 3, 4, 5)).astype(np.uint8)
    np.testing.assert_array_equal(rowmax.unpack_residual(deep, nbits, bit_order), REFERENCE[bit_order](deep, nbits))
    strided = deep[::2, :, ::-1, ::2]
    np.testing.assert_array_equal(rowmax.unpack_residual(strided, nbits, bit_order), REFERENCE[bit_order](strided, nbits))


@pytest.mark.parametrize("nbits", [1, 2, 4, 8])
@pytest.mark.parametrize("bit_order", ["colbert", "little"])
@pytest.mark.parametrize(("lq", "ld", "d"), [(1, 1, 8), (5, 33, 48), (32, 70, 128), (17, 9, 768)])
@pytest.mark.parametrize("normalize", [True, False])
def test_scores_of_decoded_tokens(nbits, bit_order, lq, ld, d, normalize):
    documents = Documents((4, ld), d, nbits, bit_order=bit_order)
    q = RNG.standard_normal((3, lq, d)).astype(np.float32)
    lengths = RNG.integers(0, ld + 1, 4)
    lengths[0] = ld
    got, index = rowmax.maxsim_residual(
        q, documents.codes, documents.residuals, lengths, normalize=normalize, return_index=True, **documents.tables
    )
    assert (got.dtype, got.shape, index.shape) == (np.float32, (3, 4), (3, 4, lq))
    decoded = documents.decoded()
    for i in range(3):
        for j in range(4):
            tokens = decoded[j, : lengths[j]]
            wanted = oracle.score_item(q[i], unit(tokens) if normalize else tokens)
            assert abs(got[i, j] - wanted.score) <= (7e-7 if normalize else 2e-7) * max(wanted.scale, 1e-30)
            assert (index[i, j] == wanted.index).mean() > 0.9


def test_exact_with_small_integers():
    """Whole numbers everywhere: the same bits as decoding and maxsim, which is exact too."""
    documents = Documents((6, 40), 64, 2)
    documents.tables["centroids"] = RNG.integers(-3, 4, (50, 64)).astype(np.float32)
    documents.tables["bucket_weights"] = np.array([-2, -1, 1, 2], np.float32)
    q = RNG.integers(-3, 4, (2, 33, 64)).astype(np.float32)
    lengths = np.array([40, 0, 7, 1, 39, 40])
    got = rowmax.maxsim_residual(
        q, documents.codes, documents.residuals, lengths, normalize=False, return_index=True, **documents.tables
    )
    wanted = rowmax.maxsim(q, documents.decoded(), d_mask=np.arange(40) < lengths[:, None], return_index=True)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    cu_seqlens = np.concatenate([[0], np.cumsum(lengths)])
    kept = np.arange(40) < lengths[:, None]
    packed = rowmax.maxsim_residual_varlen(
        q, documents.codes[kept], documents.residuals[kept], cu_seqlens, normalize=False, return_index=True, **documents.tables
    )
    for a, b in zip(packed, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_layouts_give_the_same_bits():
    documents = Documents((6, 40), 32, 4)
    q = RNG.standard_normal((2, 9, 32)).astype(np.float32)
    call = lambda q, codes, residuals, lengths=None: rowmax.maxsim_residual(  # noqa: E731
        q, codes, residuals, lengths, **documents.tables
    )
    whole = call(q, documents.codes, documents.residuals)
    np.testing.assert_array_equal(call(q[1], documents.codes, documents.residuals), whole[1])
    assert call(q[1], documents.codes[2], documents.residuals[2]) == whole[1, 2]
    own_codes = np.stack([documents.codes, documents.codes[::-1]])
    own = np.stack([documents.residuals, documents.residuals[::-1]])
    grouped = call(q, own_codes, own)
    np.testing.assert_array_equal(grouped, np.stack([whole[0], whole[1, ::-1]]))
    np.testing.assert_array_equal(call(q, own_codes, own, np.full((2, 6), 40)), grouped)
    names = [k.name for k in rowmax.kernels() if k.available and k.name.endswith(".residual")]
    assert len(names) >= 2
    for name in names:
        got = rowmax.maxsim_residual(
            q, documents.codes, documents.residuals, None, kernel=name, threads=2, **documents.tables
        )
        np.testing.assert_array_equal(got, whole)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("code_type", [np.int32, np.int64])
def test_types_of_tables_and_codes(kind, code_type):
    documents = Documents((3, 10), 16, 4, code_type=code_type)
    q = RNG.standard_normal((2, 5, 16)).astype(kind)
    for name in ("centroids", "bucket_weights"):
        documents.tables[name] = documents.tables[name].astype(kind)
    got = rowmax.maxsim_residual(q, documents.codes, documents.residuals, None, **documents.tables)
    for name in ("centroids", "bucket_weights"):
        documents.tables[name] = documents.tables[name].astype(np.float32)
    wanted = rowmax.maxsim_residual(
        q.astype(np.float32), documents.codes, documents.residuals, None, **documents.tables
    )
    np.testing.assert_array_equal(got, wanted)


def test_bits_of_bfloat16():
    documents = Documents((3, 10), 16, 4)
    q = RNG.integers(-3, 4, (2, 5, 16)).astype(np.float32)

    def bits(x):
        return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)

    rounded = documents.tables | {
        name: (bits(documents.tables[name]).astype(np.uint32) << 16).view(np.float32) for name in ("centroids", "bucket_weights")
    }
    tables = documents.tables | {name: bits(documents.tables[name]) for name in ("centroids", "bucket_weights")}
    got = rowmax.maxsim_residual(bits(q), documents.codes, documents.residuals, None, dtype="bfloat16", **tables)
    np.testing.assert_array_equal(got, rowmax.maxsim_residual(q, documents.codes, documents.residuals, None, **rounded))


def test_codes_and_lengths_that_lie():
    documents = Documents((3, 10), 16, 4, centroids=7)
    q = RNG.standard_normal((2, 5, 16)).astype(np.float32)
    codes = documents.codes.copy()
    codes[2, 4], codes[1, 9] = 7, -1
    for lengths, error in (([10, 9, 10], "token 4 of document 2 has code 7, but there are 7 centroids"), (None, "code -1")):
        with pytest.raises(ValueError, match=error):
            rowmax.maxsim_residual(q, codes, documents.residuals, lengths, **documents.tables)
    clamped = np.clip(codes, 0, 6)
    np.testing.assert_array_equal(
        rowmax.maxsim_residual(q, codes, documents.residuals, None, validate=False, **documents.tables),
        rowmax.maxsim_residual(q, clamped, documents.residuals, None, **documents.tables),
    )
    rowmax.maxsim_residual(q, codes, documents.residuals, [10, 9, 4], **documents.tables)  # the rest is padding
    for lengths in ([10, 11, 3], [10, -1, 3]):
        with pytest.raises(ValueError, match=rf"doc_lengths\[1\] is {lengths[1]}, but residuals .* 10 tokens"):
            rowmax.maxsim_residual(q, documents.codes, documents.residuals, lengths, **documents.tables)
    cut = rowmax.maxsim_residual(q, documents.codes, documents.residuals, [10, 11, -3], validate=False, **documents.tables)
    np.testing.assert_array_equal(
        cut, rowmax.maxsim_residual(q, documents.codes, documents.residuals, [10, 10, 0], **documents.tables)
    )


def test_what_does_not_fit_is_named():
    documents = Documents((3, 10), 16, 4)
    q = RNG.standard_normal((2, 5, 16)).astype(np.float32)

    def call(q=q, codes=documents.codes, residuals=documents.residuals, lengths=None, **change):
        return rowmax.maxsim_residual(q, codes, residuals, lengths, **(documents.tables | change))

    for change, error, text in [
        ({"nbits": 2**40}, ValueError, f"nbits must be 1, 2, 4 or 8, got {2**40}"),
        ({"nbits": 2.0}, TypeError, "nbits must be an integer, got float 2.0"),
        ({"centroids": None}, TypeError, "centroids must be float32, float16 or bfloat16, got None"),
        ({"residuals": documents.residuals.tolist()}, TypeError, "residuals must be a numpy, torch, CuPy or JAX array"),
        ({"nbits": 3}, ValueError, "nbits must be 1, 2, 4 or 8, got 3"),
        ({"bit_order": "big"}, ValueError, "bit_order must be one of 'colbert', 'little', got 'big'"),
        ({"q": q.astype(np.float64)}, TypeError, "Q must be float32, float16 or bfloat16, got float64"),
        ({"codes": documents.codes.astype(np.int16)}, TypeError, "codes must be int32 or int64, got int16"),
        ({"codes": documents.codes[:, :9]}, ValueError, r"codes \[3, 9\] and residuals \[3, 10, 8\] differ"),
        ({"residuals": documents.residuals.view(np.int8)}, TypeError, "residuals must be uint8, got int8"),
        ({"residuals": documents.residuals[..., :7]}, ValueError, "hold 14 values of 4 bits a token.*d = 16"),
        ({"centroids": np.zeros((4, 15), np.float32)}, ValueError, r"centroids \[4, 15\] must be \[C, 16\]"),
        ({"centroids": np.zeros((4, 16))}, TypeError, "centroids must be float32, float16 or bfloat16, got float64"),
        ({"bucket_weights": np.zeros(4, np.float32)}, ValueError, r"bucket_weights \[4\] must be \[16\]"),
        ({"lengths": [10, 10]}, ValueError, r"doc_lengths \[2\] does not fit residuals \[3, 10, 8\]"),
    ]:
        with pytest.raises(error, match=text):
            call(**change)
    with pytest.raises(TypeError, match="bytes must be uint8, got int8"):
        rowmax.unpack_residual(np.zeros(3, np.int8), 2)


def test_nan_and_zero_tokens():
    documents = Documents((1, 4), 8, 8)
    documents.tables["centroids"][:] = 0
    documents.tables["bucket_weights"][:] = 0
    q = np.ones((2, 8), np.float32)
    assert rowmax.maxsim_residual(q, documents.codes, documents.residuals, None, **documents.tables).tolist() == [0]
    documents.tables["centroids"][documents.codes[0, 2], 0] = np.nan
    score, index = rowmax.maxsim_residual(
        q, documents.codes, documents.residuals, None, return_index=True, **documents.tables
    )
    first = int(np.flatnonzero(documents.codes[0] == documents.codes[0, 2])[0])
    assert np.isnan(score[0]) and index[0].tolist() == [first, first]
