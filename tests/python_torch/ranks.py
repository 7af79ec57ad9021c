"""Runs a function in several processes that talk over gloo, and never waits for them longer than it says."""

import contextlib
import datetime
import multiprocessing
import time
import traceback
import warnings

import torch
import torch.distributed as dist

LIMIT = 90  # seconds: far more than any of it takes, on a busy machine too


def run(world, function, folder, *arguments):
    """What `function(rank, *arguments)` gives in each rank, or the exception that it raised."""
    context = multiprocessing.get_context("forkserver")  # imports torch once, and forks before it has threads
    context.set_forkserver_preload(["torch", "rowmax.losses"])
    processes = [context.Process(target=_rank, args=(rank, world, function, folder, arguments)) for rank in range(world)]
    for process in processes:
        process.start()
    deadline = time.monotonic() + LIMIT
    for process in processes:
        process.join(max(deadline - time.monotonic(), 0.1))
    hanging = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for rank in hanging:
        processes[rank].kill()
    assert not hanging, f"ranks {hanging} hang"
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(world)]


def _rank(rank, world, function, folder, arguments):
    torch.set_num_threads(1)
    warnings.simplefilter("error", RuntimeWarning)
    limit = datetime.timedelta(seconds=LIMIT / 2)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world, timeout=limit)
    try:
        result = function(rank, *arguments)
    except Exception as error:
        traceback.print_exc()  # shown by pytest if the test fails
        result = error
    torch.save(result, folder / f"{rank}.pt")
    with contextlib.suppress(RuntimeError):  # a rank that failed has left
        dist.barrier()
    dist.destroy_process_group()
