"""How calls on CUDA tensors behave: streams, devices, memory, results given, graphs, compilation, errors."""

import subprocess
import sys

import pytest

import rowmax

torch = pytest.importorskip("torch", reason="torch is not installed")


def tokens(*shape, dtype=torch.float16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to("cuda", dtype)


def ragged(count, most, seed=0):
    """Packed tokens with lengths 0 to most, and their offsets."""
    lengths = torch.randint(0, most + 1, (count,), generator=torch.Generator().manual_seed(seed))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int().cuda()
    return tokens(int(lengths.sum()), 128, seed=seed), offsets


def test_tensors_stay_where_they_are():
    q, d = tokens(2, 32, 128), tokens(9, 60, 128, seed=1)
    scores, index = rowmax.maxsim(q, d, return_index=True)
    assert scores.device == index.device == q.device
    assert (scores.dtype, index.dtype) == (torch.float32, torch.int32)
    best, where = rowmax.topk(q, d, 4)
    assert best.device == where.device == q.device and where.dtype is torch.int64
    assert [k.name for k in rowmax.explain_dispatch(q, d) if k.chosen][0].startswith("cuda.")
    with torch.device("meta"):
        assert torch.equal(rowmax.maxsim(q, d), scores)


def test_lists_and_arrays_of_numbers_go_where_the_tokens_are():
    q, d = tokens(8, 128), tokens(20, 128, seed=1)
    wanted = rowmax.maxsim_varlen(q, d, torch.tensor([0, 8]).cuda(), torch.tensor([0, 5, 20]).cuda())
    assert torch.equal(rowmax.maxsim_varlen(q, d, [0, 8], [0, 5, 20]), wanted)
    with pytest.raises(TypeError, match="Q is on CUDA device 0 but cu_seqlens_d is on the CPU"):
        rowmax.maxsim_varlen(q, d, [0, 8], torch.tensor([0, 5, 20]))


def test_work_goes_to_the_current_stream():
    """Tokens are written late on a side stream, and scores are read there: only work on that stream sees both."""
    q, d = tokens(1, 600, 128), tokens(200, 300, 128, seed=1)
    wanted = rowmax.maxsim(q, d)
    torch.cuda.synchronize()
    late, stream = torch.zeros_like(d), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(d)
        found = rowmax.maxsim(q, late)
        # Scratch memory and results were the stream's: what is taken next must not be the same memory too early.
        [torch.full((1 << 22,), 7.0, device="cuda") for _ in range(8)]
        copied = found.clone()
    stream.synchronize()
    assert torch.equal(copied, wanted)


def test_streams_side_by_side():
    queries = [tokens(1, 40 + 300 * i, 128, seed=i) for i in range(4)]
    d = tokens(300, 200, 128, seed=9)
    wanted = [rowmax.maxsim(q, d) for q in queries]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in queries]
    found = []
    for _ in range(5):
        for q, stream in zip(queries, streams):
            with torch.cuda.stream(stream):
                found.append(rowmax.maxsim(q, d))
    torch.cuda.synchronize()
    for i, scores in enumerate(found):
        assert torch.equal(scores, wanted[i % len(wanted)])


def test_out():
    q, d = tokens(2, 600, 128), tokens(9, 60, 128, seed=1)
    scores, index = rowmax.maxsim(q, d, return_index=True)
    out = torch.full_like(scores, float("nan")), torch.full_like(index, -7)
    assert rowmax.maxsim(q, d, return_index=True, out=out) is out
    assert torch.equal(out[0], scores) and torch.equal(out[1], index)
    best = torch.empty(2, 3, device="cuda"), torch.empty(2, 3, device="cuda", dtype=torch.int64)
    rowmax.topk(q, d, 3, out=best)
    assert torch.equal(best[0], scores.topk(3).values) and torch.equal(best[1], scores.topk(3).indices)
    with pytest.raises(ValueError, match=r"out must have shape \[2, 9\], got \[9, 2\]"):
        rowmax.maxsim(q, d, out=torch.empty(9, 2, device="cuda"))
    with pytest.raises(TypeError, match="Q is on CUDA device 0 but out is on the CPU"):
        rowmax.maxsim(q, d, out=torch.empty(2, 9))
    wide = d.float()
    with pytest.raises(ValueError, match="out .* shares memory with D"):
        rowmax.maxsim(q.float(), wide, out=wide.view(-1)[:18].view(2, 9))
    with pytest.raises(ValueError, match="requires grad"):
        rowmax.maxsim(q.requires_grad_(), d, out=out[0])


