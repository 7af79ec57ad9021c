"""Times rowmax and its rivals on one machine: one run, one data set, implementations taking turns.

Every repetition of every implementation is paired with the machine's FMA peak measured just before and after it, because
clocks drift and neighbours steal time. Writes bench/results/<device>-<date>-cpu.jsonl.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import cases
import machine
import results
from implementations import IMPLEMENTATIONS, LIBRARIES, Native
from worker import Failure, Loaded, Turn, serve

# How each library is held to AVX2 (NumKong and rowmax have calls for it).
AVX2_ENVIRONMENT = {
    "OPENBLAS_CORETYPE": "Haswell",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "LIBXSMM_TARGET": "hsw",
}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
OTHER_VARIABLES = ("OPENBLAS_L2_SIZE", "ROWMAX_KERNEL", "ROWMAX_THREADS")
# Cores that OpenBLAS falls back to on a processor newer than itself; none of them uses AVX.
OLD_CORES = ("Prescott", "Core2", "Nehalem", "Penryn", "Dunnington")

# An implementation is timed fewer times when all repetitions would take longer than this.
MOST_MS = 2000


ONE_FORM = ("read", "maxsim-cpu")  # by its own account maxsim-cpu is AVX2


@dataclass
class Contestant:
    name: str
    threads: int
    avx2_only: bool
    process: multiprocessing.Process = None
    connection: object = None
    loaded: Loaded | None = None
    turns: list[Turn] = field(default_factory=list)

    def ask(self, *message):
        try:
            self.connection.send(message)
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise Failure("its process ended") from None
        if isinstance(answer, Failure):
            raise answer
        return answer


def library_environment(avx2_only: bool, threads: int) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if k not in (*AVX2_ENVIRONMENT, *OTHER_VARIABLES)}
    environment.update({name: str(threads) for name in THREAD_VARIABLES})
    if avx2_only:
        environment.update(AVX2_ENVIRONMENT)
    elif openblas_core() in OLD_CORES:
        environment["OPENBLAS_CORETYPE"] = "SkylakeX" if machine.vector_bits() == 512 else "Haswell"
    return environment


def openblas_core() -> str:
    """The kernels that OpenBLAS chooses when nothing is set."""
    code = "import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).bench_openblas_core; f.restype = ctypes.c_char_p; print(f().decode())"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    command = [sys.executable, "-c", code, str(LIBRARIES / "libopenblas_tiles.so")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def start(contestant: Contestant, folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    contestant.connection, theirs = context.Pipe()
    arguments = (theirs, contestant.name, contestant.threads, contestant.avx2_only, folder)
    contestant.process = context.Process(target=serve, args=arguments, daemon=True)
    kept, wanted = dict(os.environ), library_environment(contestant.avx2_only, contestant.threads)
    os.environ.clear()
    os.environ.update(wanted)
    contestant.process.start()
    os.environ.clear()
    os.environ.update(kept)
    theirs.close()


def load(contestant: Contestant, case: cases.Case, dtype: str) -> bool:
    contestant.turns = []
    try:
        contestant.loaded = contestant.ask("load", case, dtype)
        return True
    except Failure as error:
        print(f"  {contestant.name}, {contestant.threads} threads: {error}", file=sys.stderr)
        return False


def race(contestants: list[Contestant], repetitions: int) -> None:
    for repetition in range(repetitions):
        for contestant in contestants:
            if repetition > 1 and sum(turn.ms for turn in contestant.turns) > MOST_MS:
                continue
            contestant.turns.append(contestant.ask("turn"))
            if contestant.threads > 1:
                time.sleep(0.05)  # pools of OpenMP and OpenBLAS go on spinning for a while


def accuracy(scores: np.ndarray, exact: np.ndarray) -> dict:
    best = [set(np.argsort(-x, kind="stable")[:10]) for x in (scores, exact)]
    overlap = len(best[0] & best[1]) / len(best[1])
    return {"error": float(f"{np.abs(scores / exact - 1).max():.2e}"), "top10_overlap": overlap}


def line(c: Contestant, data: cases.Data, read_ms: float, exact: np.ndarray) -> dict:
    case, dtype = data.case, data.dtype
    ms = np.array([t.ms for t in c.turns])
    # Each implementation is held against the vectors that it may use; rowmax against those of the row that ran.
    wide = machine.vector_bits() == 512 and not c.avx2_only
    if c.name == "rowmax":
        wide = "avx512" in c.loaded.kernel or "amx" in c.loaded.kernel
    scale = 0.5 if dtype == "float64" else 1.0
    peak = np.array([t.avx512_gflops if wide else t.avx2_gflops for t in c.turns]) * scale
    rate = case.flop() / ms / 1e6
    result = {
        "case": case.name, "shape": case.shape_text(), "impl": c.name + ("@avx2" if c.avx2_only else ""),
        "kernel": c.loaded.kernel, "dtype": dtype, "threads": c.threads, "repetitions": len(ms),
        **{f"{k}_ms": v for k, v in results.spread(ms).items()},
        "cpu_ms": round(float(np.median([t.cpu_ms for t in c.turns])), 4),
        "floor_ms": round(max(case.flop() / np.median(peak) / 1e6, read_ms), 4),
        "gflops": round(float(np.median(rate)), 2), "peak_gflops": round(float(np.median(peak)), 2),
        "peak_of": "avx512" if wide else "avx2", "extra_mib": round(c.loaded.extra_mib, 2),
        "document_mib": round(data.tokens.nbytes / 2**20, 2),
    }
    if c.loaded.scores is not None:
        result["peak_share"] = results.spread(rate / peak)
        result.update(accuracy(c.loaded.scores, exact))
    return result


def run_case(contestants: list[Contestant], case: cases.Case, dtype: str, args, all_turns: list) -> list[dict]:
    print(f"{case.name} {dtype}", file=sys.stderr)
    cases.write(case, args.data)
    data = cases.load(case, dtype, args.data)
    exact = cases.exact_scores(data)
    present = [c for c in contestants if dtype in IMPLEMENTATIONS[c.name].dtypes and load(c, case, dtype)]
    race(present, args.repetitions)
    all_turns += [(c.threads, turn) for c in present for turn in c.turns]
    read_ms = {c.threads: np.median([t.ms for t in c.turns]) for c in present if c.name == "read"}
    return [line(c, data, read_ms[c.threads], exact) for c in present]


def read_bandwidth(threads: int) -> dict:
    """GB/s of reading 1 GiB, beyond any cache."""
    native = Native()
    block = np.ones(1 << 30, np.uint8)
    rates = []
    for _ in range(7):
        begin = time.perf_counter()
        native.read_once(block, threads)
        rates.append(block.nbytes / (time.perf_counter() - begin) / 1e9)
    return results.spread(rates, 2)


def ceilings(all_turns: list, bandwidth: dict, before: tuple, load_before: float) -> dict:
    def peaks(name: str) -> dict:
        return {str(n): results.spread([getattr(t, name) for m, t in all_turns if m == n], 2)
                for n in sorted({m for m, _ in all_turns})}

    stolen, total = (b - a for a, b in zip(before, machine.stolen_ticks()))
    return {
        "case": "ceilings", "fma_avx2_gflops": peaks("avx2_gflops"), "fma_avx512_gflops": peaks("avx512_gflops"),
        "read_gb_s": bandwidth, "load_before": load_before, "load_after": os.getloadavg()[0],
        "stolen_percent": round(100 * stolen / max(total, 1), 2), "openblas_chooses": openblas_core(),
        "realtime": os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR),
    }


def host_costs() -> list[dict]:
    """What a call costs besides its kernel, from C++ and from Python."""
    lines = []
    for command in ([str(LIBRARIES / "host_cost")], [sys.executable, str(Path(__file__).parent / "python_overhead.py")]):
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines += [json.loads(text) for text in output.splitlines()]
    return lines


def contestants_of(args) -> list[Contestant]:
    narrow = [False, True] if machine.vector_bits() == 512 else [False]
    names = [n for n in IMPLEMENTATIONS if not args.impl or n in args.impl or n == "read"]
    return [Contestant(n, t, a) for n in names for a in narrow for t in args.threads if not (a and n in ONE_FORM)]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=[c.name for c in cases.CASES], help="only these")
    parser.add_argument("--dtype", action="append", help="only these")
    parser.add_argument("--impl", action="append", choices=list(IMPLEMENTATIONS), help="only these")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--data", type=Path, default=Path("build/bench-data"), help="where tokens are kept")
    parser.add_argument("--output", type=Path, help="result file (default: bench/results/<device>-<date>-cpu.jsonl)")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    load_before, ticks = os.getloadavg()[0], machine.stolen_ticks()
    bandwidth = {str(n): read_bandwidth(n) for n in args.threads}
    date = datetime.date.today().isoformat()
    stamp = {"device": machine.device(), "commit": machine.commit(), "date": date}
    path = args.output or results.FOLDER / f"{machine.slug(machine.device())}-{date}-cpu.jsonl"
    lines, all_turns = host_costs(), []
    contestants = contestants_of(args)
    for contestant in contestants:
        start(contestant, args.data)
    for case in cases.CASES:
        for dtype in case.dtypes:
            if (not args.case or case.name in args.case) and (not args.dtype or dtype in args.dtype):
                lines += run_case(contestants, case, dtype, args, all_turns)
                # After each case, so that a run that is cut short leaves what it measured.
                first = ceilings(all_turns, bandwidth, ticks, load_before)
                results.write(path, [{**entry, **stamp} for entry in [first, *lines]])
    print(path)


if __name__ == "__main__":
    main()
