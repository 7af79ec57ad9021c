"""scatter_sum: types, shapes, batches, grids, threads, errors."""

import ml_dtypes
import numpy as np
import pytest
from arrays import TYPES

import rowmax


def by_definition(index, values, n):
    """Of one batch, in float64; exact for small integers."""
    out = np.zeros((n, *values.shape[1:]))
    for s, destination in enumerate(index):
        if destination >= 0:
            out[destination] += np.asarray(values[s], np.float64)
    return out


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("channels", [(), (1,), (7,), (40,), (3, 2)])
def test_exact_sums_in_every_type(name, channels, index_type):
    make, keywords = TYPES[name]
    rng = np.random.default_rng(1)
    for sources, n in ((0, 2), (1, 1), (33, 5), (700, 2), (50, 400)):
        index = rng.integers(-1, n, sources).astype(index_type)
        exact = rng.integers(-3, 4, (sources, *channels)).astype(np.float64)
        values = make(exact)
        sums = rowmax.scatter_sum(index, values, n, **keywords)
        assert (sums.dtype, sums.shape) == (values.dtype, (n, *channels))
        if name == "bfloat16 bits":
            sums = sums.view(ml_dtypes.bfloat16)
        wanted = by_definition(index, exact, n)
        if "float16" in name:  # sums beyond what halves hold are rounded once
            wanted = wanted.astype(np.float16 if name == "float16" else ml_dtypes.bfloat16)
        np.testing.assert_array_equal(np.asarray(sums, np.float64), np.asarray(wanted, np.float64))


def test_batches_of_any_rank():
    rng = np.random.default_rng(2)
    for lead, channels in (((), ()), ((3,), ()), ((2, 3), (4,)), ((2, 1, 2), (3,)), ((2, 2, 1, 2), ()), ((2,), (2, 3))):
        index = rng.integers(-1, 4, (*lead, 9))
        values = rng.integers(-3, 4, (*lead, 9, *channels)).astype(np.float32)
        sums = rowmax.scatter_sum(index, values, 4)
        grid = rowmax.inverse_grid(index, 4)
        assert sums.shape == (*lead, 4, *channels)
        np.testing.assert_array_equal(rowmax.scatter_sum(index, values, 4, grid), sums)
        for at in np.ndindex(*lead):
            np.testing.assert_array_equal(sums[at], by_definition(index[at], values[at], 4))


def test_views_are_read_as_they_are():
    rng = np.random.default_rng(3)
    index = rng.integers(0, 5, (20, 2))[:, 0]
    values = rng.integers(-3, 4, (6, 40)).astype(np.float64).T[::2]
    np.testing.assert_array_equal(rowmax.scatter_sum(index, values, 5), by_definition(index, values, 5))
    ones = np.broadcast_to(np.float32(1), (20,))
    np.testing.assert_array_equal(rowmax.scatter_sum(index, ones, 5), np.bincount(index, minlength=5))


def test_the_cpu_adds_in_order_where_it_need_not():
    rng = np.random.default_rng(4)
    index, values = rng.integers(-1, 9, 2000), rng.standard_normal((2000, 3)).astype(np.float32)
    sums = rowmax.scatter_sum(index, values, 9)
    assert rowmax.scatter_sum(index, values, 9, deterministic=False).tobytes() == sums.tobytes()


def test_same_bits_for_every_number_of_threads_grid_and_batch():
    rng = np.random.default_rng(4)
    index = rng.integers(-1, 3, 40000)
    values = rng.standard_normal((40000, 12)).astype(np.float32)
    once = rowmax.scatter_sum(index, values, 3, threads=1)
    grid = rowmax.inverse_grid(index, 3)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(rowmax.scatter_sum(index, values, 3, threads=threads), once)
        np.testing.assert_array_equal(rowmax.scatter_sum(index, values, 3, grid, threads=threads), once)
    pair = rowmax.scatter_sum(np.stack([index, index[::-1]]), np.stack([values, values[::-1]]), 3)
    np.testing.assert_array_equal(pair[0], once)
    channel = rowmax.scatter_sum(index, values[:, 5], 3)
    np.testing.assert_array_equal(channel, once[:, 5])


