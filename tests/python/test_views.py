"""Views are read in place where their last dimension is contiguous, and copied otherwise; either way the bits agree."""

import resource

import numpy as np
import pytest
from arrays import TYPES

import rowmax

RNG = np.random.default_rng(4)
Q = RNG.integers(-3, 4, (3, 6, 8)).astype(np.float64)
D = RNG.integers(-3, 4, (4, 10, 8)).astype(np.float64)
WANTED = rowmax.maxsim(Q, D)


def frame(x):
    """A view into a larger, poisoned array."""
    whole = np.full([n + 4 for n in x.shape], 99, x.dtype)
    view = whole[tuple(slice(2, 2 + n) for n in x.shape)]
    view[...] = x
    return view


def spaced(x):
    whole = np.full((*x.shape[:-1], 3 * x.shape[-1]), 99, x.dtype)
    whole[..., ::3] = x
    return whole[..., ::3]


def record_field(x):
    """Steps between elements that are no multiple of their size."""
    records = np.zeros(x.shape, np.dtype([("flag", "u1"), ("value", x.dtype)]))
    records["value"] = x
    return records["value"]


def unaligned(x):
    bytes_ = np.zeros(x.nbytes + 1, np.uint8)
    view = bytes_[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


VIEWS = {
    "framed": frame,
    "reversed items": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "reversed tokens": lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
    "reversed elements": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "transposed": lambda x: np.ascontiguousarray(x.transpose(2, 1, 0)).transpose(2, 1, 0),
    "items inside": lambda x: np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2),
    "spaced elements": spaced,
    "record field": record_field,
    "unaligned": unaligned,
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_any_view_gives_the_same_scores(view, dtype):
    convert, keywords = TYPES[dtype]
    q, d = VIEWS[view](convert(Q)), VIEWS[view](convert(D))
    np.testing.assert_array_equal(rowmax.maxsim(q, d, **keywords), WANTED)


def test_broadcast_batches():
    q, d = np.broadcast_to(Q[:1], (5, 6, 8)), np.broadcast_to(D[1], (7, 10, 8))
    np.testing.assert_array_equal(rowmax.maxsim(q, d), np.full((5, 7), WANTED[0, 1]))
    shared = np.broadcast_to(D, (3, 4, 10, 8))
    np.testing.assert_array_equal(rowmax.maxsim(Q, shared), WANTED)
    same_token = np.broadcast_to(D[:, :1], D.shape)
    np.testing.assert_array_equal(rowmax.maxsim(Q, same_token), rowmax.maxsim(Q, D[:, :1]))


def test_a_broadcast_batch_is_not_copied():
    d = np.broadcast_to(np.ones(256, np.float32), (1 << 12, 256, 256))  # a copy would take 1 GiB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scores = rowmax.maxsim(np.ones((1, 256), np.float32), d)
    assert (scores == 256).all()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 * 1024  # KiB


def test_strided_offsets_and_pairs():
    cu = np.array([0, 7, 10, 7], np.int64)[:3]
    spread = np.zeros(6, np.int64)
    spread[::2] = cu
    tokens = D[0]
    wanted = rowmax.maxsim_varlen(Q[0], tokens, [0, 6], cu)
    np.testing.assert_array_equal(rowmax.maxsim_varlen(Q[0], tokens, [0, 6], spread[::2]), wanted)
    flipped = cu[::-1].copy()[::-1]
    np.testing.assert_array_equal(rowmax.maxsim_varlen(Q[0], tokens, [0, 6], flipped), wanted)


def test_foreign_byte_order_is_refused():
    with pytest.raises(TypeError, match="Q"):
        rowmax.maxsim(Q.astype(">f4"), D.astype(">f4"))


def test_subclasses():
    class Tagged(np.ndarray):
        pass

    assert (rowmax.maxsim(Q.view(Tagged), D) == WANTED).all()
    with pytest.raises(TypeError, match="masked array"):
        rowmax.maxsim(np.ma.masked_array(Q), D)
