"""Losses over two processes with a GPU each, over NCCL."""

import datetime

import pytest

import rowmax

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.skipif("torch.cuda.device_count() < 2", reason="there are fewer than two CUDA devices")

WORLD, LIMIT = 2, 120  # seconds


def part(rank):
    """The tokens and mask of one rank, on the CPU."""
    generator = torch.Generator().manual_seed(rank)
    n = 5 + rank
    q, d = torch.randn(n, 32, 128, generator=generator), torch.randn(n, 90 + rank, 128, generator=generator)
    keep = torch.arange(90 + rank) < torch.randint(1, 91, (n, 1), generator=generator)
    return q, d, keep


def step(rank, ring, block, dtype):
    from rowmax import losses

    q, d, keep = (t.to(f"cuda:{rank}") for t in part(rank))
    q, d = (t.to(dtype).requires_grad_() for t in (q, d))
    loss = losses.distributed_contrastive_loss(q, d, d_mask=keep, temperature=10.0, ring=ring, block=block)
    loss.backward()
    return [t.detach().cpu() for t in (loss, q.grad, d.grad)]


CASES = [(ring, block, dtype) for ring in (False, True) for block in (None, 3) for dtype in (torch.float32, torch.float16)]


def rank_main(rank, folder):
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    limit = datetime.timedelta(seconds=LIMIT / 2)
    dist.init_process_group("nccl", init_method=f"file://{folder}/meeting", rank=rank, world_size=WORLD, timeout=limit)
    found = {}
    for case in CASES:
        found[case] = step(rank, *case)
        again = step(rank, *case)
        assert all(torch.equal(a, b) for a, b in zip(found[case], again, strict=True)), case
    torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def joined(dtype):
    """What a process with the whole batch finds: loss, and gradients of all parts."""
    parts = [part(rank) for rank in range(WORLD)]
    leaves = [[t.to("cuda", dtype).requires_grad_() for t in p[:2]] for p in parts]
    lengths = [p[2].sum(1) for p in parts]
    tokens = torch.cat([d[keep.cuda()] for (_, d), (_, _, keep) in zip(leaves, parts, strict=True)])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cat(lengths).cumsum(0)]).cuda()
    queries = torch.cat([q for q, _ in leaves]).flatten(0, 1)
    starts = torch.arange(0, len(queries) + 1, 32, device="cuda")
    scores = rowmax.maxsim_varlen(queries, tokens, starts, offsets, max_seqlen_q=32) / 10.0
    loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(scores), device="cuda"))
    grads = torch.autograd.grad(loss, [t for pair in leaves for t in pair])
    return loss.detach().cpu(), [g.cpu() for g in grads]


def test_two_processes_find_what_one_does(tmp_path):
    context = torch.multiprocessing.spawn(rank_main, (str(tmp_path),), nprocs=WORLD, join=False)
    assert context.join(timeout=LIMIT, grace_period=5) or context.join(timeout=5), "the processes hang"
    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]
    for case in CASES:
        loss, grads = joined(case[-1])
        torch.testing.assert_close(sum(f[case][0] for f in found), loss, rtol=1e-5, atol=1e-6)
        mine = [grad for f in found for grad in f[case][1:]]
        for a, b in zip(mine, grads, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-2, atol=4 * torch.finfo(case[-1]).eps * float(b.abs().max()))