def peak_of(call, *inputs):
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = call(*inputs)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return peak


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_no_index_is_allocated(mode):
    q, d = tokens(64, 32, 128).requires_grad_(), tokens(500, 60, 128, seed=1)
    index_bytes = 2 * 64 * 500 * 32
    rowmax.maxsim(q.detach(), d)
    assert peak_of(rowmax.maxsim, q, d) >= index_bytes  # what backward would need
    with mode():
        assert peak_of(rowmax.maxsim, q, d) < index_bytes / 8
        assert not rowmax.maxsim(q, d).requires_grad


def test_memory_is_the_scores_and_little_more():
    """The contract: at most 4 bytes for every pair and group of 16 query tokens beside the results."""
    for nq, lq, nd, ld in ((1, 32, 1000, 300), (1, 1030, 500, 300), (8, 300, 100, 700)):
        q, d = tokens(nq, lq, 128), tokens(nd, ld, 128, seed=1)
        rowmax.maxsim(q, d)
        scratch = 4 * nq * nd * -(-lq // 16)
        assert peak_of(rowmax.maxsim, q, d) <= 4 * nq * nd + scratch + 1024


# What is captured reads its inputs and writes its results again on every replay.
def dense(q, d):
    return rowmax.maxsim(q, d)


def with_index(q, d):
    return rowmax.maxsim(q, d, return_index=True)


def best(q, d):
    return rowmax.topk(q, d, 5)


def explained(q, d):
    return rowmax.explain(q, d)


@pytest.mark.parametrize("call", [dense, with_index, best, explained], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(1, 32, 50, 180), (3, 200, 20, 130), (1, 600, 30, 77), (1, 8, 2, 5000)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_a_graph_replays_on_new_data(shape, call, dtype):
    nq, lq, nd, ld = shape
    q, d = tokens(nq, lq, 128, dtype=dtype), tokens(nd, ld, 128, seed=1, dtype=dtype)
    call(q, d)  # the first use of a device loads the kernels
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call(q, d)
    for seed in (2, 3):
        q.copy_(tokens(nq, lq, 128, seed=seed, dtype=dtype))
        d.copy_(tokens(nd, ld, 128, seed=seed + 10, dtype=dtype))
        graph.replay()
        wanted = call(q.clone(), d.clone())
        for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (results, wanted)), strict=True):
            assert torch.equal(one, other)


def test_a_graph_of_packed_tokens_replays_on_new_lengths():
    q, (d, offsets) = tokens(40, 128), ragged(60, 90)
    cu_q = torch.tensor([0, 10, 40], device="cuda")
    rowmax.maxsim_varlen(q, d, cu_q, offsets, max_seqlen_q=40, max_seqlen_d=90)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = rowmax.maxsim_varlen(q, d, cu_q, offsets, max_seqlen_q=40, max_seqlen_d=90)
    cu_q.copy_(torch.tensor([0, 33, 40]))
    offsets[1:-1] -= offsets[1:-1] // 9  # other borders, and still ascending
    graph.replay()
    assert torch.equal(scores, rowmax.maxsim_varlen(q, d, cu_q.clone(), offsets.clone()))


COMPILED = {
    "aot_eager": {"backend": "aot_eager"},
    "dynamic": {"backend": "aot_eager", "dynamic": True},
    "inductor": {},
    "cudagraphs": {"mode": "reduce-overhead"},
}


@pytest.mark.parametrize("how", COMPILED)
def test_compiled(how):
    def pipeline(q, d, offsets):
        scores, index = rowmax.maxsim(q * 2, d, return_index=True)
        best, where = rowmax.topk(q, d, 3, normalize=True)
        return scores.exp2() * 1e-9, index, best, where, rowmax.maxsim_varlen(q[0], d[0], [0, 9], offsets)

    with torch.no_grad():
        compiled = torch.compile(pipeline, fullgraph=True, **COMPILED[how])
        for seed in range(4 if how == "cudagraphs" else 2):
            inputs = tokens(2, 9, 128, seed=seed), tokens(5, 30, 128, seed=seed + 5), torch.tensor([0, 7, 30]).cuda()
            found = [t.clone() for t in compiled(*inputs)]
            wanted = pipeline(*inputs)
            torch.testing.assert_close(found[0], wanted[0])  # inductor's exp2 is another
            for one, other in zip(found[1:], wanted[1:], strict=True):
                assert torch.equal(one, other)


