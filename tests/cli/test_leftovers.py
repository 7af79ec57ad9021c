"""Commands killed by SIGKILL while their output has a temporary name: the next writer in the folder tidies up after them."""

import os
import shutil
import signal
import subprocess

import numpy as np
import pytest
from command_support import clean_environment

# Loaded before the C library: ends the process in place of its KILL_AT-th rename, where temporary names are at their
# latest, and, where ROWMAX_TEST_NAMED is set, is a file system that knows no nameless files.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

int rename(const char* from, const char* to) {
    static int left = 0;
    if (left == 0) left = getenv("KILL_AT") ? atoi(getenv("KILL_AT")) : -1;
    if (--left == 0) kill(getpid(), SIGKILL);
    return ((int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename"))(from, to);
}

int open(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if ((flags & O_TMPFILE) == O_TMPFILE && getenv("ROWMAX_TEST_NAMED")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return ((int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}

int open64(const char* path, int flags, ...) __attribute__((alias("open")));
"""

COMMANDS = {
    "corpus": "pack d.npy -o out/it",
    "corpus with coarse forms": "pack d.npy --ids d.ids --coarse int8,fp8,bits -o out/it",
    "index": "pack d.npy --index --centroids 4 -o out/it",
    "run": "search q.npy d.npy -o out/it",
    "run and checkpoints": "search q.npy d.npy -o out/it --checkpoint-every 0",
    "hits": "search q.npy d.npy --format npy -o out/it",
    "scores": "score q.npy d.npy -o out/it",
    "pages": "explain q.npy d.npy --html out/it",
    "heat maps": "explain q.npy d.npy --grid 2x2 --png out/it",
    "explanation": "explain q.npy d.npy -o out/it",
    "metrics": "eval qrels run -o out/it",
}


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    built = [compiler, "-shared", "-fPIC", "-O1", folder / "shim.c", "-o", folder / "shim.so", "-ldl"]
    subprocess.run(built, check=True)
    return folder / "shim.so"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    np.save(tmp_path / "q.npy", rng.normal(size=(2, 3, 8)).astype("f4"))
    np.save(tmp_path / "d.npy", rng.normal(size=(3, 4, 8)).astype("f4"))
    (tmp_path / "d.ids").write_text("a\nb\nc\n")
    (tmp_path / "qrels").write_text("x 0 a 1\n")
    (tmp_path / "run").write_text("x Q0 a 1 1 t\n")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def killed(binary, shim):
    """killed(command, at, named) -> whether the command was killed at that rename, rather than done before."""

    def run(command, at, named):
        extra = {"ROWMAX_TEST_NAMED": "1"} if named else {}
        environment = clean_environment(LD_PRELOAD=str(shim), KILL_AT=str(at), ASAN_OPTIONS="verify_asan_link_order=0", **extra)
        done = subprocess.run([binary, *command.split()], env=environment, capture_output=True, text=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode != 0

    return run


def names(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("named", [False, True], ids=["nameless", "named"])
@pytest.mark.parametrize("what", COMMANDS)
def test_the_next_run_removes_what_a_killed_one_left(rowmax, killed, folder, what, named):
    command = COMMANDS[what]
    rowmax(*command.split())
    whole = (folder / "out/it").read_bytes() if (folder / "out/it").is_file() else names(folder / "out/it")
    at = 1
    while True:
        shutil.rmtree(folder / "out")
        (folder / "out").mkdir()
        (folder / "out" / "mine.tmp").write_text("kept")
        if not killed(command, at, named):
            break
        left = names(folder / "out")
        assert [name for name in left if ".rowmax-" in name], left
        assert "it" not in left
        rowmax(*command.split())
        done = folder / "out/it"
        assert names(folder / "out") == ["it", "mine.tmp"]
        assert (done.read_bytes() if done.is_file() else names(done)) == whole
        at *= 2
    assert at > 1


def test_any_writer_in_the_folder_tidies_up(rowmax, killed, folder):
    assert killed(COMMANDS["index"], 3, False)
    assert killed(COMMANDS["corpus with coarse forms"], 1, True)
    assert len(names(folder / "out")) > 2
    rowmax("score", "q.npy", "d.npy", "-o", "out/scores")
    assert names(folder / "out") == ["scores"]


def test_checkpoints_are_kept(rowmax, killed, folder):
    """The second rename is that of a second checkpoint, or of the run: the first one stays, and is gone on from."""
    assert killed(COMMANDS["run and checkpoints"], 2, True)
    assert "it.checkpoint" in names(folder / "out")
    rowmax("pack", "d.npy", "-o", "out/corpus")
    assert names(folder / "out") == ["corpus", "it.checkpoint"]
    assert "continuing from" in rowmax(*COMMANDS["run and checkpoints"].split()).stderr


def test_a_live_one_is_left_alone(binary, rowmax, folder, shim):
    """A writer that is stopped in the middle goes on after another has written in its folder."""
    os.mkfifo(folder / "ids")
    slow = [binary, *"pack d.npy --ids ids --coarse int8 -o out/slow".split()]
    process = subprocess.Popen(slow, env=clean_environment(LD_PRELOAD=str(shim), ROWMAX_TEST_NAMED="1"))
    try:
        rowmax("pack", "d.npy", "--index", "--centroids", "4", "-o", "out/index")
        (folder / "ids").write_text("a\nb\nc\n")
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
    assert names(folder / "out") == ["index", "slow"]
