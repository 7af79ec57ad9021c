"""nearest and chamfer of numpy arrays: golden cases, every type and layout, both ways to search, errors."""

import json
from pathlib import Path

import numpy as np
import pytest
from arrays import TYPES, score_type
from hypothesis import given, settings
from hypothesis import strategies as st

import rowmax

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "chamfer.json").read_text())["cases"]
ROWS = [row.name for row in rowmax.kernels() if row.available and row.backend == "cpu" and row.name.endswith(".f32")]


def distances(p, r, metric="l2_sq"):
    """[N, M], in double precision."""
    d = np.asarray(p, np.float64)[:, None] - np.asarray(r, np.float64)[None]
    return (d * d).sum(-1) if metric == "l2_sq" else np.abs(d).sum(-1)


def by_definition(p, r, k=1, metric="l2_sq"):
    d = distances(p, r, metric)
    order = np.argsort(d, axis=1, kind="stable")[:, :k]
    missing = ((0, 0), (0, max(k - len(r), 0)))
    return (
        np.pad(np.take_along_axis(d, order, 1), missing, constant_values=np.inf),
        np.pad(order, missing, constant_values=-1),
    )


def points(values):
    flat = [[float(x) for x in row] for row in values]
    return np.array(flat, np.float32).reshape(len(flat), -1 if flat else 1)


@pytest.mark.parametrize("search", ["brute", "tree"])
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden(case, search):
    p, r = points(case["P"]), points(case["R"])
    masks = {name: np.array(case[name]) for name in ("p_mask", "r_mask") if name in case}
    for metric, reduction, wanted in (("l2_sq", "sum", "sum"), ("l2_sq", "mean", "mean"), ("l1", "sum", "l1")):
        value, index = rowmax.chamfer(p, r, metric=metric, reduction=reduction, return_index=True, search=search, **masks)
        np.testing.assert_array_equal(value, np.float32(case[wanted]))
        assert index[0].tolist() == case["index_p"] and index[1].tolist() == case["index_r"]
    found = rowmax.nearest(p, r, search=search, **masks)[1]
    assert found[:, 0].tolist() == case["index_p"]


@pytest.mark.parametrize("metric", ["l2_sq", "l1"])
@pytest.mark.parametrize("kind", TYPES)
def test_every_type(kind, metric):
    convert, keywords = TYPES[kind]
    rng = np.random.default_rng(1)
    p, r = (rng.integers(-4, 5, shape).astype(np.float64) for shape in ((3, 20, 5), (3, 31, 5)))
    distance, index = rowmax.nearest(convert(p), convert(r), 4, metric=metric, **keywords)
    assert (distance.dtype, index.dtype, distance.shape) == (score_type(kind), np.int64, (3, 20, 4))
    for i in range(3):
        wanted = by_definition(p[i], r[i], 4, metric)
        np.testing.assert_array_equal(distance[i], wanted[0])
        np.testing.assert_array_equal(index[i], wanted[1])
    value = rowmax.chamfer(convert(p), convert(r), metric=metric, reduction="sum", **keywords)
    assert (value.dtype, value.shape) == (score_type(kind), (3,))
    both = [distances(p[i], r[i], metric) for i in range(3)]
    np.testing.assert_array_equal(value, [d.min(1).sum() + d.min(0).sum() for d in both])


