"""Batches that are spread over processes, and what each process finds for its part of them."""

import torch
import torch.distributed as dist
from loss_reference import tensors
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint

from rowmax import losses
from rowmax.losses import _processes

TEMPERATURE = 0.7
CASES = (
    "equal", "ragged masks", "packed", "hard negatives", "labels", "unequal batches", "only hidden", "empty rank",
    "all empty but one", "some frozen", "frozen documents", "query masks",
)  # fmt: skip


def part(case, rank, world):
    """The arguments of one rank; deterministic, so that a single process can join all parts."""
    generator = torch.Generator().manual_seed(31 * rank + 1)
    n, length = 3, 5
    if case in ("unequal batches", "labels"):
        n, length = 2 + rank, 5 + rank
    if (case == "empty rank" and rank == world - 1) or (case == "all empty but one" and rank != world - 1):
        n = 0
    documents = n + 2 if case == "labels" else n
    q, d = tensors((n, 4, 6), (documents, length, 6), seed=rank)
    call = {"temperature": TEMPERATURE}
    lengths = torch.randint(0, length + 1, (documents,), generator=generator)
    if case in ("ragged masks", "unequal batches", "labels"):
        call["d_mask"] = torch.arange(length) < lengths[:, None]
    if case == "only hidden" and rank == 0:
        call["d_mask"] = torch.zeros(documents, length, dtype=torch.bool)
    if case == "packed":
        call["cu_seqlens_d"] = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        d = d.detach().reshape(-1, 6)[: int(lengths.sum())].clone().requires_grad_()
    if case == "labels":
        call["labels"] = torch.randint(0, documents, (n,), generator=generator)
    if case == "query masks":
        call["q_mask"] = torch.rand(n, 4, generator=generator) < 0.6
    if case in ("hard negatives", "empty rank"):
        call["negatives"] = tensors((n, 2, 7, 6), seed=rank + 50)[0]
        call["negative_mask"] = torch.rand(n, 2, 7, generator=generator) < 0.7
        call["negative_mask"][..., 0] = True
    d.requires_grad_(case != "frozen documents" and not (case == "some frozen" and rank == 0))
    q.requires_grad_(not (case in ("some frozen", "frozen documents") and rank == 1))
    return q, d, call


def step(q, d, call, **more):
    """The loss and its gradients, which this process may not want: its backward pass runs for the others."""
    loss = losses.distributed_contrastive_loss(q, d, **call, **more)
    loss.backward()
    inputs = [t for t in (q, d, call.get("negatives")) if t is not None]
    grads = [t.grad for t in inputs]
    for t in inputs:
        t.grad = None
    return loss.detach(), grads


def every_case(rank, world):
    """{(case, ring, block): (loss, gradients)}, each twice the same."""
    found = {}
    for case in CASES:
        for ring in (False, True):
            for block in (None, 2):
                first, again = (step(*part(case, rank, world), ring=ring, block=block) for _ in range(2))
                for a, b in zip((first[0], *first[1]), (again[0], *again[1]), strict=True):
                    assert (a is None) == (b is None) and (a is None or torch.equal(a, b)), (case, ring, block)
                found[case, ring, block] = first
    return found


