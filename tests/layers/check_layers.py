#!/usr/bin/env python3
"""Checks what every source file may include and hold: the rules of docs/architecture.md that text can show."""

import pathlib
import re
import subprocess
import sys

# What the files of a layer may include, besides the headers of the language.
PUBLIC = {"rowmax"}
BELOW_FRONT_ENDS = PUBLIC | {"core", "cpu", "cuda", "io", "stream"}
MAY_INCLUDE = {
    "include/rowmax": PUBLIC,
    "src/core": PUBLIC | {"core"},
    "src/cpu": PUBLIC | {"core", "cpu"},
    "src/cuda": PUBLIC | {"core", "cuda"},
    "src/no_cuda": PUBLIC | {"core"},
    "src/capi": PUBLIC | {"capi"},
    "src/io": PUBLIC | {"core", "io"},
    "src/stream": PUBLIC | {"core", "io", "stream"},
    "cli": BELOW_FRONT_ENDS | {"cli"},
    "python": BELOW_FRONT_ENDS | {"binding"},
}
LAYERS = {"rowmax", "core", "cpu", "cuda", "no_cuda", "capi", "io", "stream", "cli", "binding"}

CPP = {".c", ".cpp", ".h", ".hpp", ".cu", ".cuh"}
LONGEST_FILE = 500
STANDARD_HEADER = re.compile(r"[a-z_]+|(stddef|stdint|string)\.h")
INTRINSICS = re.compile(
    r"\b(asm|__asm__)\b|\b_mm(256|512)?_\w|__builtin_ia32|\b(imm|arm_neon|x86)intrin\.h|arm_neon\.h|\bv(ld1|st1|fma|max)q_"
)
PYTHON_HEADERS = re.compile(r"#\s*include\s*<(torch|ATen|c10|nanobind|pybind11|Python\.h)")
SPEAKS = re.compile(
    r"(?<![\w.:>])(::|std::)?(exit|_exit|quick_exit|abort|terminate|printf|fprintf|vprintf|puts|putchar|perror)\s*\("
    r"|std::(cout|cerr|clog)\b|\bfmt::print\b"
)
STRINGS_AND_COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def includes(text):
    return re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', text, re.MULTILINE)


def code_of(text):
    """The text without comments and literals, line for line."""

    def blank(match):
        return "\n" * match[0].count("\n")

    return STRINGS_AND_COMMENTS.sub(blank, text)


def layer_of(path):
    return next((layer for layer in MAY_INCLUDE if path.startswith(layer + "/")), None)


def check_includes(path, text):
    layer = layer_of(path)
    if layer is None:
        return
    for quote, header in includes(text):
        other = header.split("/")[0]
        if quote == '"' and other in LAYERS and other not in MAY_INCLUDE[layer]:
            yield f"{layer} may not include {header}"
        if quote == "<" and layer == "include/rowmax" and not STANDARD_HEADER.fullmatch(header):
            yield f"public headers include only standard ones, not <{header}>"


def check_contents(path, text):
    code = code_of(text)
    parts = pathlib.PurePosixPath(path).parts
    if "prim" not in parts and (found := INTRINSICS.search(code)):
        yield f"'{found[0]}': assembly and intrinsics belong in prim/"
    if parts[0] != "python" and (found := PYTHON_HEADERS.search(text)):
        yield f"'{found[0]}': Python and torch headers belong under python/"
    if parts[0] == "src" and (found := SPEAKS.search(code)):
        yield f"'{found[0].strip()}': the library never prints, exits or aborts"


def check_file(path, text):
    """Everything wrong with one file, as sentences."""
    lines = text.count("\n")
    if lines > LONGEST_FILE:
        yield f"{lines} lines; at most {LONGEST_FILE}"
    if pathlib.PurePosixPath(path).suffix in CPP:
        yield from check_includes(path, text)
        yield from check_contents(path, text)


def source_files(root):
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    )
    wanted = CPP | {".py", ".cmake", ".sh"}
    for path in sorted(set(listed.stdout.splitlines())):
        file = root / path
        if (file.suffix in wanted or file.name == "CMakeLists.txt") and file.is_file():
            yield path, file.read_text(encoding="utf-8")


def main():
    root = pathlib.Path(sys.argv[1])
    files = list(source_files(root))
    faults = [f"{path}: {fault}" for path, text in files for fault in check_file(path, text)]
    print("\n".join(faults) or f"{len(files)} files keep the rules")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