def test_reductions_sides_and_shapes():
    rng = np.random.default_rng(2)
    p, r = rng.random((7, 3), np.float32), rng.random((9, 3), np.float32)
    to_r, to_p = rowmax.chamfer(p, r, reduction="none")
    assert (to_r.shape, to_p.shape) == ((7,), (9,))
    np.testing.assert_allclose(to_r, distances(p, r).min(1), rtol=1e-6)
    np.testing.assert_allclose(rowmax.chamfer(p, r), to_r.mean(dtype=float) + to_p.mean(dtype=float), rtol=1e-6)
    np.testing.assert_allclose(rowmax.chamfer(p, r, one_sided=True), to_r.mean(dtype=float), rtol=1e-6)
    only, index = rowmax.chamfer(p, r, reduction="none", one_sided=True, return_index=True)
    np.testing.assert_array_equal(only, to_r)
    np.testing.assert_array_equal(index, rowmax.nearest(p, r)[1][:, 0])
    assert rowmax.chamfer(p, r).shape == ()
    many = rng.random((2, 1, 2, 2, 5, 3), np.float32)
    value = rowmax.chamfer(many, many[:, :, :, ::-1])
    assert value.shape == (2, 1, 2, 2)
    assert value[1, 0, 1, 0] == rowmax.chamfer(many[1, 0, 1, 0], many[1, 0, 1, 1])
    assert rowmax.nearest(many, many, 2)[1].shape == (2, 1, 2, 2, 5, 2)


def test_packed_and_masked_sets_give_the_bits_of_dense_ones():
    rng = np.random.default_rng(3)
    p, r = rng.random((4, 50, 3), np.float32), rng.random((4, 60, 3), np.float32)
    p_length, r_length = np.array([50, 0, 13, 1]), np.array([60, 7, 0, 33])
    p_mask, r_mask = np.arange(50) < p_length[:, None], np.arange(60) < r_length[:, None]
    masked = rowmax.chamfer(p, r, p_mask=p_mask, r_mask=r_mask)
    cu_p, cu_r = np.append(0, p_length.cumsum()), np.append(0, r_length.cumsum()).astype(np.int32)
    packed, index = rowmax.chamfer(p[p_mask], r[r_mask], cu_seqlens_p=cu_p, cu_seqlens_r=cu_r.tolist(), return_index=True)
    np.testing.assert_array_equal(masked, packed)
    alone = [rowmax.chamfer(p[i, :n], r[i, :m]) for i, (n, m) in enumerate(zip(p_length, r_length))]
    np.testing.assert_array_equal(alone, packed)
    assert index[0][:50].tolist() == rowmax.nearest(p[0], r[0])[1][:, 0].tolist()
    mixed = rowmax.chamfer(p, r[r_mask], p_mask=p_mask, cu_seqlens_r=cu_r)
    np.testing.assert_array_equal(mixed, packed)


CLOUDS = st.sampled_from(["uniform", "grid", "same", "line", "huge", "tiny", "mixed"])


def cloud(kind, n, c, rng):
    x = rng.standard_normal((n, c))
    match kind:
        case "grid":
            x = rng.integers(0, 3, (n, c))
        case "same":
            x = np.full((n, c), 0.25)
        case "line":
            x[:, 1:] = 1
        case "huge":
            x *= 1e38
        case "tiny":
            x *= 1e-42
        case "mixed":
            x *= 10.0 ** rng.integers(-20, 19, (n, 1))
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(CLOUDS, CLOUDS, st.integers(0, 300), st.integers(0, 400), st.integers(1, 16), st.integers(1, 40), st.booleans(),
       st.integers(0, 3), st.sampled_from(ROWS), st.integers(0, 99))  # fmt: skip
def test_a_tree_gives_the_bits_of_brute_force(p_kind, r_kind, n, m, c, k, l1, special, row, seed):
    rng = np.random.default_rng(seed)
    p, r = cloud(p_kind, n, c, rng), cloud(r_kind, m, c, rng)
    for x in (p, r):
        if special and x.size:
            x.flat[rng.integers(x.size)] = (np.nan, np.inf, -np.inf)[special - 1]
    keywords = {"metric": "l1" if l1 else "l2_sq", "r_mask": rng.random(m) < 0.9}
    wanted = rowmax.nearest(p, r, k, search="brute", threads=1, **keywords)
    found = rowmax.nearest(p, r, k, search="tree", threads=3, kernel=row, **keywords)
    for a, b in zip(wanted, found):
        np.testing.assert_array_equal(a, b)
    first = rowmax.nearest(p, r, 1, **keywords)
    np.testing.assert_array_equal(first[0][:, 0], wanted[0][:, 0])
    np.testing.assert_array_equal(first[1][:, 0], wanted[1][:, 0])


