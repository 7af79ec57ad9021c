"""One implementation in a process of its own, so that thread pools and environments do not meet. Spawned by cpu_table.py."""

import time
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import cases
from implementations import IMPLEMENTATIONS, Native

PROBE_MS = 2.0
LONG_MS = 1000  # a call this long warms itself


@dataclass
class Loaded:
    kernel: str
    extra_mib: float  # memory held at most while preparing and scoring once, beyond the tokens
    scores: np.ndarray | None
    first_ms: float


@dataclass
class Turn:
    ms: float
    cpu_ms: float  # of all threads
    avx2_gflops: float  # the FMA peak around this very repetition
    avx512_gflops: float


class Failure(Exception):
    """What a rival died of, as text: its own exception may not survive the way between processes."""


def memory_mib(field: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) / 1024


class Worker:
    def __init__(self, name: str, threads: int, avx2_only: bool, folder: Path):
        self.name, self.threads, self.avx2_only, self.folder = name, threads, avx2_only, folder
        self.native = Native()
        import_module(IMPLEMENTATIONS[name].module)  # now, so that its own size is not counted as memory of a call
        self.implementation = None

    def load(self, case: cases.Case, dtype: str) -> Loaded:
        self.implementation = None
        data = cases.load(case, dtype, self.folder)
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
        before = memory_mib("VmRSS")
        self.implementation = IMPLEMENTATIONS[self.name](data, self.threads, self.avx2_only)
        start = time.perf_counter()
        scores = self.implementation.run()
        self.first_ms = (time.perf_counter() - start) * 1e3
        extra = max(0.0, memory_mib("VmHWM") - before)
        return Loaded(self.implementation.kernel(), extra, None if scores is None else np.array(scores), self.first_ms)

    def turn(self) -> Turn:
        if self.first_ms < LONG_MS:
            self.implementation.run()  # its threads, caches and clock are warm then
        wide = self.native.fma_peak(512, self.threads, PROBE_MS)
        before = self.native.fma_peak(256, self.threads, PROBE_MS)
        start, start_cpu = time.perf_counter(), time.process_time()
        self.implementation.run()
        ms, cpu_ms = (time.perf_counter() - start) * 1e3, (time.process_time() - start_cpu) * 1e3
        after = self.native.fma_peak(256, self.threads, PROBE_MS)
        return Turn(ms, cpu_ms, (before + after) / 2, wide)


def serve(connection: Connection, *arguments) -> None:
    """Answers ("load", case, dtype) and ("turn",) until the other end closes; a Failure is an answer, too."""
    worker = Worker(*arguments)
    while True:
        try:
            method, *rest = connection.recv()
        except EOFError:
            return
        try:
            connection.send(getattr(worker, method)(*rest))
        except Exception as error:  # a rival that does not run is a result, whatever it throws
            connection.send(Failure(repr(error)))
