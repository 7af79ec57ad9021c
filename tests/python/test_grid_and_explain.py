"""inverse_grid, explain, explain_dispatch, kernels, version_info."""

import numpy as np
import pytest

import rowmax


def grid_by_definition(index, n):
    lists = [[s for s, value in enumerate(index) if value == destination] for destination in range(n)]
    row_ptr = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
    source = [s for row in lists for s in row]
    return row_ptr.tolist(), source + [-1] * (len(index) - len(source))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("sources", "n"), [(0, 0), (0, 3), (1, 1), (50, 7), (1000, 300), (7, 1000)])
def test_inverse_grid(sources, n, dtype):
    index = np.random.default_rng(9).integers(-1, max(n, 0), sources).astype(dtype)
    row_ptr, source = rowmax.inverse_grid(index, n)
    assert (row_ptr.dtype, source.dtype) == (np.int64, np.int64)
    assert (row_ptr.tolist(), source.tolist()) == grid_by_definition(index, n)


def test_inverse_grid_of_batches_views_and_a_real_index():
    rng = np.random.default_rng(10)
    q, d = rng.standard_normal((3, 7, 8)).astype("f"), rng.standard_normal((4, 9, 8)).astype("f")
    index = rowmax.maxsim(q, d, return_index=True)[1]
    row_ptr, source = rowmax.inverse_grid(index, 9)
    assert (row_ptr.shape, source.shape) == ((3, 4, 10), (3, 4, 7))
    by_document, document_sources = rowmax.inverse_grid(index.transpose(1, 0, 2), 9)
    for i in range(3):
        for j in range(4):
            wanted = grid_by_definition(index[i, j], 9)
            assert (row_ptr[i, j].tolist(), source[i, j].tolist()) == wanted
            assert (by_document[j, i].tolist(), document_sources[j, i].tolist()) == wanted


def test_inverse_grid_beyond_four_dimensions():
    index = np.random.default_rng(11).integers(-1, 3, (2, 1, 2, 1, 2, 5))
    row_ptr, source = rowmax.inverse_grid(index, 3)
    assert (row_ptr.shape, source.shape) == ((2, 1, 2, 1, 2, 4), index.shape)
    assert (row_ptr[1, 0, 1, 0, 1].tolist(), source[1, 0, 1, 0, 1].tolist()) == grid_by_definition(index[1, 0, 1, 0, 1], 3)


def test_inverse_grid_out_and_errors():
    index = np.array([2, 0, -1, 2])
    pair = (np.empty(4, np.int64), np.empty(4, np.int64))
    rowmax.inverse_grid(index, 3, out=pair)
    assert [x.tolist() for x in pair] == [[0, 1, 1, 3], [1, 0, 3, -1]]
    for bad in (3, -2):
        with pytest.raises(ValueError, match=str(bad)):
            rowmax.inverse_grid(np.array([0, bad]), 3)
        row_ptr, source = rowmax.inverse_grid(np.array([0, bad]), 3, validate=False)
        assert (row_ptr.tolist(), source.tolist()) == ([0, 1, 1, 1], [0, -1])
    with pytest.raises(ValueError, match="-1"):
        rowmax.inverse_grid(index, -1)
    with pytest.raises(ValueError, match="dimension"):
        rowmax.inverse_grid(np.array(3), 3)
    with pytest.raises(TypeError, match="int64.*int32"):
        rowmax.inverse_grid(index, 3, dtype="int32")


def test_explain_adds_up_to_the_score():
    rng = np.random.default_rng(14)
    q, d = rng.integers(-3, 4, (2, 20, 8)).astype("f"), rng.integers(-3, 4, (3, 9, 8)).astype("f")
    keep = rng.random((2, 20)) < 0.8
    scores, index = rowmax.maxsim(q, d, q_mask=keep, return_index=True)
    explained = rowmax.explain(q, d, q_mask=keep)
    np.testing.assert_array_equal(explained.index, index)
    np.testing.assert_array_equal(explained.similarity.sum(-1), scores)
    assert (explained.similarity[:, 0][~keep] == 0).all()
    token, similarity = rowmax.explain(q[0], d[0])
    np.testing.assert_array_equal(similarity, (q[0] * d[0][token]).sum(-1))
    out = np.empty_like(explained.index), np.empty_like(explained.similarity)
    again = rowmax.explain(q, d, q_mask=keep, out=out)
    assert again.index is out[0] and again.similarity is out[1]
    np.testing.assert_array_equal(out[0], index)
    with pytest.raises(ValueError, match=r"\(index, similarity\)"):
        rowmax.explain(q, d, out=out[0])
    packed = rowmax.explain(q[0], d.reshape(-1, 8), cu_seqlens_d=[0, 9, 18, 27])
    np.testing.assert_array_equal(packed.index, rowmax.explain(q[0], d).index)


def test_explain_dispatch_names_one_kernel_and_what_the_others_lack():
    q, d = np.ones((1, 2, 4), np.float16), np.ones((3, 2, 4), np.float16)
    rows = rowmax.explain_dispatch(q, d)
    assert [row.name for row in rows] == [row.name for row in rowmax.kernels()]
    (chosen,) = [row for row in rows if row.chosen]
    assert chosen.name.endswith(".f16") and chosen.refusal == "" and chosen.backend == "cpu"
    here = {row.name for row in rowmax.kernels() if row.available and row.backend == "cpu"}
    assert all("float16" in row.refusal for row in rows if row.name in here and row.name.endswith(".f32"))
    forced = next(row.name for row in reversed(rows) if row.name in here and row.name.endswith(".f16"))
    assert [row.name for row in rowmax.explain_dispatch(q, d, kernel=forced) if row.chosen] == [forced]


def test_a_kernel_that_cannot_is_not_implemented():
    rows = [row for row in rowmax.kernels() if row.backend == "cpu" and row.available]
    row = next(row.name for row in rows if row.name.endswith(".f32"))
    with pytest.raises(NotImplementedError, match="float64"):
        rowmax.maxsim(np.ones((1, 1)), np.ones((1, 1)), kernel=row)


def test_version_info():
    info = rowmax.version_info()
    assert info.version == rowmax.__version__
    assert info.cuda is any(row.backend == "cuda" for row in rowmax.kernels())
    assert set(info.kernels) == {row.name for row in rowmax.kernels() if row.available}
