"""From tokens back to words: which word of a document answered each word of a query."""

from __future__ import annotations

from dataclasses import dataclass

from embeddings import kept_pieces
from minilm import Text


@dataclass(frozen=True)
class Word:
    start: int  # characters of the text
    end: int


@dataclass(frozen=True)
class Match:
    query: Word
    document: Word
    similarity: float  # of the query word's best piece, a cosine
    share: float       # what all its pieces add to the score


def match_words(explanation: dict, query: Text, document: Text) -> list[Match]:
    """One match for each word of the query, in its order; `explanation` is what `rowmax explain --json` says."""
    query_pieces, document_pieces = kept_pieces(query), kept_pieces(document)
    by_word: dict[int, list[dict]] = {}
    for piece, row in zip(query_pieces, explanation["tokens"], strict=True):
        by_word.setdefault(query.word_of[piece], []).append(row)
    matches = []
    for word, rows in by_word.items():
        best = max(rows, key=lambda row: row["similarity"])
        answer = document.word_of[document_pieces[best["winner"]]]
        share = sum(row["similarity"] for row in rows)
        matches.append(Match(_word(query, word), _word(document, answer), best["similarity"], share))
    return matches


def _word(text: Text, number: int | None) -> Word:
    spans = [span for span, word in zip(text.spans, text.word_of, strict=True) if word == number]
    return Word(spans[0][0], spans[-1][1])