def test_runs_of_256_in_order():
    values = np.random.default_rng(5).standard_normal(1000).astype(np.float32)
    runs = [values[i : i + 256] for i in range(0, 1000, 256)]
    total = np.float32(0)
    for i, run in enumerate(runs):
        of_run = np.float32(0)
        for x in run:
            of_run += x
        total = of_run if i == 0 else total + of_run
    assert rowmax.scatter_sum(np.zeros(1000, np.int32), values, 1)[0] == total


def test_out_and_values_out_of_range():
    index, values = np.array([0, 3, -1, 0, -7]), np.arange(5.0)
    with pytest.raises(ValueError, match=r"index holds 3 .* num_destinations is 2"):
        rowmax.scatter_sum(index, values, 2)
    out = np.full(2, 9.0)
    assert rowmax.scatter_sum(index, values, 2, validate=False, out=out) is out
    assert out.tolist() == [3, 0]
    assert rowmax.scatter_sum(index[:1], values[:1], 0, validate=False).shape == (0,)


def test_special_values():
    index = np.array([0, 0, 1, 1, 2])
    sums = rowmax.scatter_sum(index, np.array([np.inf, -np.inf, np.nan, 1, -0.0], "f"), 4)
    assert np.isnan(sums[:2]).all() and sums[2:].tolist() == [0, 0] and not np.signbit(sums[2])


def test_errors_name_the_argument():
    index, values = np.array([0, 1]), np.ones((2, 3), np.float32)
    for error, match, call in (
        (TypeError, "index must be a numpy", lambda: rowmax.scatter_sum([0, 1], values, 2)),
        (TypeError, "index must be int32 or int64, got float64", lambda: rowmax.scatter_sum(index * 1.0, values, 2)),
        (TypeError, "values must be float16", lambda: rowmax.scatter_sum(index, index, 2)),
        (TypeError, "values is float32 but dtype is 'float64'", lambda: rowmax.scatter_sum(index, values, 2, dtype="float64")),
        (ValueError, r"values \[1, 3\] does not fit index \[2\]", lambda: rowmax.scatter_sum(index, values[:1], 2)),
        (ValueError, "num_destinations.*-1", lambda: rowmax.scatter_sum(index, values, -1)),
        (ValueError, "at least one dimension", lambda: rowmax.scatter_sum(np.array(1), values, 2)),
        (ValueError, "grid must be a pair", lambda: rowmax.scatter_sum(index, values, 2, grid=index)),
        (TypeError, "grid must be a numpy", lambda: rowmax.scatter_sum(index, values, 2, grid=([0], [1]))),
        (ValueError, "grid row_ptr", lambda: rowmax.scatter_sum(index, values, 3, rowmax.inverse_grid(index, 2))),
        (ValueError, "grid is not that of index", lambda: rowmax.scatter_sum(index, values, 2, rowmax.inverse_grid(index * 0, 2))),
        (ValueError, r"grid holds \[\]", lambda: rowmax.scatter_sum(index, values, 2, (index[0] * index, np.array(1)))),
        (ValueError, r"grid holds \[2, 2, 2\].*\[1, 2, 1, 2\]", lambda: rowmax.scatter_sum(
            np.zeros((1, 2, 1, 2, 2), int), np.ones((1, 2, 1, 2, 2)), 1, rowmax.inverse_grid(np.zeros((2, 2, 2), int), 1))),
        (TypeError, "num_destinations must be an integer, got float 1.5", lambda: rowmax.scatter_sum(index, values, 1.5)),
        (ValueError, r"out must have shape \[2, 3\]", lambda: rowmax.scatter_sum(index, values, 2, out=values[0])),
        (ValueError, "threads.*-3", lambda: rowmax.scatter_sum(index, values, 2, threads=-3)),
    ):
        with pytest.raises(error, match=match):
            call()
