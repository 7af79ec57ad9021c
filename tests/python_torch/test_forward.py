"""torch tensors in, torch tensors out; the same bits as numpy."""

import json
import subprocess
import sys
from pathlib import Path

import layouts
import numpy as np
import oracle
import pytest
import torch

import rowmax

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
CASES = json.loads((Path(__file__).parent.parent / "data" / "golden.json").read_text())["cases"]


def tensors(*shapes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", layouts.ALL, ids=lambda f: f.__name__)
def test_equals_the_oracle(layout, dtype):
    rng = np.random.default_rng(17)
    queries, documents = layouts.integers(rng, (33, 1, 0), 20), layouts.integers(rng, (31, 97, 0, 1), 20)
    found = layout(queries, documents, 20, lambda x: torch.from_numpy(np.ascontiguousarray(x)).to(dtype))
    assert found == {p: (s.score, s.index) for p, s in oracle.score_all(queries, documents).items()}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_are_tensors(dtype):
    q, d = tensors((2, 3, 8), (4, 5, 8), dtype=dtype)
    scores, index = rowmax.maxsim(q, d, return_index=True)
    assert (scores.dtype, index.dtype) == (torch.float64 if dtype is torch.float64 else torch.float32, torch.int32)
    assert (scores.shape, index.shape) == ((2, 4), (2, 4, 3))
    best, documents = rowmax.topk(q, d, 2)
    assert (best.dtype, documents.dtype) == (scores.dtype, torch.int64)
    assert torch.equal(best, scores.topk(2).values) and torch.equal(documents, scores.topk(2).indices)
    token, similarity = rowmax.explain(q, d)
    assert torch.equal(token, index) and similarity.shape == (2, 4, 3)
    row_ptr, source = rowmax.inverse_grid(index, 5)
    assert (row_ptr.dtype, row_ptr.shape, source.shape) == (torch.int64, (2, 4, 6), (2, 4, 3))


def test_views_and_masks():
    q, d = tensors((3, 6, 8), (4, 10, 8))
    wanted = rowmax.maxsim(q, d)
    for view in (lambda x: x.transpose(0, 1).contiguous().transpose(0, 1), lambda x: x.mT.contiguous().mT):
        assert torch.equal(rowmax.maxsim(view(q), view(d)), wanted)
    assert torch.equal(rowmax.maxsim(q[:1].expand(5, -1, -1), d), wanted[:1].expand(5, -1))
    keep = torch.rand(4, 10, generator=torch.Generator().manual_seed(1)) < 0.5
    masked = rowmax.maxsim(q, d, d_mask=keep)
    for mask in (keep.int(), keep.to(torch.bfloat16), keep.numpy(), keep.t().contiguous().t()):
        assert torch.equal(rowmax.maxsim(q, d, d_mask=mask), masked)


def test_lazily_negated_tensors():
    q = torch.complex(*tensors((3, 6, 8), (3, 6, 8))).conj().imag
    assert q.is_neg()
    d = tensors((4, 10, 8))[0]
    assert torch.equal(rowmax.maxsim(q, d), rowmax.maxsim(q.clone(), d))


def test_bfloat16_bits():
    q, d = tensors((2, 3, 8), (4, 5, 8), dtype=torch.bfloat16)
    bits = q.view(torch.uint16), d.view(torch.uint16)
    for dtype in ("bfloat16", torch.bfloat16):
        assert torch.equal(rowmax.maxsim(*bits, dtype=dtype), rowmax.maxsim(q, d))
    with pytest.raises(TypeError, match="uint16.*bfloat16"):
        rowmax.maxsim(*bits)
    with pytest.raises(TypeError, match="Q is bfloat16 but dtype is 'float16'"):
        rowmax.maxsim(q, d, dtype=torch.float16)


def test_out():
    q, d = tensors((2, 3, 8), (4, 5, 8))
    out = torch.empty(2, 4)
    assert rowmax.maxsim(q, d, out=out) is out and torch.equal(out, rowmax.maxsim(q, d))
    with pytest.raises(ValueError, match=r"out.*\[2, 4\].*\[4, 2\]"):
        rowmax.maxsim(q, d, out=torch.empty(4, 2))
    with pytest.raises(TypeError, match="float32.*float64"):
        rowmax.maxsim(q, d, out=torch.empty(2, 4, dtype=torch.float64))
    with pytest.raises(TypeError, match="out is a numpy.ndarray"):
        rowmax.maxsim(q, d, out=np.empty((2, 4), np.float32))
    for call in (rowmax.maxsim, lambda *a, out: rowmax.topk(*a, 4, out=(out, torch.empty(2, 4, dtype=torch.int64)))):
        with pytest.raises(ValueError, match="out.*requires grad"):
            call(q.requires_grad_(), d, out=out)


def test_the_default_device_does_not_matter():
    q, d = tensors((2, 3, 8), (4, 5, 8))
    with torch.device("meta"):
        assert rowmax.maxsim(q, d).device.type == "cpu"


def test_torch_without_the_exchange_api():
    """Before torch 2.10, tensors were read through __dlpack__."""
    code = (
        "import torch; del torch.Tensor.__dlpack_c_exchange_api__\n"
        "import rowmax; from rowmax import _torch; assert not _torch._native_tensors\n"
        "q, d = torch.ones(2, 3, 4, requires_grad=True), torch.ones(5, 6, 4)\n"
        "scores, index = rowmax.maxsim(q, d, return_index=True)\n"
        "scores.sum().backward()\n"
        "print(scores.sum().item(), index.sum().item(), q.grad.sum().item(), rowmax.topk(q.detach(), d, 2)[1].tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.split("\n")[0] == "120.0 0 120.0 [[0, 1], [0, 1]]", result.stdout + result.stderr


def test_errors():
    q, d = tensors((2, 3, 8), (4, 5, 8))
    with pytest.raises(TypeError, match="Q is a torch.Tensor but D is a numpy.ndarray"):
        rowmax.maxsim(q, d.numpy())
    with pytest.raises(TypeError, match="Q is float16 but D is float32"):
        rowmax.maxsim(q.half(), d)
    with pytest.raises(TypeError, match="Q must be float16.*complex64"):
        rowmax.maxsim(q.to(torch.complex64), d)
    for odd in (q.to("meta"), q[0].to_sparse(), torch.quantize_per_tensor(q, 0.1, 0, torch.qint8)):
        with pytest.raises(TypeError, match="Q has no memory to read"):
            rowmax.maxsim(odd, d)


def test_search_in_a_corpus(tmp_path):
    q, d = tensors((2, 3, 8), (40, 8), dtype=torch.bfloat16)
    offsets = torch.arange(0, 41, 4)
    corpus = rowmax.Corpus.pack(tmp_path / "docs.rmx", (d, offsets))
    scores, index = rowmax.topk(q, corpus, 3)
    wanted_scores, wanted_index = rowmax.topk(q, d, 3, cu_seqlens_d=offsets)
    assert torch.equal(scores, wanted_scores) and torch.equal(index, wanted_index)
    assert rowmax.topk(q.requires_grad_(), corpus, 3)[0].requires_grad


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES if "grad_d_zero" in c])
def test_golden_gradients(case):
    q, d = (torch.tensor(case[side], dtype=getattr(torch, case["dtype"]), requires_grad=True) for side in "qd")
    rowmax.maxsim(q, d, d_mask=torch.tensor(case["d_mask"])).sum().backward()
    assert (d.grad[case["grad_d_zero"]] == 0).all() and d.grad.any()
