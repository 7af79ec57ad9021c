"""Hard routing on numpy arrays: dispatch, combine, capacity, gather."""

import numpy as np
import pytest
from arrays import TYPES

import rowmax
from rowmax import routing


def test_dispatch_puts_every_experts_tokens_side_by_side():
    rng = np.random.default_rng(0)
    for shape in ((40,), (40, 1), (40, 3)):
        x = rng.integers(-9, 10, (40, 5)).astype(np.float32)
        index = rng.integers(-1, 6, shape).astype(np.int32)
        packed, route = routing.dispatch(x, index, 6)
        choices = index.reshape(40, -1)
        assert packed.shape == (choices.size, 5) and route.tokens == 40
        for expert in range(6):
            rows = slice(*route.cu_seqlens[expert : expert + 2])
            wanted = [t for t in range(40) for e in choices[t] if e == expert]
            assert route.token[rows].tolist() == wanted
            np.testing.assert_array_equal(packed[rows], x[wanted])
        assert (packed[route.cu_seqlens[-1] :] == 0).all() and (route.token[route.cu_seqlens[-1] :] == -1).all()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_combine_is_the_weighted_sum_over_choices(name):
    make, _ = TYPES[name]
    rng = np.random.default_rng(1)
    x, index = rng.integers(-3, 4, (30, 4)).astype(float), rng.integers(-1, 5, (30, 2))
    weights = rng.integers(0, 3, (30, 2)).astype(float)
    packed, route = routing.dispatch(make(x), index, 5)
    factor = np.array([2.0, 3, 5, 7, 11])
    expert = np.searchsorted(route.cu_seqlens, np.arange(len(packed)), side="right") - 1
    y = (np.asarray(packed, float) * np.append(factor, [0.0])[expert][:, None])[: len(packed)]
    out = routing.combine(make(y), route, make(weights))
    assert out.dtype == make(x).dtype
    wanted = sum(weights[:, [i]] * np.append(factor, 0.0)[index[:, [i]]] * x for i in range(2))
    np.testing.assert_array_equal(np.asarray(out, float), wanted)
    ones = routing.combine(make(y), route)
    np.testing.assert_array_equal(np.asarray(ones, float), sum(np.append(factor, 0.0)[index[:, [i]]] * x for i in range(2)))


def test_capacity_drops_the_tokens_that_come_last():
    index = np.array([[1, 0], [1, 2], [1, -1], [0, 1]])
    x = np.arange(8.0).reshape(4, 2)
    packed, route = routing.dispatch(x, index, 3, capacity=2)
    assert route.cu_seqlens.tolist() == [0, 2, 4, 5]
    assert route.token.tolist() == [0, 3, 0, 1, 1, -1, -1, -1]
    np.testing.assert_array_equal(packed[:5], x[route.token[:5]])
    np.testing.assert_array_equal(routing.combine(packed, route), x * np.array([[2], [2], [0], [1]]))
    assert routing.dispatch(x, index, 3, capacity=0)[1].cu_seqlens.tolist() == [0, 0, 0, 0]
    np.testing.assert_array_equal(routing.dispatch(x, index, 3, capacity=9)[0], routing.dispatch(x, index, 3)[0])


def test_top_experts_takes_the_lowest_of_equals():
    logits = np.array([[1, 3, 3, 2], [0, -0.0, 0, 0], [np.nan, 5, np.inf, 1], [-np.inf] * 4], np.float32)
    index, values = routing.top_experts(logits, 3)
    assert index.dtype == np.int64
    assert index.tolist() == [[1, 2, 3], [0, 1, 2], [0, 2, 1], [0, 1, 2]]
    np.testing.assert_array_equal(values, np.take_along_axis(logits, index, 1))