def other_forms(rank, world):
    """Narrow types, groups, gathering by itself, memory."""
    found = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        q, d, call = part("unequal batches", rank, world)
        for ring in (False, True):
            narrow = [t.detach().to(dtype).requires_grad_() for t in (q, d)]
            found[str(dtype), ring] = step(*narrow, call, ring=ring)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = [t.detach().float().requires_grad_() for t in (q, d)]
        found["autocast"] = step(*narrow, call)
    q, d, call = part("ragged masks", rank, world)
    for ring in (False, True):
        again = [t.detach().requires_grad_() for t in (q, d)]

        def loss_of(a, b, ring=ring):
            return losses.distributed_contrastive_loss(a, b, **call, ring=ring)

        checkpoint(loss_of, *again, use_reentrant=False).backward()
        found["checkpoint", ring] = [t.grad for t in again]
    with torch.no_grad():
        found["no grad"] = losses.distributed_contrastive_loss(q, d, **call, ring=True)
    found["none"] = losses.distributed_contrastive_loss(q, d, **call, reduction="none").detach()
    found["sum"] = losses.distributed_contrastive_loss(q, d, **call, reduction="sum").detach()
    everything = losses.gather_documents(d, d_mask=call["d_mask"])
    (everything.tokens * (rank + 1)).sum().backward()
    found["gather"] = everything.tokens.detach(), everything.cu_seqlens, everything.first, d.grad
    found["tokens gathered by the ring"] = gathered_by_the_ring(rank, world)
    group = dist.new_group([0, world - 1])
    if rank in (0, world - 1):
        place = 0 if rank == 0 else 1
        for ring in (False, True):
            found["group", ring] = step(*part("ragged masks", place, 2), group=group, ring=ring)
    else:
        found["group"] = text_of(lambda: losses.gather_documents(d, group=group))
    return found


def gathered_by_the_ring(rank, world):
    """How many documents' tokens were gathered."""
    seen, gather = [], _processes.Peers.gather
    _processes.Peers.gather = lambda peers, mine, rows: seen.append(mine.is_floating_point()) or gather(peers, mine, rows)
    try:
        step(*part("ragged masks", rank, world), ring=True)
        quiet = sum(seen)
        step(*part("ragged masks", rank, world), ring=False)
    finally:
        _processes.Peers.gather = gather
    return quiet, sum(seen)


def trained(rank, world, ids_of, model_of):
    """Gradients of a small encoder under DistributedDataParallel, and with its parameters shared out (FSDP2)."""
    found = {}
    mesh = init_device_mesh("cpu", (world,))
    wrappers = {"DDP": torch.nn.parallel.DistributedDataParallel, "FSDP2": lambda model: fully_shard(model, mesh=mesh)}
    for name, wrap in wrappers.items():
        for ring in (False, True):
            model = wrap(model_of())
            ids = ids_of(rank)
            tokens = model(torch.cat(ids))
            q, d = tokens.split([len(part) for part in ids])
            loss = losses.distributed_contrastive_loss(q, d, ring=ring) * world
            loss.backward()
            grads = [p.grad for p in model.parameters()]
            found[name, ring] = [g.full_tensor() if isinstance(g, DTensor) else g for g in grads]
    return found


def text_of(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def wrong(rank, world):
    """What every rank raises where one of them is called with something that does not fit."""
    q, d, call = part("equal", rank, world)
    own = {
        "labels": lambda: losses.distributed_contrastive_loss(q, d, labels=torch.tensor([0, 1, 3 if rank == 1 else 2])),
        "fewer documents": lambda: losses.distributed_contrastive_loss(q, d[: 3 - rank]),
        "dimension": lambda: losses.distributed_contrastive_loss(q[..., : 6 - rank], d[..., : 6 - rank]),
        "type": lambda: losses.distributed_contrastive_loss(q.float() if rank else q, d.float() if rank else d),
        "mixed types": lambda: losses.distributed_contrastive_loss(q.float() if rank else q, d),
        "ring": lambda: losses.distributed_contrastive_loss(q, d, ring=rank == 1),
        "no tensor": lambda: losses.distributed_contrastive_loss([1] if rank else q, d),
        "block": lambda: losses.distributed_contrastive_loss(q, d, block=1 - rank, ring=True),
        "gather": lambda: losses.gather_documents(d, d_mask=torch.ones(3 if rank else 2, 5)),
    }
    found = {name: text_of(call) for name, call in own.items()}
    with torch.set_grad_enabled(rank != 1):
        found["recording"] = text_of(lambda: losses.distributed_contrastive_loss(q, d))
    return found
