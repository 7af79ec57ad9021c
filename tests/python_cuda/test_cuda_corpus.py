"""A corpus of the host, searched from a GPU: the bits of the search in the GPU's own memory, in any blocks."""

import numpy as np
import pytest

import rowmax

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


@pytest.fixture(scope="module")
def documents():
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(0, 200, (700,), generator=generator)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return torch.randn(int(offsets[-1]), 96, generator=generator), offsets


@pytest.fixture(scope="module", params=list(DTYPES))
def packed(request, documents, tmp_path_factory):
    """(corpus on disk, the same tokens on the GPU, offsets there)"""
    tokens, offsets = documents[0].to(DTYPES[request.param]), documents[1]
    path = tmp_path_factory.mktemp("corpus") / "d.rmx"
    return rowmax.Corpus.pack(path, (tokens, offsets)), tokens.cuda(), offsets.cuda()


def queries(dtype, *shape):
    return torch.randn(*shape, 96, generator=torch.Generator().manual_seed(4)).to(dtype).cuda()


@pytest.mark.parametrize("shape", [(32,), (1, 5), (6, 32), (3, 700)])
@pytest.mark.parametrize("k", [1, 100, 5000])
def test_equals_the_search_in_memory(packed, shape, k):
    corpus, tokens, offsets = packed
    q = queries(tokens.dtype, *shape)
    scores, index = rowmax.topk(q, corpus, k)
    wanted_scores, wanted_index = rowmax.topk(q, tokens, k, cu_seqlens_d=offsets)
    assert (scores.device, index.device) == (q.device, q.device)
    assert torch.equal(scores, wanted_scores)
    assert torch.equal(index, wanted_index)


def test_blocks_do_not_matter(packed):
    corpus, tokens, _ = packed
    q = queries(tokens.dtype, 4, 32)
    wanted = rowmax.topk(q, corpus, 50)
    for chunk in (1, 7, 699, 100000):
        for found, want in zip(rowmax.topk(q, corpus, 50, chunk=chunk), wanted, strict=True):
            assert torch.equal(found, want)


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_masks_and_normalize(packed, where):
    corpus, tokens, offsets = packed
    q = queries(tokens.dtype, 4, 32)
    mask = torch.rand(4, 32, generator=torch.Generator().manual_seed(5)) > 0.3
    found = rowmax.topk(q, corpus, 20, q_mask=mask.to(where), normalize=True)
    wanted = rowmax.topk(q, tokens, 20, cu_seqlens_d=offsets, q_mask=mask.cuda(), normalize=True)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_out(packed):
    corpus, tokens, _ = packed
    q = queries(tokens.dtype, 4, 32)
    wanted = rowmax.topk(q, corpus, 20)
    out = torch.empty(4, 20, device="cuda"), torch.empty(4, 20, dtype=torch.int64, device="cuda")
    assert rowmax.topk(q, corpus, 20, out=out) is out
    assert all(torch.equal(a, b) for a, b in zip(out, wanted, strict=True))
    with pytest.raises(ValueError, match="out must be"):
        rowmax.topk(q, corpus, 20, out=(out[0][:3], out[1]))


def test_queries_of_a_side_stream(packed):
    corpus, tokens, _ = packed
    wanted = rowmax.topk(queries(tokens.dtype, 4, 32), corpus, 20)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        found = rowmax.topk(queries(tokens.dtype, 4, 32), corpus, 20)
        sums = [array.double().sum() for array in found]
    stream.synchronize()
    assert [s.item() for s in sums] == [array.double().sum().item() for array in wanted]


def test_autocast_casts_the_queries(packed):
    corpus, tokens, _ = packed
    if tokens.dtype is torch.float32:
        pytest.skip("autocast has no float32")
    q = queries(torch.float32, 4, 32)
    wanted = rowmax.topk(q.to(tokens.dtype), corpus, 20)
    with torch.autocast("cuda", dtype=tokens.dtype):
        found = rowmax.topk(q, corpus, 20)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_errors(packed, tmp_path):
    corpus, tokens, _ = packed
    q = queries(tokens.dtype, 4, 32)
    with pytest.raises(ValueError, match="k must be at least 1"):
        rowmax.topk(q, corpus, 0)
    with pytest.raises(ValueError, match="96"):
        rowmax.topk(q[..., :64].contiguous(), corpus, 5)
    with pytest.raises(TypeError, match="float64"):
        rowmax.topk(q.double(), corpus, 5)
    with pytest.raises(NotImplementedError, match="cpu.scalar4"):
        rowmax.topk(q, corpus, 5, kernel="cpu.scalar4")
    with pytest.raises(NotImplementedError, match="requires grad"):
        rowmax.topk(q.clone().requires_grad_(), corpus, 5)
    wide = rowmax.Corpus.pack(tmp_path / "wide.rmx", np.zeros((3, 4, 96)))
    with pytest.raises(NotImplementedError, match="float64"):
        rowmax.topk(q.double(), wide, 5)
