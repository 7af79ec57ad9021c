"""Timing by CUDA events, eagerly and under graph replay; the ceilings of the machine."""

import statistics
from collections.abc import Callable

import torch


def spread(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=10, method="inclusive")
    return {"median_ms": round(cuts[4], 5), "p10_ms": round(cuts[0], 5), "p90_ms": round(cuts[8], 5)}


def eager(call: Callable[[], object], repeats: int = 25, warm: int = 3) -> dict[str, float]:
    """One call between two events: what the host needs counts too."""
    for _ in range(warm):
        call()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return spread(times)


def replayed(call: Callable[[], object], calls: int, repeats: int = 25, warm: int = 3) -> dict[str, float]:
    """Calls inside a graph, one after the other: device time."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    times = eager(graph.replay, repeats, warm)
    return {name: round(value / calls, 5) for name, value in times.items()}


def replayed_or(
    found: dict[str, float], call: Callable[[], object], calls: int, repeats: int = 25, warm: int = 3
) -> dict:
    """The same where the call can be captured, else what was `found` of it eagerly."""
    try:
        return {"timing": "graph", **replayed(call, calls, repeats, warm)}
    except Exception:
        return {"timing": "eager", **found}


def extra_mib(call: Callable[[], object]) -> float:
    """Memory beyond what was there before the call, results included."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = call()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    del result
    return round((peak - before) / 2**20, 3)


def ceilings(size: int = 8192, rounds: int = 25) -> dict[str, float]:
    found = {}
    types = (("float16", torch.float16), ("bfloat16", torch.bfloat16), ("tf32", torch.float32), ("float32", torch.float32))
    for name, dtype in types:
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
        found[f"{name}_tflops"] = round(2 * size**3 / eager(lambda a=a, b=b: a @ b, rounds)["median_ms"] / 1e9, 1)
    x = torch.randn(2**30, device="cuda", dtype=torch.float16)
    y = torch.empty_like(x)
    found["copy_tbps"] = round(2 * x.numel() * 2 / eager(lambda: y.copy_(x), rounds)["median_ms"] / 1e9, 3)
    z = torch.zeros(1, device="cuda")
    found["add_eager_ms"] = eager(lambda: z.add_(1))["median_ms"]
    found["add_replayed_ms"] = replayed(lambda: z.add_(1), 20)["median_ms"]
    return found
