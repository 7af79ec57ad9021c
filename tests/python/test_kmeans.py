"""k-means: exact small cases, agreement with Lloyd's iterations by definition, determinism, empty clusters."""

import numpy as np
import pytest
from arrays import TYPES

import rowmax


def blobs(clusters=5, each=60, d=8, seed=0, spread=0.05):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, d))
    index = rng.permutation(np.repeat(np.arange(clusters), each))
    return centres, index, centres[index] + spread * rng.standard_normal((len(index), d))


def by_definition(X, centroids, iterations):
    """Lloyd's iterations in float64, for inputs that leave no cluster empty."""
    for _ in range(iterations):
        index = ((X[:, None] - centroids) ** 2).sum(-1).argmin(1)
        centroids = np.stack([X[index == c].mean(0) for c in range(len(centroids))])
    return centroids, ((X[:, None] - centroids) ** 2).sum(-1).argmin(1)


@pytest.mark.parametrize("name", TYPES)
def test_finds_separate_blobs(name):
    make, keywords = TYPES[name]
    _, truth, X = blobs()
    X = np.round(X * 32) / 32 if name != "bfloat16" else X
    X = np.asarray(np.clip(np.round(X * 16) / 16, -4, 4), float)
    found = rowmax.kmeans(make(X), 5, **keywords)
    assert found.centroids.dtype == (np.float64 if name == "float64" else np.float32)
    assert found.index.dtype == np.int64 and found.converged
    for cluster in range(5):
        assert len(set(found.index[truth == cluster])) == 1
    np.testing.assert_allclose(found.centroids[found.index[0]], X[found.index == found.index[0]].mean(0), rtol=1e-5, atol=1e-6)


def test_the_iterations_are_lloyds():
    rng = np.random.default_rng(1)
    X, start = rng.standard_normal((500, 6)), rng.standard_normal((7, 6))
    found = rowmax.kmeans(X, 7, init=start, iterations=4, tolerance=-1.0)
    centroids, index = by_definition(X, start, 4)
    np.testing.assert_allclose(found.centroids, centroids)
    np.testing.assert_array_equal(found.index, index)
    assert found.iterations == 4
    np.testing.assert_allclose(found.inertia, ((X - centroids[index]) ** 2).sum())


def test_exact_integers_and_ties():
    X = np.array([[0.0], [2], [4], [6], [3]], np.float32)
    found = rowmax.kmeans(X, 2, init=np.array([[1.0], [5]], np.float32), iterations=1)
    assert found.index.tolist()[:4] == [0, 0, 1, 1]
    assert found.centroids.ravel().tolist() == [5 / 3, 5] or found.centroids.ravel().tolist() == [np.float32(5 / 3), 5]


def test_far_from_the_origin():
    _, truth, X = blobs(spread=0.01)
    found = rowmax.kmeans((X + 1000).astype(np.float32), 5)
    assert all(len(set(found.index[truth == c])) == 1 for c in range(5))


@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("metric", ["l2_sq", "dot"])
def test_same_bits_for_a_seed_and_any_threads(init, metric):
    X = np.random.default_rng(2).standard_normal((3000, 20)).astype(np.float32)
    first = rowmax.kmeans(X, 17, init=init, metric=metric, seed=3, threads=1)
    for threads in (1, 2, 3):
        again = rowmax.kmeans(X, 17, init=init, metric=metric, seed=3, threads=threads)
        np.testing.assert_array_equal(again.centroids, first.centroids)
        np.testing.assert_array_equal(again.index, first.index)
        assert again[2:] == first[2:]
    assert not np.array_equal(rowmax.kmeans(X, 17, init=init, metric=metric, seed=4).centroids, first.centroids)


def test_inertia_falls():
    X = np.random.default_rng(4).standard_normal((800, 5))
    inertia = [rowmax.kmeans(X, 9, iterations=i, tolerance=0.0).inertia for i in (1, 2, 5, 20)]
    assert inertia == sorted(inertia, reverse=True) and inertia[0] > inertia[-1]