def test_large_sets_are_searched_by_a_tree_and_agree():
    rng = np.random.default_rng(4)
    p, r = rng.random((20_000, 3), np.float32), rng.random((30_000, 3), np.float32)
    found = rowmax.nearest(p, r, 3)
    for search in ("brute", "tree"):
        for a, b in zip(found, rowmax.nearest(p, r, 3, search=search)):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(rowmax.chamfer(p, r, threads=1), rowmax.chamfer(p, r, threads=4, search="brute"))


def test_out():
    rng = np.random.default_rng(5)
    p, r = rng.random((2, 7, 3), np.float32), rng.random((2, 9, 3), np.float32)
    pair = np.empty((2, 7, 2), np.float32), np.empty((2, 7, 2), np.int64)
    assert rowmax.nearest(p, r, 2, out=pair)[0] is pair[0]
    for a, b in zip(pair, rowmax.nearest(p, r, 2)):
        np.testing.assert_array_equal(a, b)
    value = np.empty(2, np.float32)
    assert rowmax.chamfer(p, r, out=value) is value
    np.testing.assert_array_equal(value, rowmax.chamfer(p, r))
    out = (np.empty((2, 7), np.float32), np.empty((2, 9), np.float32)), (np.empty((2, 7), np.int64), np.empty((2, 9), np.int64))
    assert rowmax.chamfer(p, r, reduction="none", return_index=True, out=out) is out
    wanted = rowmax.chamfer(p, r, reduction="none", return_index=True)
    for a, b in zip(out, wanted):
        for x, y in zip(a, b):
            np.testing.assert_array_equal(x, y)
    with pytest.raises(ValueError, match=r"\(distance_p, distance_r\).*ndarray"):
        rowmax.chamfer(p, r, reduction="none", out=value)
    with pytest.raises(ValueError, match=r"\[2\].*\[3\]"):
        rowmax.chamfer(p, r, out=np.empty(3, np.float32))
    with pytest.raises(ValueError, match="shares memory"):
        rowmax.chamfer(p, r, out=p.reshape(-1)[:2])


def test_names_what_is_wrong():
    p, r = np.ones((4, 3), np.float32), np.ones((5, 3), np.float32)
    for error, match, call in (
        (ValueError, "k must be at least 1, got 0", lambda: rowmax.nearest(p, r, 0)),
        (TypeError, "k must be an integer", lambda: rowmax.nearest(p, r, 1.5)),
        (ValueError, "metric.*l2_sq.*'cosine'", lambda: rowmax.nearest(p, r, metric="cosine")),
        (ValueError, "reduction.*'none'.*'max'", lambda: rowmax.chamfer(p, r, reduction="max")),
        (ValueError, "search.*'ball'", lambda: rowmax.chamfer(p, r, search="ball")),
        (ValueError, r"P \[4, 3\] and R \[5, 2\].*3 and 2", lambda: rowmax.chamfer(p, r[:, :2])),
        (TypeError, "P is float32 but R is float64", lambda: rowmax.chamfer(p, r.astype(float))),
        (TypeError, "R must be.*int64", lambda: rowmax.chamfer(p, r.astype(int))),
        (TypeError, "P must be a numpy.*list", lambda: rowmax.chamfer([[1.0]], r)),
        (ValueError, r"p_mask \[5\].*P \[4, 3\]", lambda: rowmax.chamfer(p, r, p_mask=np.ones(5))),
        (ValueError, "cu_seqlens_r.*9.*5", lambda: rowmax.chamfer(p, r, cu_seqlens_p=[0, 4], cu_seqlens_r=[0, 9])),
        (ValueError, "2 and 1 items", lambda: rowmax.chamfer(p, r, cu_seqlens_p=[0, 2, 4], cu_seqlens_r=[0, 5])),
        (TypeError, "P is float32 but dtype is 'float16'", lambda: rowmax.chamfer(p, r, dtype="float16")),
        (NotImplementedError, "16 coordinates.*20", lambda: rowmax.nearest(np.ones((2, 20)), np.ones((2, 20)), search="tree")),
        (ValueError, "threads.*-2", lambda: rowmax.nearest(p, r, threads=-2)),
        (ValueError, "kernel.*cpu.mmx", lambda: rowmax.nearest(p, r, kernel="cpu.mmx")),
        (TypeError, "kernel must be a string, got int 3", lambda: rowmax.chamfer(p, r, kernel=3)),
        (ValueError, r"P must be.*\[3\]", lambda: rowmax.nearest(p[0], r)),
    ):
        with pytest.raises(error, match=match):
            call()


