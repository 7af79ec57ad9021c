"""Where the time of a call on the CPU goes, without hardware counters: the same work with one cause of waiting taken away
at a time. Writes bench/results/<device>-<date>-where-time-goes.jsonl.

    memory     text-1k as it is: every document row comes from memory and is used by one panel of 32 query tokens
    cache      the same with one document a thousand times over: rows come from the first caches
    reuse      1024 query tokens, so that a row that has been fetched (and widened) is used 32 times

and two threads over one, where calls follow one another and where each comes after a pause of 20 ms, in which the
second thread and its core have gone to sleep (`repeated`, `paused`: text-1k).

Shares are of the multiply-add peak of the same vectors, measured just before and after each call. float32 adds up in
chains of 8, float16 in chains of 32 and widens rows first: what tells them apart at `reuse` is the chains, at `cache` it is
chains and widening.
"""

import argparse
import datetime
import time

import numpy as np

import cases
import machine
import results
import rowmax
from implementations import Native

PROBE_MS = 5.0


def calls(dtype: str, kernel: str) -> dict:
    text, long = (cases.generate(next(c for c in cases.CASES if c.name == name), dtype) for name in ("text-1k", "colpali-32"))

    def score(data: cases.Data, offsets: np.ndarray):
        lengths = np.diff(data.cu_seqlens)
        return lambda: rowmax.score_ranges(data.query, data.tokens, offsets, lengths, threads=1, kernel=kernel)

    starts = text.cu_seqlens[:-1]
    return {
        "memory": (score(text, starts), text.case.flop()),
        "cache": (score(text, np.zeros_like(starts)), text.case.flop()),
        "reuse": (score(long, long.cu_seqlens[:-1]), long.case.flop()),
    }


def measure(native: Native, bits: int, call, flop: float, repetitions: int) -> dict:
    shares, ms = [], []
    for _ in range(repetitions):
        call()
        before = native.fma_peak(bits, 1, PROBE_MS)
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        peak = (before + native.fma_peak(bits, 1, PROBE_MS)) / 2
        shares.append(flop / seconds / 1e9 / peak)
        ms.append(seconds * 1e3)
    return {f"{k}_ms": v for k, v in results.spread(ms).items()} | {"peak_share": results.spread(shares)}


def two_threads(kernel: str, dtype: str, pause: float, repetitions: int) -> dict:
    data = cases.generate(next(c for c in cases.CASES if c.name == "text-1k"), dtype)
    times = {1: [], 2: []}
    for threads, ms in times.items():
        for repetition in range(repetitions + 3):
            time.sleep(pause)
            start = time.perf_counter()
            rowmax.maxsim_varlen(data.query, data.tokens, [0, len(data.query)], data.cu_seqlens, threads=threads, kernel=kernel)
            if repetition >= 3:
                ms.append((time.perf_counter() - start) * 1e3)
    one, two = (results.spread(ms) for ms in times.values())
    return {f"{k}_ms": v for k, v in two.items()} | {"one_thread_ms": one["median"], "times_faster": one["median"] / two["median"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=31)
    args = parser.parse_args()
    native = Native()
    date = datetime.date.today().isoformat()
    stamp = {"device": machine.device(), "commit": machine.commit(), "date": date}
    lines = []
    peaks = {bits: results.spread([native.fma_peak(bits, 1, 20.0) for _ in range(9)], 2) for bits in (256, machine.vector_bits())}
    for dtype, short in (("float32", "f32"), ("float16", "f16")):
        for name, bits in (("avx2", 256), ("avx512", 512)):
            if bits > machine.vector_bits():
                continue
            kernel = f"cpu.{name}.{short}"
            for case, (call, flop) in calls(dtype, kernel).items():
                measured = measure(native, bits, call, flop, args.repetitions)
                lines.append({"case": case, "impl": "rowmax", "kernel": kernel, "dtype": dtype, "threads": 1, **measured})
            for case, pause in (("repeated", 0.0), ("paused", 0.02)):
                measured = two_threads(kernel, dtype, pause, args.repetitions)
                lines.append({"case": case, "impl": "rowmax", "kernel": kernel, "dtype": dtype, "threads": 2, **measured})
    first = {"case": "ceilings", "fma_gflops": {str(bits): peak for bits, peak in peaks.items()}}
    path = results.FOLDER / f"{machine.slug(machine.device())}-{date}-where-time-goes.jsonl"
    results.write(path, [{**line, **stamp} for line in [first, *lines]])
    print(path)


if __name__ == "__main__":
    main()