def test_spherical():
    rng = np.random.default_rng(5)
    centres = np.linalg.qr(rng.standard_normal((8, 8)))[0][:4]
    truth = rng.integers(0, 4, 300)
    X = (centres[truth] + 0.1 * rng.standard_normal((300, 8))) * rng.uniform(0.1, 10, (300, 1))
    found = rowmax.kmeans(X, 4, metric="dot")
    np.testing.assert_allclose(np.linalg.norm(found.centroids, axis=1), 1)
    assert all(len(set(found.index[truth == c])) == 1 for c in range(4))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(found.inertia, (1 - (unit * found.centroids[found.index]).sum(1)).sum())


def test_empty_clusters_take_the_farthest_points():
    X = np.array([[0.0], [1], [2], [50], [100]])
    found = rowmax.kmeans(X, 3, init=np.array([[1.0], [-500], [-900]]), iterations=20)
    np.testing.assert_allclose(sorted(found.centroids.ravel()), [1, 50, 100])
    np.testing.assert_allclose(found.inertia, 2)
    same = rowmax.kmeans(np.ones((10, 3)), 4)
    assert same.inertia == 0 and (same.index == 0).all() and (same.centroids == 1).all()


def test_single_points():
    one = rowmax.kmeans(np.array([[3.0, 4]]), 1)
    assert one.centroids.tolist() == [[3, 4]] and one.index.tolist() == [0] and one.inertia == 0
    X = np.random.default_rng(6).standard_normal((6, 2))
    each = rowmax.kmeans(X, 6, init="random")
    assert each.inertia < 1e-20 and sorted(each.index.tolist()) == list(range(6))


def test_errors_name_the_argument():
    X = np.ones((5, 3), "f")
    bad = X.copy()
    bad[2, 1] = np.nan
    for error, match, call in (
        (ValueError, "k must be 1 to N = 5, got 6", lambda: rowmax.kmeans(X, 6)),
        (TypeError, "k must be an integer", lambda: rowmax.kmeans(X, 2.0)),
        (ValueError, r"X must be \[N, d\]", lambda: rowmax.kmeans(X[0], 1)),
        (TypeError, "X must be float16", lambda: rowmax.kmeans(X.astype(int), 1)),
        (ValueError, r"X\[2\] holds", lambda: rowmax.kmeans(bad, 2)),
        (ValueError, "metric must be one of", lambda: rowmax.kmeans(X, 2, metric="cosine")),
        (ValueError, "init must be one of", lambda: rowmax.kmeans(X, 2, init="best")),
        (ValueError, r"init must be \[2, 3\]", lambda: rowmax.kmeans(X, 2, init=X)),
        (TypeError, "init must be a numpy", lambda: rowmax.kmeans(X, 2, init=3)),
        (ValueError, "iterations must be at least 1, got 0", lambda: rowmax.kmeans(X, 2, iterations=0)),
        (TypeError, "X is float32 but dtype is 'float64'", lambda: rowmax.kmeans(X, 2, dtype="float64")),
    ):
        with pytest.raises(error, match=match):
            call()


@pytest.mark.parametrize("metric", ["l2_sq", "dot"])
@pytest.mark.parametrize("dtype, exponents", [("f", (-100, -60, 60, 120)), ("d", (-1000, -300, 300, 1000))])
def test_points_whose_squares_their_type_does_not_hold(metric, dtype, exponents):
    X = np.random.default_rng(0).standard_normal((60, 4)).astype(dtype)
    usual = rowmax.kmeans(X, 4, metric=metric)
    for exponent in exponents:
        found = rowmax.kmeans(np.ldexp(X, exponent), 4, metric=metric)
        np.testing.assert_array_equal(found.index, usual.index)
        scale = 0 if metric == "dot" else exponent
        np.testing.assert_array_equal(found.centroids, np.ldexp(usual.centroids, scale))
        with np.errstate(over="ignore"):
            assert found.inertia == np.ldexp(usual.inertia, 2 * scale)


def test_centroids_to_start_from_are_finite():
    X = np.random.default_rng(0).standard_normal((9, 2)).astype("f")
    for start in (np.float32([[0, 0], [np.nan, 1]]), np.array([[0, 0], [1e300, 1]])):
        with pytest.raises(ValueError, match=r"init\[1\] holds a number that is not finite"):
            rowmax.kmeans(X, 2, init=start)
