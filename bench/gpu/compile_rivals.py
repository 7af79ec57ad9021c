#!/usr/bin/env python3
"""Compiles what the implementations in Triton need for the cases of forward.py or training.py, side by side.

They compile every configuration of a kernel when they first try it, one after the other, which takes half a minute for some
shapes and is no part of what is measured. What these processes leave in Triton's cache, the process that measures finds there.

    compile_rivals.py            the cases of forward.py, run once each
    compile_rivals.py training   the shapes of training.py: each configuration a task, kernels are compiled and not launched
"""

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator

TYPES = ("float16", "bfloat16", "float32")
IMPLEMENTATIONS = ("fm", "lik")

# Tasks share out the configurations that a kernel is tuned over: so many tasks, about one configuration each.
PARTS = 16
# Longer queries are cut into chunks of so many tokens.
CHUNKS = {"lik": 128}


def compile_case(task: tuple[str, str, str]) -> None:
    import torch

    from cases import CASES, make
    from implementations import IMPLEMENTATIONS as KNOWN

    impl, name, dtype = task
    case = next(case for case in CASES if case.name == name)
    with torch.inference_mode():
        KNOWN[impl](make(case, getattr(torch, dtype)))()
    torch.cuda.synchronize()


def forward_tasks(dtypes: list[str]) -> list[tuple[str, str, str]]:
    from cases import CASES

    # Long queries take longest.
    wanted = sorted(itertools.product(IMPLEMENTATIONS, CASES, dtypes), key=lambda one: -one[1].lq)
    return [(impl, case.name, dtype) for impl, case, dtype in wanted]


def launch_nothing(part: int | None) -> None:
    """From here on Triton's kernels are compiled instead of launched: of tuned ones every PARTS-th configuration from number
    `part` on (None: none), the others when `part` is 0 or None."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import KernelInterface

    everything = getattr(Autotuner, "all_configurations", Autotuner.prune_configs)
    Autotuner.all_configurations = everything
    Autotuner.prune_configs = lambda self, given: [] if part is None else everything(self, given)[part::PARTS]

    def compiled(self: object, grid: object) -> Callable:
        if part and not isinstance(self, Autotuner):
            return lambda *args, **kwargs: None
        return lambda *args, **kwargs: self.warmup(*args, grid=grid, **kwargs)

    KernelInterface.__getitem__ = compiled


def compile_step(task: tuple[str, str, str, int | None]) -> None:
    import torch
    from training import IMPLEMENTATIONS as KNOWN
    from training import Inputs, shape_named

    impl, name, dtype, part = task
    launch_nothing(part)
    shape = shape_named(name)
    inputs = Inputs(shape, getattr(torch, dtype))
    inputs.step(KNOWN[impl](shape.own))()


def training_tasks(dtypes: list[str]) -> Iterator[tuple[str, str, str, int | None]]:
    """Kernels are tuned once for all shapes of a query length and layout. Long queries take longest."""
    from training import LADDER, TABLE, TRITON

    tuned = set()
    shapes = [shape for shape in TABLE + LADDER if shape.queries <= 256]
    for dtype, impl, shape in itertools.product(dtypes, TRITON, sorted(shapes, key=lambda shape: -shape.lq)):
        family = impl.split("-")[0]
        length = min(shape.lq, CHUNKS.get(family, shape.lq))
        key = dtype, "fm" if family == "fm" else impl, length, shape.own  # fm's two differ in kernels that are not tuned
        if key in tuned:
            yield impl, shape.name, dtype, None
        else:
            tuned.add(key)
            yield from ((impl, shape.name, dtype, part) for part in range(PARTS))


def attempt(call: Callable, task: tuple) -> str:
    """Empty, or why it failed."""
    import torch

    try:
        call(task)
    except Exception as error:
        return f"{' '.join(map(str, task))}: {type(error).__name__}: {str(error)[:200]}"
    finally:
        torch.cuda.empty_cache()
    return ""


def prepare() -> None:
    from implementations import tune_quickly

    tune_quickly()


def side_by_side(call: Callable, tasks: list[tuple], seconds: float) -> tuple[int, list[str]]:
    """How many tasks ended well within the time, and what was wrong with others."""
    until = time.monotonic() + seconds
    done, failures = 0, []
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), prepare) as pool:  # ends them where it is left
        for result in [pool.apply_async(attempt, (call, task)) for task in tasks]:
            try:
                failure = result.get(max(until - time.monotonic(), 0))
            except multiprocessing.TimeoutError:
                continue
            done += not failure
            failures += [failure] if failure else []
    return done, failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="?", choices=("forward", "training"), default="forward")
    parser.add_argument("--dtype", nargs="*", help="forward: all, training: float16")
    parser.add_argument("--seconds", type=float, default=90, help="stop after so many")
    args = parser.parse_args()
    start = time.monotonic()
    if args.cases == "forward":
        call, tasks = compile_case, forward_tasks(args.dtype or list(TYPES))
    else:
        call, tasks = compile_step, list(training_tasks(args.dtype or ["float16"]))
    done, failures = side_by_side(call, tasks, args.seconds)
    print(*failures[:20], sep="\n", file=sys.stderr)
    print(f"{done} of {len(tasks)} compiled within {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
