"""`maxsim_from_hidden` beside projecting first, on the CPU: time and memory of the forward pass and of a training step.

    hidden_states.py [--threads 1 2] [--repetitions 9]

Every implementation has a process of its own for each case; they take turns. `project, then rowmax` writes the tokens and
scores them with `rowmax.maxsim`; `torch` scores them by einsum. Memory is what the process held at most beyond the inputs.
"""

import argparse
import datetime
import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import machine
import results


@dataclass(frozen=True)
class Case:
    name: str
    queries: int
    query_length: int
    documents: int
    document_length: int
    hidden: int
    dim: int

    def shape_text(self) -> str:
        return (f"{self.queries} queries of {self.query_length}, {self.documents} documents of {self.document_length} tokens, "
                f"hidden {self.hidden}, d {self.dim}")


CASES = (
    Case("hidden-text", 16, 32, 64, 180, 768, 128),
    Case("hidden-one-query", 1, 32, 256, 180, 768, 128),
    Case("hidden-page", 4, 32, 16, 1024, 1536, 128),
)
DTYPES = ("float32", "bfloat16")


def rowmax_scores(torch, q, h, w, b):
    import rowmax

    return rowmax.maxsim_from_hidden(q, h, w, b)


def projected_scores(torch, q, h, w, b):
    import rowmax

    return rowmax.maxsim(q, torch.nn.functional.normalize(torch.nn.functional.linear(h, w, b), dim=-1))


def torch_scores(torch, q, h, w, b):
    tokens = torch.nn.functional.normalize(torch.nn.functional.linear(h, w, b), dim=-1)
    return torch.einsum("qsd,ntd->qnst", q, tokens).amax(-1).float().sum(-1)


IMPLEMENTATIONS = {"rowmax": rowmax_scores, "project, then rowmax": projected_scores, "torch": torch_scores}


def memory_mib(field: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) / 1024


class Worker:
    def __init__(self, impl: str, case: Case, dtype: str, threads: int, train: bool):
        import torch

        os.environ["ROWMAX_THREADS"] = str(threads)
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.torch, self.train, self.function = torch, train, IMPLEMENTATIONS[impl]
        kind = getattr(torch, dtype)
        q = torch.nn.functional.normalize(torch.randn(case.queries, case.query_length, case.dim), dim=-1)
        h = torch.randn(case.documents, case.document_length, case.hidden)
        w = torch.randn(case.dim, case.hidden) / case.hidden**0.5
        self.inputs = [t.to(kind).requires_grad_(train) for t in (q, h, w, torch.zeros(case.dim))]
        small = [self.inputs[0], self.inputs[1][:1], *self.inputs[2:]]
        self.step(small)

    def step(self, inputs):
        scores = self.function(self.torch, *inputs)
        if self.train:
            (scores.float() * 1e-3).sum().backward()
            for t in self.inputs:
                t.grad = None
        return scores

    def turn(self) -> float:
        start = time.perf_counter()
        self.step(self.inputs)
        return 1e3 * (time.perf_counter() - start)

    def memory(self) -> float:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
        before = memory_mib("VmRSS")
        self.turn()
        return max(0.0, memory_mib("VmHWM") - before)


def serve(connection, *arguments) -> None:
    worker = Worker(*arguments)
    while True:
        method = connection.recv()
        if method is None:
            return
        connection.send(getattr(worker, method)())


def race(case: Case, dtype: str, threads: int, train: bool, repetitions: int) -> list[dict]:
    context = multiprocessing.get_context("spawn")
    ends = {}
    for impl in IMPLEMENTATIONS:
        here, there = context.Pipe()
        process = context.Process(target=serve, args=(there, impl, case, dtype, threads, train), daemon=True)
        process.start()
        ends[impl] = here

    def ask(impl: str, method: str) -> float:
        ends[impl].send(method)
        return ends[impl].recv()

    extra = {impl: ask(impl, "memory") for impl in ends}
    times: dict[str, list[float]] = {impl: [] for impl in ends}
    for _ in range(repetitions):
        for impl in ends:
            times[impl].append(ask(impl, "turn"))
    for end in ends.values():
        end.send(None)
    return [
        {"case": case.name, "shape": case.shape_text(), "impl": impl, "dtype": dtype, "threads": threads,
         "pass": "step" if train else "forward", "repetitions": repetitions,
         **{f"{k}_ms": v for k, v in results.spread(np.array(ms)).items()}, "extra_mib": round(extra[impl], 1)}
        for impl, ms in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--output", type=Path, help="result file (default: bench/results/<device>-<date>-hidden.jsonl)")
    args = parser.parse_args()
    date, load_before = datetime.date.today().isoformat(), os.getloadavg()[0]
    lines = []
    for case in CASES:
        for dtype in DTYPES:
            for threads in args.threads:
                for train in (False, True):
                    lines += race(case, dtype, threads, train, args.repetitions)
                    print(case.name, dtype, threads, train, [(x["impl"], x["median_ms"], x["extra_mib"]) for x in lines[-3:]])
    stamp = {"device": machine.device(), "commit": machine.commit(), "date": date}
    first = {"case": "ceilings", "load_before": load_before, "load_after": os.getloadavg()[0]}
    path = args.output or results.FOLDER / f"{machine.slug(machine.device())}-{date}-hidden.jsonl"
    results.write(path, [{**entry, **stamp} for entry in [first, *lines]])
    print(path)


if __name__ == "__main__":
    main()
