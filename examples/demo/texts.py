"""Where the demo's texts come from: apt's indexes, or else manual pages. Read once, then kept as JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from debian_text import Package, long_texts, packages, parse_stanzas, sample
from man_text import pages

_TRANSLATIONS = "Created-By: Translations"
_ALL = 1_000_000


def load_texts(folder: Path) -> tuple[str, list[Package]]:
    """What the texts are, and all candidates, best known first. Delete texts.json to read them afresh."""
    store = folder / "texts.json"
    if store.exists():
        saved = json.loads(store.read_text())
        return saved["source"], [Package(**fields) for fields in saved["texts"]]
    source, found = _read_texts(folder)
    chosen = [replace(package, relations="") for package in sample(list(found), _ALL)]
    temporary = store.with_suffix(f".{os.getpid()}.part")
    temporary.write_text(json.dumps({"source": source, "texts": [asdict(p) for p in chosen]}))
    temporary.replace(store)
    return source, chosen


def _read_texts(folder: Path) -> tuple[str, Iterator[tuple[str, Package]]]:
    if shutil.which("apt-cache") is None:
        return "manual pages", pages()
    apt = Apt([])
    if not apt.translation_files():
        apt = Apt.private(folder / "apt")
    return "Debian packages", apt.packages()


class Apt:
    """apt's indexes, read with apt's own tools."""

    def __init__(self, options: list[str]) -> None:
        self._options = options

    @classmethod
    def private(cls, folder: Path) -> Apt:
        """Slim images are set up without the long descriptions; fetches them (and the package index that
        goes with them) into `folder`, which needs no root and leaves the system's lists alone."""
        lists, cache = folder / "lists", folder / "cache"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        (cache / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        settings = {"Dir::State::Lists": lists, "Dir::Cache": cache, "Acquire::Languages": "en"}
        apt = cls([word for key, value in settings.items() for word in ("-o", f"{key}={value}")])
        if not apt.translation_files():
            apt._run("apt-get", "-q", "-o", "APT::Update::Post-Invoke-Success::=", "update")
        return apt

    def translation_files(self) -> list[str]:
        names = self._run("apt-get", "indextargets", "--format", "$(LANGUAGE) $(FILENAME)", _TRANSLATIONS)
        files = [line.partition(" ")[2] for line in names.splitlines() if line.startswith("en")]
        return [file for file in files if Path(file).exists()]

    def packages(self) -> Iterator[tuple[str, Package]]:
        translated: dict[str, str] = {}
        for file in self.translation_files():
            translated |= long_texts(parse_stanzas(self._run("/usr/lib/apt/apt-helper", "cat-file", file).splitlines()))
        return packages(parse_stanzas(self._run("apt-cache", "dumpavail").splitlines()), translated)

    def _run(self, program: str, *arguments: str) -> str:
        command = [program, *self._options, *arguments]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
        return done.stdout
