"""Real text: the descriptions of Debian packages, as apt knows them.

`apt-cache dumpavail` names every package, its section and its one-line synopsis. Since Debian 7 the
long text lives in a second index, Translation-en, joined by Description-md5.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Stanza = dict[str, str]


@dataclass(frozen=True)
class Package:
    name: str
    section: str
    synopsis: str  # one line: the known-item query
    text: str      # the long description: the document
    relations: str = ""  # what it depends on, recommends or suggests


def parse_stanzas(lines: Iterable[str]) -> Iterator[Stanza]:
    """Yields the records of a control file. Continuation lines keep their line breaks; lines that
    belong to no field are skipped, and the first of two fields with one name is kept."""
    stanza: Stanza = {}
    field = None
    for line in lines:
        line = line.rstrip("\r\n")
        if not line.strip():
            if stanza:
                yield stanza
            stanza, field = {}, None
        elif line[0] in " \t":
            if field is not None:
                stanza[field] += "\n" + line
        else:
            name, colon, value = line.partition(":")
            field = name if colon and name not in stanza else None
            if field is not None:
                stanza[field] = value.strip()
    if stanza:
        yield stanza


def split_description(value: str) -> tuple[str, str]:
    """Description field -> (synopsis, long text as one line a paragraph)."""
    synopsis, *rest = value.split("\n")
    paragraphs, current = [], []
    for line in rest:
        if line.strip() == ".":
            paragraphs.append(" ".join(current))
            current = []
        else:
            current.append(line.strip())
    paragraphs.append(" ".join(current))
    return synopsis.strip(), "\n".join(p for p in paragraphs if p)


def description_of(stanza: Stanza) -> str:
    return stanza.get("Description-en") or stanza.get("Description") or ""


def long_texts(translations: Iterable[Stanza]) -> dict[str, str]:
    """Description-md5 -> description with its long text."""
    return {s["Description-md5"]: description_of(s) for s in translations if "Description-md5" in s}


def packages(available: Iterable[Stanza], by_md5: dict[str, str]) -> Iterator[tuple[str, Package]]:
    """Joins both indexes; yields (source package, package) where a long text exists."""
    for stanza in available:
        value = by_md5.get(stanza.get("Description-md5", ""), description_of(stanza))
        synopsis, text = split_description(value)
        name = stanza.get("Package", "")
        if name and synopsis and text:
            source = stanza.get("Source", name).split(" ")[0]
            section = stanza.get("Section", "").split("/")[-1]
            relations = ",".join(stanza.get(field, "") for field in ("Depends", "Recommends", "Suggests"))
            yield source, Package(name, section, synopsis, text, relations)


_PROGRAMS_ONLY = {
    "cli-mono", "debug", "devel", "doc", "fonts", "gnu-r", "golang", "haskell", "introspection", "java", "javascript",
    "kernel", "libdevel", "libs", "lisp", "localization", "metapackages", "ocaml", "oldlibs", "perl", "php", "python",
    "ruby", "rust", "tasks",
}  # sections left out: libraries share most of their text with their siblings
_SIBLING = re.compile(r"^lib|-(dev|dbg|dbgsym|doc|docs|data|common|all|prof|i18n|l10n-.*)$")
_EMPTY_PACKAGE = re.compile(r"transitional|dummy package|meta-?package|empty package", re.IGNORECASE)


def is_program(package: Package, min_chars: int = 100) -> bool:
    return (
        package.section not in _PROGRAMS_ONLY
        and not _SIBLING.search(package.name)
        and not _EMPTY_PACKAGE.search(package.synopsis + package.text)
        and len(package.text) >= min_chars
    )


def mentions(candidates: Iterable[tuple[str, Package]]) -> Counter[str]:
    """How many packages name each package in their relations: the best known come out first."""
    names = re.compile(r"(?:^|[,|])\s*([a-z0-9][a-z0-9.+-]+)")
    return Counter(name for _, package in candidates for name in set(names.findall(package.relations)))


def sample(candidates: list[tuple[str, Package]], count: int) -> list[Package]:
    """The `count` programs that other packages mention most, the same on every run: one binary package
    per source (the one named like it, if any), no two with one synopsis or one text."""
    per_source: dict[str, Package] = {}
    for source, package in candidates:
        if is_program(package) and (source not in per_source or package.name == source):
            per_source[source] = package
    known = mentions(candidates)
    shuffled = sorted(per_source.values(), key=lambda p: hashlib.sha256(p.name.encode()).digest())
    seen: set[str] = set()
    chosen = []
    for package in sorted(shuffled, key=lambda p: -known[p.name]):
        keys = {package.synopsis.casefold(), package.text.casefold()}
        if not keys & seen:
            seen |= keys
            chosen.append(package)
    return chosen[:count]


def without_synopsis(package: Package) -> str:
    """The long text without a verbatim copy of the synopsis: a known item must be found by meaning."""
    pattern = r"\s+".join(re.escape(word) for word in package.synopsis.rstrip(".").split())
    text = re.sub(pattern, "", package.text, flags=re.IGNORECASE)
    return re.sub(" {2,}", " ", text).strip(" .,:;\n")
