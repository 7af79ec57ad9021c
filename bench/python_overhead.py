"""What a call from Python costs besides the kernel: one query of 32 tokens and one document of 180, through
rowmax.maxsim, less the time of the chosen kernel row on prepared parameters. Prints one JSON line per array kind."""

import json
import time
from collections.abc import Callable

import numpy as np
import torch

import cases
import results
import rowmax
from implementations import Problem, kernel_microseconds

CASE = cases.Case("host-cost", 32, 1, 180, 128)
CALLS, BATCHES = 50, 300


def microseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def measure(kind: str, dtype: str) -> dict:
    data = cases.generate(CASE, dtype)
    query, document = data.query, data.tokens[None]
    if kind == "torch":
        query, document = (torch.from_numpy(x).view(getattr(torch, dtype)) for x in (query, document))
    problem = Problem.of(data, threads=0)
    kernel, cost = [], []
    for _ in range(BATCHES):  # in turns, so that drift of the clock hits both alike
        kernel.append(kernel_microseconds(problem, CALLS))
        cost.append(microseconds(lambda: rowmax.maxsim(query, document)) - kernel[-1])
    ms = {f"{name}_ms": value for name, value in results.spread(np.array(cost) / 1e3, 6).items()}
    return {"case": CASE.name, "impl": f"rowmax Python, {kind}", "dtype": dtype, "threads": 1, **ms,
            "kernel_ms": results.spread(np.array(kernel) / 1e3, 6)["median"]}


if __name__ == "__main__":
    for kind, dtype in (("numpy", "float32"), ("numpy", "float16"), ("torch", "float32"), ("torch", "float16"),
                        ("torch", "bfloat16")):
        print(json.dumps(measure(kind, dtype)))
