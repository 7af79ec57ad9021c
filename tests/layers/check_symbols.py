#!/usr/bin/env python3
"""Files compiled for one instruction set may show one symbol, their table of functions.

Anything else (an inline function of the standard library, say) is a weak symbol that the linker may choose for the
whole program, so that a machine without those instructions would run them.
"""

import re
import subprocess
import sys


def main():
    nm, *objects = sys.argv[1:]
    special = [path for path in objects if "/inst/" in path]
    faults = []
    for path in special:
        listed = subprocess.run([nm, "--defined-only", "--extern-only", "-C", path], capture_output=True, text=True, check=True)
        shown = [line.split(maxsplit=2)[1:] for line in listed.stdout.splitlines() if line.strip()]
        tables = [name for kind, name in shown if kind in "DR" and re.fullmatch(r"rowmax::cpu::\w+_ops", name)]
        if len(tables) != 1 or len(shown) != 1:
            faults.append(f"{path} shows {shown}")
    print("\n".join(faults) or f"{len(special)} objects show one table each")
    return 1 if faults or not special else 0


if __name__ == "__main__":
    sys.exit(main())
