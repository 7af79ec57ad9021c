"""Searches that are killed, interrupted, or out of disk: nothing half written, and the rerun goes on."""

import os
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from command_support import clean_environment

SLOW = ("--kernel", "cpu.scalar4")  # takes seconds on any machine, with the same results
SLICES = ("--threads", "2", "--memory", "9M", "--checkpoint-every", "0")  # many small steps, each with its checkpoint


@pytest.fixture(scope="module")
def work(tmp_path_factory, binary):
    folder = tmp_path_factory.mktemp("work")
    rng = np.random.default_rng(3)
    np.save(folder / "q.npy", rng.normal(size=(100, 32, 128)).astype("f4"))
    np.save(folder / "d.npy", rng.normal(size=(400, 200, 128)).astype("f4"))
    subprocess.run([binary, "search", folder / "q.npy", folder / "d.npy", "-o", folder / "expected"], check=True)
    return folder


@pytest.fixture
def command(binary, work, tmp_path):
    return [binary, "search", work / "q.npy", work / "d.npy", "-o", tmp_path / "run", *SLICES]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def start(command):
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=clean_environment())


def finish(command, expected):
    """Runs to the end and returns what it said."""
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 0, done.stderr
    out = command[command.index("-o") + 1]
    assert out.read_bytes() == expected.read_bytes()
    assert names(out.parent) == ["run"]
    return done.stderr


def wait_for_checkpoints(process, path, count):
    """True once `count` checkpoints have been written; False when the process ended before."""
    seen = set()
    while process.poll() is None:
        try:
            seen.add(path.stat().st_ino)
        except FileNotFoundError:
            pass
        if len(seen) >= count:
            return True
        time.sleep(0.001)
    return False


def percent(message):
    return float(message.split("(")[1].split(" %")[0])


def test_killed_again_and_again(command, work, tmp_path):
    done = []
    for count in (1, 2, 3, 1, 2):
        process = start(command)
        if not wait_for_checkpoints(process, tmp_path / "run.checkpoint", count + len(done[:1])):
            # A fast machine was done before the kill: what it left must be whole.
            assert process.wait() == 0 and names(tmp_path) == ["run"]
            break
        process.kill()
        said = process.communicate()[1]
        if "continuing" in said:
            done.append(percent(said))
        assert names(tmp_path) == ["run.checkpoint"]
    else:
        assert "continuing from" in finish(command, work / "expected")
    assert done == sorted(done)
    assert (tmp_path / "run").read_bytes() == (work / "expected").read_bytes()


@pytest.mark.parametrize("moment", [0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.8])
def test_killed_at_any_moment(command, work, tmp_path, moment):
    process = start(command)
    time.sleep(moment)
    process.kill()
    process.communicate()
    assert set(names(tmp_path)) <= {"run", "run.checkpoint"}
    finish(command, work / "expected")


def test_one_giant_pair_is_left_within_seconds(binary, tmp_path):
    np.save(tmp_path / "q.npy", np.zeros((1, 60_000, 128), "f4"))
    np.save(tmp_path / "d.npy", np.zeros((1, 120_000, 128), "f4"))
    command = [binary, "search", tmp_path / "q.npy", tmp_path / "d.npy", "--threads", "1", "-o", tmp_path / "run"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    time.sleep(1)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - begin < 6  # the whole takes three times as long on the fastest core
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.npy", "q.npy"]


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(command, work, tmp_path, which):
    process = start(command)
    assert wait_for_checkpoints(process, tmp_path / "run.checkpoint", 2)
    process.send_signal(which)
    said = process.communicate()[1]
    if process.returncode == 0:  # a fast machine was done before
        assert names(tmp_path) == ["run"]
        return
    assert process.returncode == 130
    assert "the same command continues this search" in said
    assert names(tmp_path) == ["run.checkpoint"]
    assert "continuing from" in finish(command, work / "expected")


def test_interrupted_without_checkpoints(command, tmp_path):
    process = start([*command, "--no-checkpoint", *SLOW])
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert names(tmp_path) == []


def test_other_resources_continue_too(command, binary, work, tmp_path):
    process = start(command)
    assert wait_for_checkpoints(process, tmp_path / "run.checkpoint", 2)
    process.kill()
    process.communicate()
    other = [
        binary,
        "search",
        work / "q.npy",
        work / "d.npy",
        "-o",
        tmp_path / "run",
        "--memory",
        "30M",
        "--threads",
        "1",
    ]
    assert "continuing from" in finish(other, work / "expected")


def interrupted_search(command, tmp_path):
    process = start(command)
    assert wait_for_checkpoints(process, tmp_path / "run.checkpoint", 2)
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("option", "field"), [(("-k", "7"), "k: 100 in the checkpoint, 7 now"), (("--normalize",), "normalize: false")]
)
def test_a_checkpoint_of_other_options_is_not_used(command, rowmax, work, tmp_path, option, field):
    interrupted_search(command, tmp_path)
    done = rowmax(*command[1:], *option)
    assert "starting afresh" in done.stderr
    assert field in done.stderr
    out = tmp_path / "run"
    other = rowmax("search", work / "q.npy", work / "d.npy", *option)
    assert out.read_text() == other.stdout


