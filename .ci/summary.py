#!/usr/bin/env python3
"""Repeats the test runners' own summaries from the logs of the steps, and adds them up."""

import pathlib
import re
import sys

CTEST = re.compile(r"^\d+% tests passed, (?P<failed>\d+) tests? failed out of (?P<total>\d+)")
PYTEST = re.compile(r"^=*\s*\d+ \w+.* in [\d.]+s\b")
FUZZER = re.compile(r"^fuzzer \w+: (?P<result>passed|failed)")
WITHOUT_TESTS = {"setup", "checks", "cuda"}  # the last where there is no nvcc


def count(line):
    """(passed, failed) of one line, or None when it is no summary."""
    if match := CTEST.match(line):
        failed = int(match["failed"])
        return int(match["total"]) - failed, failed
    if PYTEST.match(line):
        counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", line)}
        return counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0)
    if match := FUZZER.match(line):
        return (1, 0) if match["result"] == "passed" else (0, 1)
    return None


def main():
    passed = failed = 0
    silent = []
    for path in map(pathlib.Path, sys.argv[1:]):
        before = passed + failed
        for line in path.read_text(errors="replace").splitlines():
            if found := count(line):
                print(f"{path.stem}: {line.strip('= ')}")
                passed += found[0]
                failed += found[1]
        if passed + failed == before and path.stem not in WITHOUT_TESTS:
            silent.append(path.stem)
    print(f"{passed} passed, {failed} failed" + "".join(f"; {name} ran no test" for name in silent))
    return 1 if failed or silent else 0


if __name__ == "__main__":
    sys.exit(main())
