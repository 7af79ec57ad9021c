"""Late interaction on real text: reads Debian's package descriptions, embeds them token by token, packs, searches
and explains them with rowmax, and measures known-item search against mean pooling of the same model."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: texts run in parallel, each on one thread

import argparse
import json
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from debian_text import Package, without_synopsis
from embeddings import Embeddings, Stored, embed, embed_stored, kept_pieces, key_of
from known_item import known_items, write_qrels
from matches import match_words
from minilm import MODEL, MiniLM, Text
from rowmax_command import Rowmax, read_run, write_tokens
from show import Answer, Screen
from texts import load_texts

QUESTIONS = (
    "edit photos and remove red eyes",
    "watch which process is using my network bandwidth",
    "convert scanned pages to searchable text",
    "keep the same files on two computers",
    "a game where you build a city",
)
MEASURES = {"recip_rank": "MRR", "ndcg_cut_10": "nDCG@10", "success_1": "first", "success_10": "in top 10"}  # trec_eval's names
ANSWERS = 3


@dataclass
class Corpus:
    source: str
    packages: list[Package]
    texts: list[str]
    key: str
    tokens: Path
    means: Path
    token_count: int

    def position(self, name: str) -> int:
        return next(i for i, package in enumerate(self.packages) if package.name == name)


class Demo:
    def __init__(self, options: argparse.Namespace) -> None:
        self.folder: Path = options.folder
        self.count: int = options.packages
        self.threads: int = options.threads
        self.rowmax = Rowmax(options.rowmax)
        self.screen = Screen()
        self.seconds: dict[str, float] = {}
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.stage("model"):
            self.model = MiniLM()

    @contextmanager
    def stage(self, name: str):
        """Times a stage and says on stderr that it is done."""
        note: list[str] = []
        start = time.perf_counter()
        yield note
        self.seconds[name] = round(time.perf_counter() - start, 2)
        print(f"{name:>10}  {self.seconds[name]:6.1f} s  {' '.join(note)}", file=sys.stderr)

    def corpus(self) -> Corpus:
        with self.stage("texts") as note:
            source, candidates = load_texts(self.folder)
            packages = candidates[: self.count]
            texts = [without_synopsis(p) for p in packages]
            note.append(f"{len(packages)} of {len(candidates)} {source}")
        with self.stage("embed") as note:
            stored = embed_stored(self.model, texts, self.folder / "cache", self.threads, "documents")
            note.append(f"{stored.token_count()} tokens, {stored.computed} of them computed now")
        with self.stage("pack") as note:
            corpus = self._pack(source, packages, texts, stored)
            note.append(f"{corpus.tokens}, {corpus.tokens.stat().st_size / 2**20:.0f} MiB")
        return corpus

    def _pack(self, source: str, packages: list[Package], texts: list[str], stored: Stored) -> Corpus:
        names = [package.name for package in packages]
        key = key_of(stored.key, names)
        tokens, means = self.folder / f"tokens-{key}.rmx", self.folder / f"means-{key}.rmx"
        if not (tokens.exists() and means.exists()):
            self._remove_corpora()
            found = stored.load()
            self.rowmax.pack(found.tokens, found.lengths, names, tokens)
            self.rowmax.pack(*single_vectors(found), names, means)
        return Corpus(source, packages, texts, key, tokens, means, stored.token_count())

    def _remove_corpora(self) -> None:
        for path in self.folder.glob("*.rmx"):
            path.unlink()

    def ask(self, corpus: Corpus, questions: tuple[str, ...]) -> None:
        queries, run = self.folder / "questions.npz", self.folder / "questions.trec"
        with self.stage("ask") as note:
            texts = self.model.tokenize(questions)
            found = embed(self.model, texts, self.threads)
            write_tokens(queries, found.tokens, found.lengths, [f"question{i}" for i in range(len(questions))])
            self.rowmax.search(queries, corpus.tokens, ANSWERS, run)
            hits = read_run(run)
            note.append(f"{len(questions)} questions against {corpus.token_count} tokens")
        for number, question in enumerate(questions):
            answers = []
            for hit in hits[f"question{number}"]:
                place = corpus.position(hit.document)
                explanation = self.rowmax.explain(queries, corpus.tokens, f"question{number}", hit.document)
                document = self.model.tokenize([corpus.texts[place]])[0]
                matches = match_words(explanation, texts[number], document)
                answers.append(Answer(hit.document, corpus.packages[place].synopsis, corpus.texts[place], hit.score, matches))
            self.screen.answers(question, answers)
        self._draw(corpus, queries, texts[0], hits["question0"][0].document)

    def _draw(self, corpus: Corpus, queries: Path, question: Text, name: str) -> None:
        """The heat map of the first answer to the first question."""
        document = self.model.tokenize([corpus.texts[corpus.position(name)]])[0]
        for label, text in (("query", question), ("doc", document)):
            pieces = [text.pieces[i] for i in kept_pieces(text)]
            (self.folder / f"explain-{label}.json").write_text(json.dumps(pieces))
        self.rowmax.draw(queries, corpus.tokens, "question0", name,
                         "--query-tokens", self.folder / "explain-query.json", "--doc-tokens", self.folder / "explain-doc.json",
                         "--html", self.folder / "explain.html", "--png", self.folder / "explain.png")

    def evaluate(self, corpus: Corpus, count: int) -> dict:
        items = known_items(corpus.packages, count)
        names = [item.name for item in items]
        write_qrels(self.folder / "known-items.qrels", items)
        synopses = [item.synopsis for item in items]
        with self.stage("queries"):
            found = embed_stored(self.model, synopses, self.folder / "cache", self.threads, "queries").load()
        return {
            "MaxSim": self._measure("maxsim", found.tokens, found.lengths, names, corpus.tokens),
            "mean pooling": self._measure("means", *single_vectors(found), names, corpus.means),
        }

    def _measure(self, label: str, tokens: np.ndarray, lengths: np.ndarray, names: list[str], corpus: Path) -> dict:
        queries, run = self.folder / f"known-items-{label}.npz", self.folder / f"known-items-{label}.trec"
        write_tokens(queries, tokens, lengths, names)
        with self.stage(label) as note:
            self.rowmax.search(queries, corpus, 100, run)
            note.append(f"{len(names)} known-item queries")
        return self.rowmax.evaluate(self.folder / "known-items.qrels", run, list(MEASURES))

    def report(self, corpus: Corpus, measured: dict) -> dict:
        maxsim, means = measured["MaxSim"], measured["mean pooling"]
        pairs = [(maxsim[query]["recip_rank"], means[query]["recip_rank"]) for query in maxsim if query != "mean"]
        return {
            "source": corpus.source, "documents": len(corpus.packages), "document_tokens": corpus.token_count,
            "queries": len(pairs), "model": MODEL, "max_tokens": self.model.max_tokens, "run_depth": 100,
            "measures": {method: values["mean"] for method, values in measured.items()},
            "maxsim_better": sum(a > b for a, b in pairs), "equal": sum(a == b for a, b in pairs),
            "mean_pooling_better": sum(a < b for a, b in pairs),
            "corpus_key": corpus.key, "rowmax": self.rowmax.version(),
            "seconds": self.seconds, "date": time.strftime("%Y-%m-%d"),
        }

    def print_report(self, report: dict) -> None:
        print(self.screen.bold("\nKnown-item search: the one-line synopsis of a package must find its long description"))
        print(f"({report['queries']} queries, {report['documents']} documents, both methods on the same {MODEL})\n")
        rows = [[method, *(f"{values[m]:.3f}" for m in MEASURES)] for method, values in report["measures"].items()]
        self.screen.table(["", *MEASURES.values()], rows)
        print(f"\n  MaxSim ranks the right one higher for {report['maxsim_better']} queries, mean pooling for "
              f"{report['mean_pooling_better']}; {report['equal']} are equal.")


def single_vectors(found: Embeddings) -> tuple[np.ndarray, np.ndarray]:
    """Mean pooling as late interaction: every text is one token, and MaxSim is its dot product."""
    return found.means.astype(np.float16), np.ones(len(found.means), np.int64)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ask", metavar="QUESTION", action="append", help="answer this and skip the evaluation; may be repeated")
    parser.add_argument("--packages", type=int, default=3000, help="texts to index (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=1000, help="known-item queries (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, default=Path("demo-data"))
    parser.add_argument("--rowmax", default="build/demo/cli/rowmax", help="the rowmax command (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    start = time.perf_counter()
    options = parse_arguments()
    demo = Demo(options)
    corpus = demo.corpus()
    demo.ask(corpus, tuple(options.ask or QUESTIONS))
    written = ["explain.png", "explain.html"]
    if not options.ask:
        report = demo.report(corpus, demo.evaluate(corpus, options.queries))
        demo.print_report(report)
        (demo.folder / "results.json").write_text(json.dumps(report, indent=2) + "\n")
        written.append("results.json")
    print("\nWritten: " + ", ".join(str(demo.folder / name) for name in written))
    print(f"{'total':>10}  {time.perf_counter() - start:6.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