def test_gather():
    table = np.arange(12.0).reshape(2, 3, 2)
    index = np.array([[2, -1, 0, 9], [1, 1, -5, 2]])
    rows = routing.gather(index, table)
    np.testing.assert_array_equal(rows[0], [[4, 5], [0, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(rows[1], [[8, 9], [8, 9], [0, 0], [10, 11]])
    assert routing.gather(np.array([1, -1]), np.array([3, 4])).tolist() == [4, 0]
    assert routing.gather(np.array([1, -1]), np.zeros((0, 2))).tolist() == [[0, 0]] * 2


def test_nothing_to_route():
    packed, route = routing.dispatch(np.zeros((0, 3), "f"), np.zeros((0, 2), np.int64), 4)
    assert packed.shape == (0, 3) and route.cu_seqlens.tolist() == [0] * 5
    assert routing.combine(packed, route, np.zeros((0, 2), "f")).shape == (0, 3)


def test_errors_name_the_argument():
    x, index = np.ones((4, 3), "f"), np.zeros((4, 2), np.int64)
    packed, route = routing.dispatch(x, index, 2)
    for error, match, call in (
        (ValueError, r"x \[4, 3\] and index \[3, 2\]", lambda: routing.dispatch(x, index[:3], 2)),
        (ValueError, "index holds 0 .* num_destinations is 0", lambda: routing.dispatch(x, index, 0)),
        (ValueError, "capacity must not be negative, got -1", lambda: routing.dispatch(x, index, 2, capacity=-1)),
        (TypeError, "capacity must be an integer", lambda: routing.dispatch(x, index, 2, capacity=1.5)),
        (ValueError, r"y must be \[8, C\]", lambda: routing.combine(packed[:7], route)),
        (ValueError, "weights must be", lambda: routing.combine(packed, route, np.ones((4, 3), "f"))),
        (ValueError, "k must be 1 to E = 3, got 4", lambda: routing.top_experts(x, 4)),
        (ValueError, r"logits must be \[T, E\]", lambda: routing.top_experts(x[0])),
        (TypeError, "logits must be float16.* got int64", lambda: routing.top_experts(index)),
        (TypeError, "index must be int32 or int64, got float32", lambda: routing.gather(x[0], x)),
        (TypeError, "route must be the Route that dispatch gave, got tuple", lambda: routing.combine(packed, tuple(route))),
        (ValueError, r"table \[4, 3\] does not fit index \[3, 2\]", lambda: routing.gather(index[:3], x)),
    ):
        with pytest.raises(error, match=match):
            call()
    assert isinstance(rowmax.routing.Route._fields, tuple)


def test_jax_arrays():
    jnp = pytest.importorskip("jax.numpy")
    rng = np.random.default_rng(7)
    index, values = rng.integers(-1, 4, (2, 30)).astype(np.int32), rng.integers(-3, 4, (2, 30, 5)).astype(np.float32)
    wanted = rowmax.scatter_sum(index, values, 4)
    grid = rowmax.inverse_grid(jnp.asarray(index), 4)
    assert [part.dtype for part in grid] == [np.int64, np.int64]
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
        sums = rowmax.scatter_sum(jnp.asarray(index), jnp.asarray(values, dtype), 4, grid)
        assert isinstance(sums, jnp.ndarray) and sums.dtype == dtype
        np.testing.assert_array_equal(np.asarray(sums, np.float32), wanted)
    x, experts = jnp.asarray(values[0]), jnp.asarray(np.stack([index[0], index[1]], 1))
    packed, route = rowmax.routing.dispatch(x, experts, 4, capacity=5)
    by_numpy, numpy_route = rowmax.routing.dispatch(values[0], np.asarray(experts), 4, capacity=5)
    np.testing.assert_array_equal(packed, by_numpy)
    out = rowmax.routing.combine(packed, route, jnp.ones((30, 2), jnp.float32))
    np.testing.assert_array_equal(out, rowmax.routing.combine(by_numpy, numpy_route))
    best = rowmax.routing.top_experts(x, 2)
    np.testing.assert_array_equal(best[0], rowmax.routing.top_experts(values[0], 2)[0])
    scores, tokens = rowmax.maxsim_topk_tokens(x, jnp.asarray(values), 3, return_index=True)
    np.testing.assert_array_equal(tokens, rowmax.maxsim_topk_tokens(values[0], values, 3, return_index=True)[1])
    assert isinstance(scores, jnp.ndarray)
    found = rowmax.kmeans(x, 3)
    assert isinstance(found.centroids, jnp.ndarray)
    np.testing.assert_array_equal(found.index, rowmax.kmeans(values[0], 3).index)