def test_errors_speak_of_points():
    p, sets = np.ones((4, 3), np.float32), np.ones((2, 4, 3), np.float32)
    packed = {"cu_seqlens_p": [0, 9], "cu_seqlens_r": [0, 4]}
    for error, match, call in (
        (ValueError, "cu_seqlens_p ends at 9, but P holds 4 points", lambda: rowmax.nearest(p, p, **packed)),
        (ValueError, r"p_mask \[5\] .* one value a point", lambda: rowmax.nearest(p, p, p_mask=np.ones(5, bool))),
        (ValueError, r"P \[2, 4, 3\]: packed points .* \[T, c\]", lambda: rowmax.chamfer(sets, p, **packed)),
        (TypeError, "P is float32 but dtype is 'float16'", lambda: rowmax.nearest(p, p, dtype="float16")),
    ):
        with pytest.raises(error, match=match) as raised:
            call()
        assert "token" not in str(raised.value)


def test_masks_of_many_dimensions_keep_the_rule_of_few():
    rng = np.random.default_rng(8)
    p, r = rng.random((1, 2, 2, 4, 3)), rng.random((1, 2, 2, 5, 3))
    keep = rng.random((1, 2, 2, 4)) < 0.7
    flat = rowmax.nearest(p[0], r[0], p_mask=keep[0])[1]
    np.testing.assert_array_equal(rowmax.nearest(p, r, p_mask=keep)[1][0], flat)
    for one in (keep[0, 0, :1], keep[:, :1, :1], keep[0, 0, :1].tolist()):
        wanted = rowmax.nearest(p[0], r[0], p_mask=np.broadcast_to(keep[0, 0, 0], (2, 2, 4)))[1]
        np.testing.assert_array_equal(rowmax.nearest(p, r, p_mask=one)[1][0], wanted)
    for other in (keep.reshape(2, 2, 1, 4), keep.reshape(4, 4)[None], keep[:, :, :1], keep[0, 0, 0]):
        with pytest.raises(ValueError, match="p_mask .* does not fit"):
            rowmax.nearest(p, r, p_mask=other)


def test_lies_are_clamped_without_validate():
    rng = np.random.default_rng(6)
    p, r = rng.random((10, 2), np.float32), rng.random((10, 2), np.float32)
    offsets = {"cu_seqlens_p": [0, 8, 3, 99], "cu_seqlens_r": [-3, 4, 2**40, 2]}
    with pytest.raises(ValueError, match="cu_seqlens_p"):
        rowmax.nearest(p, r, 2, **offsets)
    index = rowmax.nearest(p, r, 2, validate=False, **offsets)[1]
    assert index.min() >= -1 and index.max() < 10


def test_jax_arrays():
    jax = pytest.importorskip("jax")
    p, r = np.random.default_rng(7).random((2, 6, 3), np.float32)
    distance, index = rowmax.nearest(jax.numpy.asarray(p), jax.numpy.asarray(r), 2)
    assert isinstance(distance, jax.Array)
    np.testing.assert_array_equal(index, rowmax.nearest(p, r, 2)[1])
    assert rowmax.chamfer(jax.numpy.asarray(p), jax.numpy.asarray(r)) == rowmax.chamfer(p, r)