def test_operators_pass_opcheck():
    from rowmax import _torch_ops

    q, d = tokens(3, 4, 64), tokens(2, 5, 64, seed=1)
    arguments = (q, d, "cross", *_torch_ops._arguments({"d_mask": torch.ones(2, 5, device="cuda")}))
    for want_index in (True, False):
        torch.library.opcheck(torch.ops.rowmax.score.default, (*arguments, want_index, False))
    torch.library.opcheck(torch.ops.rowmax.topk.default, (*arguments, 2, 0))


def test_autocast():
    q, d = tokens(3, 4, 64, dtype=torch.float32), tokens(2, 5, 64, seed=1, dtype=torch.float32)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        scores = rowmax.maxsim(q, d)
    assert scores.dtype is torch.float32
    assert torch.equal(scores, rowmax.maxsim(q.bfloat16(), d.bfloat16()))


LIES = {
    "descending": ([0, 9, 5, 30], "cu_seqlens_d decreases at 2: 5 after 9"),
    "beyond": ([0, 9, 15, 31], "cu_seqlens_d ends at 31, but D holds 30 tokens"),
    "from one": ([1, 9, 15, 30], r"cu_seqlens_d\[0\] must be 0, got 1"),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_validate_finds_offsets_that_lie(lie, dtype):
    offsets, message = LIES[lie]
    q, d = tokens(8, 128), tokens(30, 128, seed=1)
    cu_q, cu_d = torch.tensor([0, 8], device="cuda"), torch.tensor(offsets, device="cuda", dtype=dtype)
    assert rowmax.maxsim_varlen(q, d, cu_q, cu_d).shape == (1, 3)  # clamped, and not looked at
    with pytest.raises(ValueError, match=message):
        rowmax.maxsim_varlen(q, d, cu_q, cu_d, validate=True)


def test_queries_longer_than_announced_have_no_scores():
    q, (d, cu_d) = tokens(43, 128), ragged(50, 90)
    cu_q = torch.tensor([0, 8, 40, 43], device="cuda")
    wanted, index = rowmax.maxsim_varlen(q, d, cu_q, cu_d, return_index=True)
    for most in (31, 9, 8):
        scores, tokens_found = rowmax.maxsim_varlen(q, d, cu_q, cu_d, max_seqlen_q=most, return_index=True)
        assert scores[1].isnan().all() and torch.equal(scores[::2], wanted[::2])
        assert torch.equal(tokens_found, index[..., :most])
    for most in (0, 1, 10**6):
        assert torch.equal(rowmax.maxsim_varlen(q, d, cu_q, cu_d, max_seqlen_q=32, max_seqlen_d=most), wanted)
    with pytest.raises(ValueError, match="max_seqlen_q is 31, but cu_seqlens_q holds an item of 32 tokens"):
        rowmax.maxsim_varlen(q, d, cu_q, cu_d, max_seqlen_q=31, validate=True)


def test_validate_finds_other_lies():
    q, d = tokens(8, 128), tokens(30, 128, seed=1)
    cu_q, cu_d = torch.tensor([0, 8], device="cuda"), torch.tensor([0, 9, 15, 30], device="cuda")
    true, lie = torch.tensor([0, 0], device="cuda"), torch.tensor([2, 3], device="cuda")
    assert rowmax.score_pairs_packed(q, d, cu_q, cu_d, true, lie).shape == (2,)
    with pytest.raises(ValueError, match=r"pair_d\[1\] is 3, but there are 3 documents in D"):
        rowmax.score_pairs_packed(q, d, cu_q, cu_d, true, lie, validate=True)
    starts, lengths = torch.tensor([0, 20], device="cuda"), torch.tensor([30, 11], device="cuda")
    assert rowmax.score_ranges(q, d, starts, lengths).shape == (2,)
    with pytest.raises(ValueError, match=r"offsets\[1\] = 20 and lengths\[1\] = 11 leave the storage of 30 tokens"):
        rowmax.score_ranges(q, d, starts, lengths, validate=True)
    with pytest.raises(ValueError, match="max_seqlen_d is 7, but cu_seqlens_d holds an item of 15 tokens"):
        rowmax.maxsim_varlen(q, d, cu_q, cu_d, max_seqlen_d=7, validate=True)


def test_validate_takes_the_truth():
    q, (d, offsets) = tokens(40, 128), ragged(60, 90)
    cu_q = torch.tensor([0, 10, 40], device="cuda")
    scores, index = rowmax.maxsim_varlen(q, d, cu_q, offsets, return_index=True, validate=True)
    assert index.shape == (2, 60, 30)  # the longest query, which only reading the offsets tells
    found, longer = rowmax.maxsim_varlen(q, d, cu_q, offsets, return_index=True)
    assert torch.equal(found, scores)
    assert torch.equal(longer[..., :30], index) and (longer[..., 30:] == -1).all()


def test_validate_is_an_error_during_capture():
    q, (d, offsets) = tokens(40, 128), ragged(60, 90)
    cu_q = torch.tensor([0, 40], device="cuda")
    wanted = rowmax.maxsim_varlen(q, d, cu_q, offsets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(RuntimeError, match="validate.*captured"):
            rowmax.maxsim_varlen(q, d, cu_q, offsets, validate=True)
        scores = rowmax.maxsim_varlen(q, d, cu_q, offsets)  # the capture goes on
    graph.replay()
    assert torch.equal(scores, wanted)


def test_errors():
    q, d = tokens(2, 3, 64), tokens(4, 5, 64, seed=1)
    with pytest.raises(TypeError, match="Q is on CUDA device 0 but D is on the CPU"):
        rowmax.maxsim(q, d.cpu())
    with pytest.raises(TypeError, match="Q is on the CPU but D is on CUDA device 0"):
        rowmax.maxsim(q.cpu(), d)
    with pytest.raises(TypeError, match="Q is on CUDA device 0 but d_mask is on the CPU"):
        rowmax.maxsim(q, d, d_mask=torch.ones(4, 5))
    with pytest.raises(TypeError, match="Q is float16 but D is float32"):
        rowmax.maxsim(q, d.float())
    with pytest.raises(ValueError, match="embedding dimension: 64 and 32"):
        rowmax.maxsim(q, d[..., :32])
    with pytest.raises(NotImplementedError, match="float64"):
        rowmax.maxsim(q.double(), d.double())
    with pytest.raises(NotImplementedError, match="memory of a CUDA device"):
        rowmax.maxsim(q, d, kernel="cpu")
    with pytest.raises(NotImplementedError, match="memory of the CPU"):
        rowmax.maxsim(q.cpu(), d.cpu(), kernel="cuda")
    assert rowmax.maxsim(q, d).isfinite().all()  # nothing was left behind


def test_torch_without_the_exchange_api():
    """Before torch 2.10, tensors were read through __dlpack__, and the stream and scratch memory came from Python."""
    code = (
        "import torch; del torch.Tensor.__dlpack_c_exchange_api__\n"
        "import rowmax; from rowmax import _torch; assert not _torch._native_tensors\n"
        "q, d = torch.ones(1, 600, 64).cuda(), torch.ones(5, 64, 6).cuda().mT\n"
        "with torch.cuda.stream(torch.cuda.Stream()):\n"
        "    scores, index = rowmax.maxsim(q, d, return_index=True)\n"
        "torch.cuda.synchronize()\n"
        "print(scores.tolist(), index.sum().item(), rowmax.topk(q, d, 2)[1].tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == f"[{[38400.0] * 5}] 0 [[0, 1]]", result.stdout + result.stderr


TWO = pytest.mark.skipif("torch.cuda.device_count() < 2", reason="there is one CUDA device")


@TWO
def test_a_device_that_is_not_current():
    q, d = tokens(2, 600, 128), tokens(9, 60, 128, seed=1)
    wanted = rowmax.maxsim(q, d, return_index=True)
    assert torch.cuda.current_device() == 0
    found = rowmax.maxsim(q.to("cuda:1"), d.to("cuda:1"), return_index=True)
    assert torch.cuda.current_device() == 0
    for one, other in zip(found, wanted, strict=True):
        assert one.device == torch.device("cuda", 1) and torch.equal(one.cpu(), other.cpu())
    with torch.cuda.device(1):
        assert torch.equal(rowmax.maxsim(q, d), wanted[0])
        assert rowmax.topk(q, d, 2)[0].device == q.device
    with pytest.raises(TypeError, match="Q is on CUDA device 0 but D is on CUDA device 1"):
        rowmax.maxsim(q, d.to("cuda:1"))


@TWO
def test_a_stream_of_the_other_device():
    q, d = tokens(1, 600, 128).to("cuda:1"), tokens(200, 300, 128, seed=1).to("cuda:1")
    wanted = rowmax.maxsim(q, d)
    torch.cuda.synchronize(1)
    late, stream = torch.zeros_like(d), torch.cuda.Stream(1)
    with torch.cuda.stream(stream):  # also makes device 1 current
        torch.cuda._sleep(50_000_000)
        late.copy_(d)
        torch.cuda.set_device(0)  # the stream stays device 1's current one
        found = rowmax.maxsim(q, late)
    stream.synchronize()
    assert torch.equal(found, wanted)
