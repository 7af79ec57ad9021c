"""Real text where there is no apt: the manual pages of installed programs."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from debian_text import Package

_SECTION = re.compile(r'^\.S[Hh]\s+"?([^"]*)"?\s*$')
_FONT_LINE = re.compile(r"^\.(?:[BIR]|[BIR]{2}|Nm|Nd|Xr|Fl|Ar|Pa|Ic)\s+(.*)$")
_CHARACTERS = {"-": "-", "e": "\\", " ": " ", "~": " ", "0": " ", "|": "", "^": "", "&": "", "/": "", ",": "", "%": "", ":": "",
               "(em": "-", "(en": "-", "(hy": "-", "(lq": '"', "(rq": '"', "(dq": '"', "(aq": "'", "(oq": "'", "(cq": "'",
               "(rs": "\\"}
_ESCAPE = re.compile(r"""\\(f(?:\[\w*\]|\(..|.)|s[-+]?\d|\*(?:\[[^\]]*\]|\(..|.)|\(..|\[[^\]]*\]|".*|.)""")


def plain(line: str) -> str:
    """A line of roff source without its markup; empty for requests that print nothing."""
    if line.startswith((".", "'")):
        font = _FONT_LINE.match(line)
        line = font.group(1).replace('"', "") if font else ""
    return _ESCAPE.sub(lambda escape: _CHARACTERS.get(escape.group(1), ""), line).strip()


def parse_page(source: str, section: str = "man") -> Package | None:
    """NAME and DESCRIPTION of a page, or None when it has not both (an alias, for instance)."""
    parts: dict[str, list[str]] = {}
    lines = parts.setdefault("", [])
    for line in source.splitlines():
        heading = _SECTION.match(line)
        if heading and parts.get("DESCRIPTION"):
            break
        if heading:
            lines = parts.setdefault(heading.group(1).strip().upper(), [])
        elif text := plain(line):
            lines.append(text)
    name, dash, synopsis = " ".join(parts.get("NAME", [])).partition(" - ")
    text = " ".join(parts.get("DESCRIPTION", []))
    first = re.match(r"[\w.+-]+", name.strip())
    return Package(first.group(), section, synopsis.strip(), text) if first and dash and synopsis and text else None


def pages(root: Path = Path("/usr/share/man")) -> Iterator[tuple[str, Package]]:
    """The English pages on commands; each page's name serves as its source."""
    for section in ("man1", "man6", "man8"):
        for path in sorted((root / section).glob("*")):
            if path.is_symlink():
                continue  # another name of a page
            opener = gzip.open if path.suffix == ".gz" else open
            try:
                with opener(path, "rt", encoding="utf-8", errors="replace") as file:
                    page = parse_page(file.read(), section)
            except OSError:
                continue  # a page that may not be read
            if page is not None:
                yield page.name, page
