#!/usr/bin/env python3
"""Times exact top-k over corpora on the host, streamed to the GPU, beside copies from pinned memory in the same run.

The corpora are files in `--folder` (their pages stay in memory), packed first, which takes longest. Writes one JSON object a
line; results are compared with the search in the GPU's own memory, bit for bit.
"""

import argparse
import datetime
import json
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from timing import spread

import rowmax

DIM = 128
K = 100
# name: (tokens of a document, queries, tokens of a query)
CASES = {
    "stream-text": (300, 1, 32),
    "stream-text-128q": (300, 128, 32),
    "stream-colpali": (1024, 1, 32),
    "stream-colpali-lq1024": (1024, 1, 1024),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm/rowmax-out-of-core"))
    parser.add_argument("--gib", type=float, default=20, help="size of each corpus")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--commit", default="unknown")
    return parser.parse_args()


def pinned_gbps(repeats: int = 20) -> float:
    host = torch.empty(2**28, dtype=torch.uint8).pin_memory()
    device = torch.empty_like(host, device="cuda")
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        device.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return host.numel() / float(np.median(times)) / 1e9


def pack(path: Path, length: int, gib: float) -> None:
    tokens = np.random.default_rng(length).standard_normal((2**20, DIM), dtype=np.float32).astype(np.float16)
    documents = int(gib * 2**30 / (length * DIM * 2))
    starts = (np.arange(documents) * 997) % (len(tokens) - length)
    rowmax.Corpus.pack(path, (tokens[start : start + length] for start in starts))


def warm_up(path: Path) -> None:
    """Loads the kernels."""
    corpus = rowmax.Corpus.pack(path, np.ones((50, 20, DIM), np.float16))
    rowmax.topk(torch.ones(1, 32, DIM, device="cuda").half(), corpus, K)
    path.unlink()


class Peaks:
    """The most memory that was taken while it watched: of the GPU, and anonymous (not mapped from files) of the host."""

    def __enter__(self) -> "Peaks":
        self.gpu = self.host = 0.0
        self._start = self._look()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @staticmethod
    def _look() -> tuple[float, float]:
        free, total = torch.cuda.mem_get_info()
        status = Path("/proc/self/status").read_text()
        anonymous = int(status.split("RssAnon:")[1].split()[0]) / 1024
        return (total - free) / 2**20, anonymous

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            gpu, host = self._look()
            self.gpu, self.host = max(self.gpu, gpu - self._start[0]), max(self.host, host - self._start[1])


def in_memory(query: torch.Tensor, corpus: rowmax.Corpus) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.empty(corpus.tokens.shape, dtype=torch.float16, device="cuda")
    step = 2**22
    for first in range(0, len(tokens), step):
        tokens[first : first + step] = torch.from_numpy(corpus.tokens[first : first + step].copy())
    return rowmax.topk(query, tokens, K, cu_seqlens_d=torch.from_numpy(corpus.offsets.copy()).cuda())


def measure(query: torch.Tensor, corpus: rowmax.Corpus, gbps: float, repeats: int) -> dict:
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        found = rowmax.topk(query, corpus, K)
        times.append(1000 * (time.perf_counter() - begin))
    with Peaks() as peaks:
        rowmax.topk(query, corpus, K)
    truth = in_memory(query, corpus)
    torch.cuda.empty_cache()
    if not all(torch.equal(a, b) for a, b in zip(found, truth, strict=True)):
        raise AssertionError("the stream and the search in memory differ")
    size = corpus.tokens.nbytes
    timing = spread(times[1:])  # the first maps the file's pages
    rate = size / timing["median_ms"] / 1e6
    return timing | {
        "first_ms": round(times[0], 3), "floor_ms": round(size / gbps / 1e6, 3), "corpus_gib": round(size / 2**30, 2),
        "documents_per_s": round(len(corpus) / timing["median_ms"] * 1000), "gbps": round(rate, 2),
        "share": round(rate / gbps, 4), "extra_mib": round(peaks.gpu, 1), "host_mib": round(peaks.host, 1), "error": 0.0,
    }  # fmt: skip


def main() -> None:
    args = arguments()
    run = {"device": torch.cuda.get_device_name(), "commit": args.commit, "date": str(datetime.date.today())}
    args.folder.mkdir(parents=True, exist_ok=True)
    files = {length: args.folder / f"{length}.rmx" for length, _, _ in CASES.values()}
    try:
        with ProcessPoolExecutor() as pool:
            list(pool.map(pack, files.values(), files, [args.gib] * len(files)))
        gbps = pinned_gbps()
        warm_up(args.folder / "warm.rmx")
        lines = [{"case": "ceilings", "torch": torch.__version__, "pinned_gbps": round(gbps, 2), **run}]
        print(json.dumps(lines[0]), flush=True)
        for name, (length, queries, lq) in CASES.items():
            query = torch.randn(queries, lq, DIM, device="cuda").half()
            corpus = rowmax.Corpus.open(files[length])
            line = {"case": name, "impl": "rowmax", "dtype": "float16", **run}
            lines.append(line | measure(query, corpus, gbps, args.repeats))
            print(json.dumps(lines[-1]), flush=True)
            args.output.write_text("".join(json.dumps(line) + "\n" for line in lines))
    finally:
        for file in files.values():
            file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
