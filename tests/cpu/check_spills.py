"""Looks at the machine code of the tile kernels: the loops that multiply must not keep accumulators in memory.

usage: check_spills.py OBJDUMP OBJECT...

A block of code between two jumps that holds 32 or more multiply-adds is part of the inner loop; in it no vector
register may be loaded from or stored to the stack. (The sums of finished chains do go to the stack, between those blocks.)
"""

import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <.*(fold|project)_tile.*>:$")
JUMP = re.compile(r"\t(j[a-z]+|ret|call)\b")
MULTIPLY = re.compile(r"\t(vfmadd231p[sd]|vpmaddwd|vpdpbusd|vpopcntd)")
STACK_VECTOR = re.compile(r"\tv\w+\s.*%[yz]mm.*\(%r[sb]p|\tv\w+\s.*\(%r[sb]p[^)]*\).*%[yz]mm")


def blocks(text):
    """Straight-line pieces of the tile functions, as lists of lines."""
    inside, block = False, []
    for line in text.splitlines():
        if line.endswith(">:"):
            inside = bool(FUNCTION.match(line))
        if not inside:
            continue
        block.append(line)
        if JUMP.search(line):
            yield block
            block = []


def main():
    objdump, *objects = sys.argv[1:]
    failed = False
    for path in objects:
        text = subprocess.run([objdump, "-d", "--no-show-raw-insn", "-C", path], capture_output=True, text=True, check=True).stdout
        loops = [b for b in blocks(text) if sum(bool(MULTIPLY.search(line)) for line in b) >= 32]
        if len(loops) < 4:
            sys.exit(f"{path}: only {len(loops)} inner loops found; has the kernel's name or shape changed?")
        for line in (line for loop in loops for line in loop if STACK_VECTOR.search(line)):
            print(f"{path}: {line.strip()}")
            failed = True
        print(f"{path}: {len(loops)} inner loops looked at")
    sys.exit(1 if failed else 0)


main()
