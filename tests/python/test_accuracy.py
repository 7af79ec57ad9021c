"""Random inputs: error against double precision within the bounds of the contract."""

import ml_dtypes
import numpy as np
import oracle
import pytest

import rowmax

BOUNDS = {np.float16: 1e-6, ml_dtypes.bfloat16: 1e-6, np.float32: 2e-7, np.float64: 1e-14}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dtype", BOUNDS, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize(("lq", "ld", "d"), [(32, 180, 128), (17, 33, 96), (5, 1030, 768), (64, 64, 4096)])
def test_error_bound(dtype, normalize, lq, ld, d):
    rng = np.random.default_rng(lq * ld)
    q, x = rng.standard_normal((2, lq, d)).astype(dtype), rng.standard_normal((3, ld, d)).astype(dtype)
    scores = rowmax.maxsim(q, x, normalize=normalize)
    for i in range(2):
        for j in range(3):
            wanted = oracle.score_item(q[i], x[j], normalize=normalize)
            # Normalised, the float32 inverse norms add two roundings each.
            bound = BOUNDS[dtype] * wanted.scale + (4 * 6e-8 * wanted.scale if normalize else 0)
            assert abs(float(scores[i, j]) - wanted.score) <= bound
