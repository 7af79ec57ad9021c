"""What the demo prints: answers with their matched words, and the table of the evaluation."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matches import Match

_COLOURS = (208, 39, 77, 213, 227, 51, 141, 203)  # of the 256-colour palette, readable on dark and light
_FILLERS = frozenset("a an and any are as at be by can do does for from how i in into is it me my of on or our "
                     "some that the their them this to up use using where which while with you your".split())


@dataclass(frozen=True)
class Answer:
    name: str
    synopsis: str
    text: str
    score: float
    matches: list[Match]


class Screen:
    def __init__(self) -> None:
        self.colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.width = min(shutil.get_terminal_size((100, 24)).columns, 120)

    def bold(self, text: str) -> str:
        return self._style(text, "1")

    def dim(self, text: str) -> str:
        return self._style(text, "2")

    def tint(self, text: str, number: int) -> str:
        return self._style(text, f"1;38;5;{_COLOURS[number % len(_COLOURS)]}")

    def _style(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def answers(self, question: str, answers: Sequence[Answer]) -> None:
        print(f"\n{self.bold('? ' + question)}\n")
        for rank, answer in enumerate(answers, start=1):
            print(f"  {rank}  {self.bold(answer.name)} – {answer.synopsis}  {self.dim(f'{answer.score:.2f}')}")
            shown = telling(question, answer.matches)
            pairs = [f"{self.tint(question[m.query.start : m.query.end], i)} → "
                     f"{self.tint(answer.text[m.document.start : m.document.end], i)} {m.similarity:.2f}"
                     for i, m in enumerate(shown)]
            print("     " + self.dim(" · ").join(pairs))
            for line in self.passage(answer.text, shown):
                print(f"     {line}")
            print()

    def passage(self, text: str, matches: Sequence[Match], lines: int = 2) -> list[str]:
        """The part of a text that holds most of the answer, its answering words tinted (or in [brackets])."""
        width = self.width - 8
        start = best_start(text, matches, lines * width - 20)
        tint_of = {m.document.start: (m.document.end, i) for i, m in reversed(list(enumerate(matches)))}
        wrapped = textwrap.wrap(text[start:].replace("\n", " "), width, max_lines=lines, placeholder=" …",
                                drop_whitespace=False, break_on_hyphens=False)
        shown, at = [], start
        for line in wrapped:
            shown.append(self._mark(line, at, tint_of).strip())
            at += len(line)
        if start and shown:
            shown[0] = "… " + shown[0]
        return shown

    def _mark(self, line: str, at: int, tint_of: dict[int, tuple[int, int]]) -> str:
        out, here = [], 0
        for begin in sorted(tint_of):
            end, number = tint_of[begin]
            if here <= begin - at and end - at <= len(line):
                word = line[begin - at : end - at]
                out += [line[here : begin - at], self.tint(word, number) if self.colour else f"[{word}]"]
                here = end - at
        return "".join(out) + line[here:]

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        for number, row in enumerate([header, *rows]):
            cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            line = "  " + "   ".join(cells)
            print(self.bold(line) if number == 0 else line)


def telling(question: str, matches: Sequence[Match]) -> list[Match]:
    """The matches worth showing: no punctuation, no filler words (they count in the score all the same)."""
    def word(match: Match) -> str:
        return question[match.query.start : match.query.end].lower()

    content = [m for m in matches if re.search(r"\w", word(m)) and word(m) not in _FILLERS]
    return content or list(matches)


def best_start(text: str, matches: Sequence[Match], width: int) -> int:
    """Where to begin a passage of `width` characters so that it holds the most similarity."""
    starts = [0] + [m.end() for m in re.finditer(r"[.!?:;,]\s+|\n", text)]

    def held(start: int) -> float:
        return sum(m.share for m in matches if start <= m.document.start and m.document.end <= start + width)

    return max(starts, key=lambda start: (held(start), -start))
