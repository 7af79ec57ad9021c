#!/usr/bin/env python3
"""Installs rowmax into a fresh prefix and builds, by find_package and by pkg-config, programs that use it."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess

CONSUMER = pathlib.Path(__file__).parent / "consumer"


def run(*command, **options):
    """Runs a command and returns what it printed; a failure shows everything."""
    done = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def install(args, prefix):
    build = args.build
    run(
        "cmake", "-S", args.source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
        f"-DBUILD_SHARED_LIBS={'ON' if args.kind == 'shared' else 'OFF'}",
        f"-DROWMAX_BUILD_CLI={'ON' if args.kind == 'shared' else 'OFF'}",
        f"-DROWMAX_WERROR={'ON' if args.werror else 'OFF'}",
        f"-DCMAKE_C_COMPILER={args.cc}", f"-DCMAKE_CXX_COMPILER={args.cxx}",
        f"-DCMAKE_CXX_COMPILER_LAUNCHER={args.launcher}",
    )
    run("cmake", "--build", build)
    # Nothing of an earlier install may help.
    shutil.rmtree(prefix, ignore_errors=True)
    run("cmake", "--install", build, "--prefix", prefix)
    return re.search(r"CMAKE_PROJECT_VERSION:STATIC=(\S+)", (build / "CMakeCache.txt").read_text())[1]


def check_output(program, version, environment=None):
    printed = run(program, env=environment)
    assert printed == f"{version} 5\n", f"{program} printed {printed!r}"


def check_find_package(args, prefix, version):
    build = args.work / "consumer"
    shutil.rmtree(build, ignore_errors=True)
    run(
        "cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_COMPILER={args.cc}", f"-DCMAKE_CXX_COMPILER={args.cxx}",
    )
    run("cmake", "--build", build)
    check_output(build / "consumer_c", version)
    check_output(build / "consumer_cpp", version)


def check_pkg_config(args, prefix, version):
    libraries = next(prefix.rglob("rowmax.pc")).parent
    environment = os.environ | {"PKG_CONFIG_PATH": str(libraries), "LD_LIBRARY_PATH": str(libraries.parent)}
    assert run("pkg-config", "--modversion", "rowmax", env=environment).strip() == version
    static = ["--static"] if args.kind == "static" else []
    flags = run("pkg-config", "--cflags", "--libs", *static, "rowmax", env=environment).split()
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    for compiler, standard, source in ((args.cc, "c11", "consumer.c"), (args.cxx, "c++20", "consumer.cpp")):
        program = args.work / f"pkg_config_{source.replace('.', '_')}"
        run(compiler, f"-std={standard}", *warnings, CONSUMER / source, *flags, "-o", program)
        check_output(program, version, environment)


def check_exports(prefix):
    """A shared library shows the C names and namespace rowmax, and nothing of the standard library."""
    library = next(prefix.rglob("librowmax.so"))
    names = run("nm", "-D", "--defined-only", "--demangle", library).splitlines()
    shown = [line.split(maxsplit=2)[2] for line in names]
    allowed = re.compile(r"rowmax_\w+$|rowmax::(?!core|cpu|capi|cuda|detail)|(typeinfo|typeinfo name|vtable) for rowmax::")
    stray = [name for name in shown if not allowed.match(name)]
    assert not stray, f"{library} shows: {stray}"
    assert any(name.startswith("rowmax::score(") for name in shown) and "rowmax_score" in shown


def check_command(prefix, version):
    printed = run(prefix / "bin" / "rowmax", "--version")
    assert version in printed, f"rowmax --version printed {printed!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["shared", "static"])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder for the library's build")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for what is installed and made with it")
    parser.add_argument("--werror", action="store_true", help="warnings are errors")
    parser.add_argument("--launcher", default="")
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cxx", required=True)
    args = parser.parse_args()
    prefix = args.work / "prefix"
    version = install(args, prefix)
    check_find_package(args, prefix, version)
    check_pkg_config(args, prefix, version)
    if args.kind == "shared":
        check_exports(prefix)
        check_command(prefix, version)


if __name__ == "__main__":
    main()
