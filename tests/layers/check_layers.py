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

CPP = {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".inc", ".inl", ".cu", ".cuh"}
LONGEST_FILE = 500
STANDARD_HEADER = re.compile(r"[a-z_]+|(stddef|stdint|string)\.h")
INTRINSIC_HEADER = re.compile(r"\w*intrin\.h|arm_\w+\.h")
INTRINSICS = re.compile(r"\b(asm|__asm|__asm__)\b|\b_mm(256|512)?_\w|\b__m(128|256|512)\w?\b|__builtin_ia32|\bv(ld1|st1|fma|max)q_")
PYTHON_HEADER = re.compile(r"(torch|ATen|c10|nanobind|pybind11)/|Python\.h")
SPEAKS = re.compile(
    r"(?<![\w.:>])(::|std::)?(exit|_exit|_Exit|quick_exit|abort|terminate|assert|raise|system|perror"
    r"|v?f?printf|f?puts|f?putc|putchar|syslog)\s*\("
    r"|std::(cout|cerr|clog)\b|\bfmt::print(ln)?\b|\bSTDERR_FILENO\b|\b__builtin_trap\b"
)
FUNCTION_MACRO = re.compile(r"^\s*#\s*define\s+\w+\(", re.MULTILINE)
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
    parts = pathlib.PurePosixPath(path).parts
    if layer is None and parts[0] in ("include", "src"):
        yield "a layer that tests/layers does not know: say there what it may include"
    for quote, header in includes(text):
        folders = pathlib.PurePosixPath(header).parts
        if ".." in folders or "." in header.split("/"):
            yield f"{header}: headers are named from the root of their layer"
        if layer is not None and folders[0] in LAYERS - MAY_INCLUDE[layer]:
            yield f"{layer} may not include {header}"
        if quote == "<" and layer == "include/rowmax" and not STANDARD_HEADER.fullmatch(header):
            yield f"public headers include only standard ones, not <{header}>"
        if "prim" not in parts and INTRINSIC_HEADER.fullmatch(header):
            yield f"{header}: intrinsics belong in prim/"
        if parts[0] != "python" and PYTHON_HEADER.match(header):
            yield f"{header}: Python and torch headers belong under python/"


def check_contents(path, text):
    code = code_of(text)
    parts = pathlib.PurePosixPath(path).parts
    if "prim" not in parts and (found := INTRINSICS.search(code)):
        yield f"'{found[0]}': assembly and intrinsics belong in prim/"
    if parts[0] == "src" and (found := SPEAKS.search(code)):
        yield f"'{found[0].strip()}': the library never prints, exits or aborts"
    if parts[0] != "tests" and (found := FUNCTION_MACRO.search(code)):
        yield f"'{found[0].strip()}': templates and functions instead of macros"


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
