"""Times the compressed forms on the CPU, beside floats and NumKong, on one data set: one query of 32 tokens.

    compressed_speed.py [--documents 1000] [--repetitions 15]

Implementations take turns in every repetition. Writes bench/results/<device>-<date>-compressed-speed.jsonl.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cases
import machine
import results
import rowmax
from implementations import NumKong

LENGTH, DIM, QUERY = 300, 128, 32
Scorer = Callable[[], object]


def forms(data: cases.Data, threads: int) -> dict[str, tuple[float, Scorer]]:
    """name -> (bytes a token, one call). What a corpus is prepared with once is not timed; what a query needs is."""
    q, flat, n = data.query, data.tokens, data.case.documents
    d = flat.reshape(n, LENGTH, DIM)
    half, q_half = d.astype(np.float16), q.astype(np.float16)
    int8, fp8, bits = rowmax.quantize_int8(d), rowmax.quantize_fp8(d), rowmax.sign_bits(d)
    rng = np.random.default_rng(5)
    centroids = cases.unit_vectors(8192, DIM, 6).astype(np.float16)
    codes = rng.integers(0, len(centroids), (n, LENGTH)).astype(np.int32)

    def residual(nbits: int) -> Scorer:
        packed = rng.integers(0, 256, (n, LENGTH, DIM * nbits // 8)).astype(np.uint8)
        weights = np.linspace(-0.1, 0.1, 2**nbits, dtype=np.float32)
        tables = {"centroids": centroids, "bucket_weights": weights, "nbits": nbits, "threads": threads}
        return lambda: rowmax.maxsim_residual(q, codes, packed, None, **tables)

    return {
        "float32": (4 * DIM, lambda: rowmax.maxsim(q, d, threads=threads)),
        "float16": (2 * DIM, lambda: rowmax.maxsim(q_half, half, threads=threads)),
        "int8": (DIM + 4, lambda: rowmax.maxsim_int8(*rowmax.quantize_int8(q), *int8, threads=threads)),
        "float8": (DIM + 4, lambda: rowmax.maxsim_fp8(*rowmax.quantize_fp8(q), *fp8, threads=threads)),
        **{f"residual, {b} bit{'s' * (b > 1)}": (DIM * b / 8 + 4, residual(b)) for b in (4, 2, 1)},
        "one bit, float queries": (DIM / 8, lambda: rowmax.maxsim_bits(q, bits, threads=threads)),
        "one bit on both sides": (DIM / 8, lambda: rowmax.maxsim_hamming(rowmax.sign_bits(q), bits, threads=threads)),
        "topk, float32": (4 * DIM, lambda: rowmax.topk(q, d, 10, threads=threads)),
        "two stages, int8 and 50 of float32": (
            5 * DIM + 4, lambda: rowmax.topk_two_stage(q, (d, int8), 10, candidates=50, threads=threads)
        ),
        "two stages, one bit and 100 of float32": (
            4.125 * DIM, lambda: rowmax.topk_two_stage(q, (d, bits), 10, candidates=100, threads=threads)
        ),
    }  # fmt: skip


def rivals(data: cases.Data, threads: int) -> dict[str, tuple[float, Scorer]]:
    made = {}
    for dtype, size in (("float32", 4), ("float16", 2), ("bfloat16", 2)):
        cast = cases.Data(data.case, dtype, cases.cast(data.query, dtype), cases.cast(data.tokens, dtype), data.cu_seqlens)
        try:
            made[f"numkong, {dtype}"] = (size * DIM, NumKong(cast, threads, False).run)
        except ImportError:
            print("numkong is not installed: its rows are left out")
            break
    return made


def plaid(data: cases.Data, threads: int, folder: Path) -> dict[str, tuple[float, Scorer]]:
    folder.mkdir()
    index = rowmax.PlaidIndex.pack(folder / "plaid", (data.tokens, data.cu_seqlens), nbits=4, iterations=2)
    return {
        f"plaid_search, 4 bits, {nprobe} probes, {candidates} exact": (
            DIM / 2 + 8,
            lambda nprobe=nprobe, candidates=candidates: rowmax.plaid_search(
                data.query, index, 10, nprobe=nprobe, candidates=candidates, threads=threads
            ),
        )
        for nprobe, candidates in ((1, 100), (4, 100))
    }


def race(contestants: dict[str, tuple[float, Scorer]], repetitions: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repetitions):
        for name, (_, run) in contestants.items():
            run()  # its threads and caches are warm then
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) * 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--repetitions", type=int, default=15)
    args = parser.parse_args()
    data = cases.generate(cases.Case("compressed", QUERY, args.documents, LENGTH, DIM), "float32")
    date = time.strftime("%Y-%m-%d")
    stamp = {"device": machine.device(), "commit": machine.commit(), "date": date}
    stolen, all_ticks = machine.stolen_ticks()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for threads in (1, 2):
            contestants = forms(data, threads) | plaid(data, threads, Path(folder) / str(threads)) | rivals(data, threads)
            for name, times in race(contestants, args.repetitions).items():
                ms = {f"{key}_ms": value for key, value in results.spread(times).items()}
                lines.append({"case": "compressed-speed", "impl": name, "threads": threads, "bytes": contestants[name][0],
                              "documents": args.documents, **ms, **stamp})  # fmt: skip
                print(lines[-1])
    after, all_after = machine.stolen_ticks()
    first = {"case": "ceilings", "stolen": round((after - stolen) / max(all_after - all_ticks, 1), 4), **stamp}
    results.write(results.FOLDER / f"{machine.slug(machine.device())}-{date}-compressed-speed.jsonl", [first, *lines])


if __name__ == "__main__":
    main()
