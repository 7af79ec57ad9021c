"""Residual codes, sign bits and PLAID's steps on CUDA tensors: what the CPU says, and how such calls behave."""

import numpy as np
import pytest
from command_support import write_plaid_index

import rowmax

torch = pytest.importorskip("torch", reason="torch is not installed")


class Residuals:
    """Random documents as codes and buckets, on the CPU, and the arguments of a call."""

    def __init__(self, nbits, dim=128, documents=7, length=50, centroids=40, dtype=torch.float16, seed=0):
        self.random = torch.Generator().manual_seed(seed)
        shape = (documents, length)
        self.Q = self.normal(3, 20, dim).to(dtype)
        self.codes = torch.randint(0, centroids, shape, generator=self.random)
        self.bytes = torch.randint(0, 256, (*shape, dim * nbits // 8), generator=self.random, dtype=torch.uint8)
        self.lengths = torch.randint(0, length + 1, (documents,), generator=self.random)
        self.tables = {
            "centroids": self.normal(centroids, dim).to(dtype), "bucket_weights": self.normal(2**nbits).to(dtype), "nbits": nbits,
        }  # fmt: skip

    def normal(self, *shape):
        return torch.randn(shape, generator=self.random)

    def on(self, device):
        tables = {name: t.to(device) if isinstance(t, torch.Tensor) else t for name, t in self.tables.items()}
        return (self.Q.to(device), self.codes.to(device), self.bytes.to(device), self.lengths.to(device)), tables


def close(got, wanted, scale=1.0):
    torch.testing.assert_close(got.cpu(), wanted, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("nbits", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("normalize", [True, False])
def test_residuals_score_as_on_the_cpu(nbits, dtype, normalize):
    case = Residuals(nbits, dtype=dtype, seed=nbits)
    (q, *here), tables = case.on("cuda")
    (_, *there), cpu_tables = case.on("cpu")
    scale = 20 * 11.5 * (1 if normalize else 30)
    for order in ("colbert", "little"):
        got, index = rowmax.maxsim_residual(q, *here, **tables, normalize=normalize, bit_order=order, return_index=True)
        wanted, winners = rowmax.maxsim_residual(
            case.Q, *there, **cpu_tables, normalize=normalize, bit_order=order, return_index=True
        )
        close(got, wanted, scale)
        assert (index.cpu() == winners).float().mean() > 0.995
        assert torch.equal(rowmax.maxsim_residual(q, *here, **tables, normalize=normalize, bit_order=order), got)


def test_packed_documents_have_the_same_bits():
    case = Residuals(2)
    (q, codes, residuals, lengths), tables = case.on("cuda")
    padded = rowmax.maxsim_residual(q, codes, residuals, lengths, **tables)
    kept = torch.arange(codes.shape[1], device="cuda") < lengths[:, None]
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    packed = rowmax.maxsim_residual_varlen(q, codes[kept], residuals[kept], offsets, **tables)
    assert torch.equal(packed, padded)
    # Bytes at odd addresses, int32 codes.
    odd = torch.empty(residuals[kept].numel() + 1, dtype=torch.uint8, device="cuda")[1:].view(-1, residuals.shape[-1])
    odd.copy_(residuals[kept])
    assert torch.equal(rowmax.maxsim_residual_varlen(q, codes[kept].int(), odd, offsets.int(), **tables), padded)


def test_residual_calls_that_lie():
    case = Residuals(4)
    (q, codes, residuals, lengths), tables = case.on("cuda")
    wild = codes.clone()
    wild[0, 0] = 1 << 40
    lengths[0] = 9
    with pytest.raises(ValueError, match="codes: token 0 of document 0 has code 1099511627776"):
        rowmax.maxsim_residual(q, wild, residuals, lengths, **tables, validate=True)
    clamped = wild.clamp(max=39)
    as_clamped = rowmax.maxsim_residual(q, clamped, residuals, lengths, **tables)
    assert torch.equal(rowmax.maxsim_residual(q, wild, residuals, lengths, **tables), as_clamped)
    lengths[1] = 51
    with pytest.raises(ValueError, match=r"doc_lengths\[1\] is 51"):
        rowmax.maxsim_residual(q, codes, residuals, lengths, **tables, validate=True)
    with pytest.raises(TypeError, match="centroids is on the CPU"):
        rowmax.maxsim_residual(q, codes, residuals, lengths, **tables | {"centroids": tables["centroids"].cpu()})


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_gradient_of_queries(dtype):
    case = Residuals(2, documents=300, dtype=dtype)
    wanted = []
    for device in ("cpu", "cuda"):
        (q, *documents), tables = case.on(device)
        q = q.detach().clone().requires_grad_()
        scores = rowmax.maxsim_residual(q, *documents, **tables)
        scores.backward(torch.linspace(-1, 1, scores.numel(), device=device).reshape(scores.shape))
        wanted.append(q.grad.cpu().float())
    torch.testing.assert_close(wanted[1], wanted[0], rtol=2e-3 if dtype is torch.float16 else 1e-4, atol=1e-3)


def test_residuals_in_a_graph():
    case = Residuals(2)
    (q, *documents), tables = case.on("cuda")
    wanted = rowmax.maxsim_residual(q, *documents, **tables)
    out = torch.zeros_like(wanted)
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        rowmax.maxsim_residual(q, *documents, **tables, out=out)
    stream.synchronize()
    out.zero_()
    with torch.cuda.graph(graph):
        rowmax.maxsim_residual(q, *documents, **tables, out=out)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("dim", [8, 100, 128, 768])
def test_sign_bits(dim):
    generator = torch.Generator().manual_seed(dim)
    q, d = torch.randn(3, 12, dim, generator=generator), torch.randn(9, 40, dim, generator=generator)
    for order in ("little", "big"):
        bits = rowmax.sign_bits(d.cuda(), order)
        assert bits.is_cuda and torch.equal(bits.cpu(), rowmax.sign_bits(d, order))
        turned = d.half().transpose(0, 1)
        assert torch.equal(rowmax.sign_bits(turned.cuda(), order).cpu(), rowmax.sign_bits(turned, order))
        close(rowmax.maxsim_bits(q.cuda(), bits, bit_order=order), rowmax.maxsim_bits(q, bits.cpu(), bit_order=order), 12 * dim)
        if order == "little" or dim % 8 == 0:
            queries = rowmax.sign_bits(q, order)
            wanted = rowmax.maxsim_hamming(queries, bits.cpu(), dim=dim, return_index=True)
            got = rowmax.maxsim_hamming(queries.cuda(), bits, dim=dim, return_index=True)
            assert all(torch.equal(a.cpu(), b) for a, b in zip(got, wanted, strict=True))


@pytest.mark.parametrize("lq", [1, 30, 32, 100])
def test_approximate_scores(lq):
    generator = torch.Generator().manual_seed(lq)
    table = torch.randn(50, lq, generator=generator)
    codes = torch.randint(0, 50, (40, 70), generator=generator)
    lengths = torch.randint(0, 71, (40,), generator=generator)
    wanted = rowmax.plaid_approx_score(table, codes, lengths)
    close(rowmax.plaid_approx_score(table.cuda(), codes.cuda(), lengths.cuda()), wanted, 4 * lq)
    close(rowmax.plaid_approx_score(table.cuda(), codes.cuda().int(), lengths.tolist()), wanted, 4 * lq)
    half = rowmax.plaid_approx_score(table.half().cuda().T.contiguous().T, codes.cuda(), lengths.cuda())
    close(half, rowmax.plaid_approx_score(table.half(), codes, lengths), 4 * lq)
    offsets = torch.arange(41) * 70
    chosen = torch.tensor([3, 39, 3, 0])
    for threshold in (None, 1.5, 4.5):
        wanted = rowmax.plaid_approx_score_packed(table, codes.flatten(), offsets, chosen, threshold=threshold)
        got = rowmax.plaid_approx_score_packed(
            table.cuda(), codes.flatten().cuda(), offsets.cuda(), chosen.cuda(), threshold=threshold
        )
        close(got, wanted, 4 * lq)
    with pytest.raises(ValueError, match="but there are 50 centroids"):
        rowmax.plaid_approx_score(table.cuda(), codes.cuda() + 1, lengths.cuda(), validate=True)


def test_probes_and_candidates():
    generator = torch.Generator().manual_seed(1)
    table = torch.randint(-50, 50, (700, 33), generator=generator).float()  # with ties
    table[5, 3] = float("nan")
    for nprobe in (1, 7, 700, 1000):
        assert torch.equal(rowmax.plaid_probe(table.cuda(), nprobe).cpu(), rowmax.plaid_probe(table, nprobe))
    lengths = torch.randint(0, 9, (700,), generator=generator)
    ivf = torch.randint(0, 500, (int(lengths.sum()),), generator=generator)
    cells = torch.randint(0, 700, (33, 4), generator=generator)
    wanted = rowmax.plaid_candidates(cells, ivf, lengths, 500)
    assert torch.equal(rowmax.plaid_candidates(cells.cuda(), ivf.cuda(), lengths.cuda(), 500).cpu(), wanted)
    with pytest.raises(ValueError, match=r"but there are 400 documents"):
        rowmax.plaid_candidates(cells.cuda(), ivf.cuda(), lengths.cuda(), 400, validate=True)
    assert (rowmax.plaid_candidates(cells.cuda(), ivf.cuda(), lengths.cuda(), 400).cpu() == wanted[wanted < 400]).all()


def test_search(tmp_path):
    rng = np.random.default_rng(5)
    write_plaid_index(tmp_path / "index", rng, [[5, 9, 1], [], [3, 0, 12, 7], [20, 2, 8, 8, 8, 30]])
    index = rowmax.PlaidIndex.open(tmp_path / "index")
    q = torch.from_numpy(rng.standard_normal((4, 6, index.dim)).astype(np.float32))
    everything = {"nprobe": len(index.centroids), "candidates": len(index)}
    wanted = rowmax.plaid_search(q, index, 20, **everything)
    got = rowmax.plaid_search(q.cuda(), index, 20, **everything)
    close(got[0], wanted[0], 30)
    assert torch.equal(got[1].cpu(), wanted[1])
    few = rowmax.plaid_search(q.cuda(), index, 3, nprobe=2, candidates=5, threshold=0.1)
    assert few[0].shape == (4, 3) and few[1].is_cuda
    mask = torch.tensor([True, True, False, True, False, True])
    alone = rowmax.plaid_search(q[1].cuda(), index, 5, q_mask=mask.cuda(), **everything)
    close(alone[0], rowmax.plaid_search(q[1], index, 5, q_mask=mask, **everything)[0], 30)
