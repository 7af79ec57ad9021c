"""Does a training run go another way with rowmax? A small encoder on the demo's texts, the same seed, two ways to its loss.

    PYTHONPATH=examples/demo training_drift.py [--steps 500] [--batch 32] [--folder demo-data] [--threads 1]

Synopses of Debian packages are queries, their long texts the documents, all others of the batch are negatives. Loss and
gradients come from `rowmax.losses.contrastive_loss`, or from torch's einsum, maximum and cross entropy; a third way adds
torch's products in another order, which shows what rounding alone does. Three questions:

    at the same weights   every step's loss and gradients of tokens, from the tokens of torch's float32 run
    in float64            two runs whose rounding is a billionth of float32's
    in float32            runs of each way, beside torch's float64 run; each but the third twice

Steps of the runs take turns, so that their times compare. On a CUDA device where there is one, else on the CPU.
"""

import argparse
import datetime
import os
import re
import time
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import machine
import results
from debian_text import without_synopsis
from rowmax.losses import contrastive_loss
from texts import load_texts

VOCABULARY = 8192
TEMPERATURE = 0.5
Batch = tuple[Tensor, Tensor, Tensor, Tensor]  # words of queries and documents, and which count


class Encoder(torch.nn.Module):
    """Words to unit tokens: embeddings, two transformer layers, a projection."""

    def __init__(self, width: int = 96, tokens: int = 64):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, width)
        self.places = torch.nn.Embedding(128, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, tokens)

    def forward(self, words: Tensor, kept: Tensor) -> Tensor:
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        return torch.nn.functional.normalize(self.head(self.layers(x, src_key_padding_mask=~kept)), dim=-1)


def rowmax_loss(q: Tensor, d: Tensor, q_mask: Tensor, d_mask: Tensor) -> Tensor:
    return contrastive_loss(q, d, q_mask=q_mask, d_mask=d_mask, temperature=TEMPERATURE)


def finished(similarity: Tensor, q_mask: Tensor, d_mask: Tensor) -> Tensor:
    """The loss of similarities [Nq, Nd, Lq, Ld]."""
    best = similarity.masked_fill(~d_mask[None, :, None], -torch.inf).amax(-1)
    scores = (best * q_mask[:, None]).sum(-1) / TEMPERATURE
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


def einsum_loss(q: Tensor, d: Tensor, q_mask: Tensor, d_mask: Tensor) -> Tensor:
    return finished(torch.einsum("qsd,ntd->qnst", q, d), q_mask, d_mask)


def halves_loss(q: Tensor, d: Tensor, q_mask: Tensor, d_mask: Tensor) -> Tensor:
    """The same sums, each from its two halves."""
    half = q.shape[-1] // 2
    parts = (torch.einsum("qsd,ntd->qnst", q[..., part], d[..., part]) for part in (slice(half), slice(half, None)))
    return finished(sum(parts), q_mask, d_mask)


WAYS = {"rowmax": rowmax_loss, "torch": einsum_loss, "torch, sums of halves": halves_loss}
REFERENCE = "torch", torch.float64
TWICE = "rowmax", "torch"


class Run:
    """A model that is trained in one of the ways."""

    def __init__(self, way: str, dtype: torch.dtype, device: torch.device):
        torch.manual_seed(0)
        self.encoder = Encoder().to(device, dtype)  # the same weights in both types
        self.optimiser = torch.optim.AdamW(self.encoder.parameters(), 1e-3)
        self.way, self.dtype, self.device = way, dtype, device
        self.losses: list[float] = []
        self.step_ms: list[float] = []
        self.scoring_ms: list[float] = []

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return 1e3 * time.perf_counter()

    def step(self, batch: Batch) -> list[Tensor]:
        """The tokens that were scored."""
        queries, documents, q_mask, d_mask = batch
        start = self.now()
        encoded = self.encoder(queries, q_mask), self.encoder(documents, d_mask)
        tokens = [t.detach().requires_grad_() for t in encoded]
        before = self.now()
        loss = WAYS[self.way](*tokens, q_mask, d_mask)
        loss.backward()
        after = self.now()
        torch.autograd.backward(encoded, [t.grad for t in tokens])
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.step_ms.append(self.now() - start)
        self.scoring_ms.append(after - before)
        self.losses.append(loss.item())
        return tokens

    def ends_as(self, other: "Run") -> bool:
        weights = zip(self.encoder.parameters(), other.encoder.parameters(), strict=True)
        return self.losses == other.losses and all(torch.equal(a, b) for a, b in weights)