def test_a_checkpoint_of_changed_files_is_not_used(binary, work, tmp_path):
    shutil.copy(work / "d.npy", tmp_path / "d.npy")
    folder = tmp_path / "out"
    folder.mkdir()
    command = [binary, "search", work / "q.npy", tmp_path / "d.npy", "-o", folder / "run", *SLICES]
    interrupted_search(command, folder)
    shutil.copy(work / "d.npy", tmp_path / "d.npy")  # the same bytes, but who knows
    said = finish(command, work / "expected")
    assert "starting afresh" in said
    assert "corpus 1" in said


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_checkpoint_is_not_used(command, work, tmp_path, damage):
    interrupted_search(command, tmp_path)
    path = tmp_path / "run.checkpoint"
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    path.write_bytes({"cut": content[:-9], "flip": content, "empty": b""}[damage])
    assert "starting afresh" in finish(command, work / "expected")


@pytest.mark.parametrize("option", [(), ("--checkpoint", "{}/mine")])
def test_a_file_that_is_no_checkpoint_is_left_alone(command, tmp_path, option):
    path = tmp_path / ("mine" if option else "run.checkpoint")
    path.write_text("years of work\n")
    done = subprocess.run([*command, *(text.format(tmp_path) for text in option)], capture_output=True, text=True)
    assert done.returncode == 2
    assert str(path) in done.stderr
    assert path.read_text() == "years of work\n"
    assert names(tmp_path) == [path.name]


def limit_file_size(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_no_room_for_the_output(command, work, tmp_path):
    size = (work / "expected").stat().st_size
    done = subprocess.run(
        [*command, "--no-checkpoint"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: limit_file_size(size - 1),
    )
    assert done.returncode == 3
    assert str(tmp_path / "run") in done.stderr
    assert names(tmp_path) == []
    finish(command, work / "expected")


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=340k", "rowmax-test", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk_and_resume(binary, work, small_disk):
    """Checkpoints fit, the output does not; once there is room, the rerun has next to nothing to score."""
    command = [binary, "search", work / "q.npy", work / "d.npy", "-o", small_disk / "run", *SLICES]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert names(small_disk) == ["run.checkpoint"]
    subprocess.run(["mount", "-o", "remount,size=2m", small_disk], check=True)
    assert "(100.0 % done)" in finish(command, work / "expected")


def test_disk_too_full_for_checkpoints(binary, work, small_disk):
    (small_disk / "filler").write_bytes(bytes(300 << 10))
    command = [binary, "search", work / "q.npy", work / "d.npy", "-o", small_disk / "run", *SLICES]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert names(small_disk) == ["filler"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_standard_output_is_full(binary, work):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [binary, "search", work / "q.npy", work / "d.npy"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 3
    assert "No space left on device" in done.stderr


def test_broken_pipe_is_quiet(binary, work):
    process = subprocess.Popen(
        [binary, "search", work / "q.npy", work / "d.npy", "-k", "400"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == -signal.SIGPIPE
