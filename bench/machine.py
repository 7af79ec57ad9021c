"""What this machine is, and what else it is doing."""

import os
import re
import subprocess
from pathlib import Path


def cpu_field(name: str) -> str:
    match = re.search(rf"^{name}\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match.group(1) if match else "unknown"


def device() -> str:
    model = re.sub(r"\((R|TM)\)|CPU|@.*|\d+-Core|Processor", "", cpu_field("model name"))
    family = f"family {cpu_field('cpu family')} model {cpu_field('model')}"
    return f"{' '.join(model.split())}, {family}, {os.cpu_count()} cores"


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def vector_bits() -> int:
    return 512 if "avx512f" in cpu_field("flags").split() else 256


def commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    dirty = git("status", "--porcelain", "-uno", "--", "../src", "../include")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+changes" if dirty else "")


def stolen_ticks() -> tuple[int, int]:
    """Ticks that a neighbour on the host took, and all ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    return ticks[7], sum(ticks)