class SameWeights:
    """What each way finds for the same tokens: how far loss and gradients are from torch's in float64, and the loss from
    torch's in float32."""

    def __init__(self) -> None:
        self.losses: dict[str, list[float]] = {way: [] for way in WAYS}
        self.from_torch: dict[str, list[float]] = {way: [] for way in WAYS}
        self.gradients: dict[str, list[float]] = {way: [] for way in WAYS}

    @staticmethod
    def evaluated(way: str, tokens: list[Tensor], masks: tuple[Tensor, Tensor]) -> tuple[float, Tensor]:
        leaves = [t.detach().requires_grad_() for t in tokens]
        loss = WAYS[way](*leaves, *masks)
        return loss.item(), torch.cat([g.flatten() for g in torch.autograd.grad(loss, leaves)]).double()

    def add(self, tokens: list[Tensor], masks: tuple[Tensor, Tensor]) -> None:
        exact, slope = self.evaluated("torch", [t.double() for t in tokens], masks)
        found = {way: self.evaluated(way, tokens, masks) for way in WAYS}
        for way, (loss, gradient) in found.items():
            self.losses[way].append(abs(loss - exact) / exact)
            self.from_torch[way].append(abs(loss - found["torch"][0]) / exact)
            self.gradients[way].append(float((gradient - slope).norm() / slope.norm()))

    def of(self, way: str) -> dict:
        return {
            "loss_error_largest": max(self.losses[way]), "loss_from_torch_largest": max(self.from_torch[way]),
            "gradient_error_median": float(np.median(self.gradients[way])), "gradient_error_largest": max(self.gradients[way]),
        }


def words_of(text: str, most: int) -> list[int]:
    return [1 + zlib.crc32(word.encode()) % (VOCABULARY - 1) for word in re.findall(r"[a-z0-9]+", text.lower())[:most]]


def padded(rows: list[list[int]], length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    words = torch.tensor([row + [0] * (length - len(row)) for row in rows], device=device)
    return words, words != 0


def batches(texts: list, steps: int, size: int, device: torch.device):
    order = np.random.default_rng(0)
    for _ in range(steps):
        chosen = [texts[i] for i in order.choice(len(texts), size, replace=False)]
        queries, q_mask = padded([words_of(p.synopsis, 16) for p in chosen], 16, device)
        documents, d_mask = padded([words_of(without_synopsis(p), 64) for p in chosen], 64, device)
        yield queries, documents, q_mask, d_mask


def distance(losses: list[float], wanted: list[float], name: str, every: bool) -> dict:
    drift = np.abs(np.array(losses) - wanted) / wanted
    found = {f"{name}_median": float(np.median(drift)), f"{name}_largest": float(drift.max()), f"{name}_last": float(drift[-1])}
    return found | ({name: [float(f"{x:.2e}") for x in drift]} if every else {})


def line(run: Run, runs: dict[tuple, Run], again: Run | None, same: SameWeights) -> dict:
    scoring, step = np.array(run.scoring_ms), np.array(run.step_ms)
    single = run.dtype is torch.float32
    return {
        "case": "drift", "impl": run.way, "dtype": str(run.dtype).removeprefix("torch."), "steps": len(run.losses),
        **{f"{k}_ms": v for k, v in results.spread(scoring).items()}, "step_ms": results.spread(step),
        "scoring_share": results.spread(scoring / step), "first_loss": run.losses[0], "last_loss": run.losses[-1],
        **({} if again is None else {"rerun_same_bits": run.ends_as(again)}),
        **(same.of(run.way) if single else {}),
        **distance(run.losses, runs["torch", run.dtype].losses, "from_torch", False),
        **distance(run.losses, runs[REFERENCE].losses, "drift", True),
        "losses": [round(x, 7) for x in run.losses],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("demo-data"))
    parser.add_argument("--commit", help="what the measured build was made from (default: the checkout's)")
    parser.add_argument("--output", type=Path, help="result file (default: bench/results/<device>-<date>-drift.jsonl)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    os.environ["ROWMAX_THREADS"] = str(args.threads)
    torch.use_deterministic_algorithms(True)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else machine.device()
    args.folder.mkdir(parents=True, exist_ok=True)
    source, texts = load_texts(args.folder)
    texts = [p for p in texts if words_of(p.synopsis, 1) and words_of(without_synopsis(p), 1)]
    load_before = os.getloadavg()[0]
    kinds = [*((way, torch.float32) for way in WAYS), *((way, torch.float64) for way in TWICE)]
    runs = {kind: Run(*kind, device) for kind in kinds}
    again = {(way, torch.float32): Run(way, torch.float32, device) for way in TWICE}
    same = SameWeights()
    for batch in batches(texts, args.steps, args.batch, device):
        for run in [*runs.values(), *again.values()]:
            tokens = run.step(batch)
            if run is runs["torch", torch.float32]:
                same.add(tokens, batch[2:])
    first = {"case": "ceilings", "load_before": load_before, "load_after": os.getloadavg()[0], "threads": args.threads,
             "source": source, "texts": len(texts), "batch": args.batch, "torch": torch.__version__}
    lines = [first, *(line(run, runs, again.get(kind), same) for kind, run in runs.items())]
    date = datetime.date.today().isoformat()
    stamp = {"device": name, "commit": args.commit or machine.commit(), "date": date}
    path = args.output or results.FOLDER / f"{machine.slug(name)}-{date}-drift.jsonl"
    results.write(path, [{**entry, **stamp} for entry in lines])
    print(path)


if __name__ == "__main__":
    main()
