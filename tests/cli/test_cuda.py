"""The command on a CUDA device: right, and the same bytes in any blocks, on any share of the devices, after any
interruption. Skipped, with the command's own words, where there is no device."""

import contextlib
import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
from command_support import clean_environment, maxsim, ranking, read_trec, small_integers


@pytest.fixture(scope="module", autouse=True)
def device(binary):
    """Skips, unless the command can use a device."""
    done = subprocess.run([binary, "kernels", "--device", "cuda"], capture_output=True, text=True)
    if done.returncode == 4:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def ragged(tmp_path_factory, binary):
    """Ragged documents of all types whose scores are not exact, as corpora, and queries."""
    folder = tmp_path_factory.mktemp("ragged")
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 300, size=3000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.normal(size=(int(offsets[-1]), 128))
    queries = rng.normal(size=(9, 32, 128))
    for dtype in ("float16", "float32"):
        np.savez(folder / "d.npz", tokens=tokens.astype(dtype), cu_seqlens=offsets)
        subprocess.run([binary, "pack", folder / "d.npz", "-o", folder / f"{dtype}.rmx"], check=True)
        np.save(folder / f"{dtype}.npy", queries.astype(dtype))
    return folder


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("layout", ["dense", "masked", "packed"])
def test_ranks_as_the_definition_does(rowmax, tmp_path, rng, dtype, layout):
    q, d = small_integers(rng, 5, 37, 96, dtype=dtype), small_integers(rng, 400, 19, 96, dtype=dtype)
    scores = maxsim(q, d)
    if layout == "dense":
        np.save(tmp_path / "d.npy", d)
    elif layout == "masked":
        mask = rng.integers(0, 3, size=(400, 19)) > 0
        similarity = np.einsum("isk,jtk->ijst", q.astype("f8"), d.astype("f8"))
        scores = np.where(mask[None, :, None], similarity, -np.inf).max(axis=3).sum(axis=2)
        np.savez(tmp_path / "d.npz", tokens=d, mask=mask)
    else:
        np.savez(tmp_path / "d.npz", tokens=d.reshape(-1, 96), cu_seqlens=np.arange(401) * 19)
    np.save(tmp_path / "q.npy", q)
    documents = tmp_path / ("d.npy" if layout == "dense" else "d.npz")
    run = read_trec(rowmax("search", tmp_path / "q.npy", documents, "-k", 30, "--device", "cuda").stdout)
    for i, order in enumerate(ranking(scores)[:, :30]):
        assert run[str(i)] == [(str(j), scores[i, j]) for j in order]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_same_bytes_however_it_is_shared_out(rowmax, ragged, dtype):
    command = ("search", ragged / f"{dtype}.npy", ragged / f"{dtype}.rmx", "-k", 200, "--format", "npy")
    want = rowmax(*command, "--device", "cuda", text=False).stdout
    assert len(want) > 9 * 200 * 12
    for device in ("auto", "cuda:0", "cuda:0,0", "cuda:0,0,0,0,0", "all"):
        assert rowmax(*command, "--device", device, text=False).stdout == want, device
    for memory in ("1200M", "1G", "700M"):
        assert rowmax(*command, "--device", "cuda:0,0", "--memory", memory, text=False).stdout == want, memory
    assert rowmax(*command, "--device", "cuda", "--threads", 1, text=False).stdout == want


def test_several_corpora_count_through(rowmax, ragged, tmp_path, rng):
    d = rng.normal(size=(500, 40, 128)).astype("f2")
    for name, part in (("d", d), ("a", d[:123]), ("b", d[123:])):
        np.save(tmp_path / f"{name}.npy", part)
    command = ("search", ragged / "float16.npy")
    rest = ("-k", 300, "--device", "cuda", "--format", "npy")
    one = rowmax(*command, tmp_path / "d.npy", *rest, text=False).stdout
    assert rowmax(*command, tmp_path / "a.npy", tmp_path / "b.npy", *rest, text=False).stdout == one


def test_auto_leaves_to_the_cpu_what_only_it_can(rowmax, tmp_path, rng):
    q, d = small_integers(rng, 2, 5, 24, dtype="f8"), small_integers(rng, 20, 6, 24, dtype="f8")
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "d.npy", d)
    files = (tmp_path / "q.npy", tmp_path / "d.npy")
    on_cpu = rowmax("search", *files, "--device", "cpu").stdout
    assert rowmax("search", *files).stdout == on_cpu
    assert rowmax("score", *files).stdout == rowmax("score", *files, "--device", "cpu").stdout
    assert "float64" in rowmax("search", *files, "--device", "cuda", code=4).stderr
    assert "float64" in rowmax("score", *files, "--device", "cuda", code=4).stderr
    assert rowmax("search", *files, "--kernel", "cpu.scalar4").stdout == on_cpu


def test_a_device_that_is_not_there(rowmax, ragged):
    files = (ragged / "float16.npy", ragged / "float16.rmx")
    for command in ("search", "score"):
        assert "no CUDA device 97" in rowmax(command, *files, "--device", "cuda:0,97", code=4).stderr


@pytest.mark.parametrize("choice", ["all", "grouped", "pairs"])
def test_score(rowmax, tmp_path, rng, choice):
    q, d = small_integers(rng, 4, 7, 16, dtype="f2"), small_integers(rng, 24, 9, 16, dtype="f2")
    mask = (np.arange(7) < rng.integers(1, 8, size=(4, 1))).astype("u1")
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "d.npy", d)
    np.save(tmp_path / "mask.npy", mask)
    (tmp_path / "pairs").write_text("".join(f"#{i % 4} #{i * 7 % 24}\n" for i in range(50)))
    how = {"all": (), "grouped": ("--grouped",), "pairs": ("--pairs", tmp_path / "pairs")}[choice]
    command = ("score", tmp_path / "q.npy", tmp_path / "d.npy", "--q-mask", tmp_path / "mask.npy", *how)
    on_cpu = rowmax(*command, "--device", "cpu").stdout
    assert rowmax(*command, "--device", "cuda").stdout == on_cpu
    assert len(on_cpu.splitlines()) == {"all": 96, "grouped": 24, "pairs": 50}[choice]


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_explain(rowmax, tmp_path, rng, dtype):
    """As on the CPU, to the byte: sums of small integers are exact. Masks too."""
    np.save(tmp_path / "q.npy", small_integers(rng, 3, 7, 24, dtype=dtype))
    d = small_integers(rng, 6, 40, 24, dtype=dtype)
    np.savez(tmp_path / "d.npz", tokens=d, mask=rng.integers(0, 3, size=(6, 40)) > 0)
    command = ("explain", tmp_path / "q.npy", tmp_path / "d.npz", "--query", "#2", "--document", "#5", "--json", "--matrix")
    on_cpu = rowmax(*command, "--device", "cpu").stdout
    assert rowmax(*command, "--device", "cuda").stdout == on_cpu
    assert rowmax(*command).stdout == on_cpu
    assert len(json.loads(on_cpu)["matrix"]) == 7
    assert "no CUDA device 97" in rowmax(*command, "--device", "cuda:97", code=4).stderr


def test_bench(rowmax):
    command = ("bench", "--shape", "short", "--shape", "one pair", "--seconds", 0)
    lines = json.loads(rowmax(*command, "--device", "cuda", "--json").stdout)
    assert {line["dtype"] for line in lines} == {"float16", "bfloat16", "float32"}
    assert len(lines) == 6 and all(line["kernel"].startswith("cuda.") for line in lines)
    for line in lines:
        assert line["p10_ms"] <= line["median_ms"] <= line["p90_ms"]
        assert 0 < line["tb_per_s"] < 20 and 0 < line["copy_tb_per_s"] < 20 and 0 < line["tflops"] < 2000
        assert line["documents_per_s"] == pytest.approx(1e3 * line["documents"] / line["median_ms"])
    every = rowmax(*command, "--device", "cuda", "--dtype", "float16", "--all-kernels").stdout
    assert "cuda.sm80.f16" in every and "A copy within the device's memory" in every
    assert "float64" in rowmax(*command, "--dtype", "float64").stdout


def test_kernels_of_a_call(rowmax):
    def chosen(*arguments):
        rows = json.loads(rowmax("kernels", "--dtype", "float16", *arguments, "--json").stdout)
        return [row["backend"] for row in rows if row["chosen"]]

    assert chosen("--device", "cuda") == ["cuda"]
    assert chosen() == ["cuda"]
    assert chosen("--device", "cpu") == ["cpu"]


def test_doctor_sees_the_device(rowmax):
    devices = json.loads(rowmax("doctor", "--json").stdout)["cuda"]["devices"]
    assert devices[0]["problem"] == ""
    assert devices[0]["free"] > 0
    assert f"cuda:0            {devices[0]['name']}" in rowmax("doctor").stdout


def test_selftest(rowmax):
    report = json.loads(rowmax("selftest", "--device", "cuda", "--json").stdout)
    assert report["passed"]
    assert {line["device"] for line in report["kernels"]} == {"cuda:0"}
    names = {kernel["name"] for kernel in json.loads(rowmax("kernels", "--json").stdout) if kernel["available"]}
    assert {line["kernel"] for line in report["kernels"]} == {name for name in names if name.startswith("cuda")}
    for line in report["kernels"]:
        assert line["checks"]["exact"]["cases"] > 30, line
        assert line["checks"]["random"]["cases"] > 30, line
        inexact = line["dtype"] != "float32" or line["kernel"].endswith("tf32")
        assert line["checks"]["golden"]["cases"] > 10 or inexact, line
        assert line["checks"]["invariance"]["cases"] > 50, line


# Some seconds of work, in pieces of a tenth of one.
@pytest.fixture(scope="module")
def work(tmp_path_factory, binary):
    folder = tmp_path_factory.mktemp("work")
    rng = np.random.default_rng(3)
    np.save(folder / "q.npy", rng.normal(size=(4000, 64, 128)).astype("f4"))
    np.save(folder / "d.npy", rng.normal(size=(6000, 200, 128)).astype("f4"))
    command = [binary, "search", folder / "q.npy", folder / "d.npy", "-o", folder / "expected", "--device", "cuda"]
    subprocess.run(command, check=True)
    return folder


def test_stays_within_memory(binary, work, tmp_path):
    """Writable memory of the process, the driver's and the pinned blocks included."""
    command = [binary, "search", work / "q.npy", work / "d.npy", "-o", tmp_path / "run", "--device", "cuda:0,0"]
    process = subprocess.Popen([*command, "--memory", "1G"], env=clean_environment())
    most = 0
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
            with open(f"/proc/{process.pid}/status") as status:
                most = max(most, int(status.read().split("RssAnon:")[1].split()[0]))
        time.sleep(0.002)
    assert process.returncode == 0
    assert 64 << 10 < most < 1 << 20, "KiB"
    assert (tmp_path / "run").read_bytes() == (work / "expected").read_bytes()


def start(binary, work, out, device):
    command = [binary, "search", work / "q.npy", work / "d.npy", "-o", out, "--checkpoint-every", "0"]
    return subprocess.Popen([*command, "--device", device], stderr=subprocess.PIPE, text=True, env=clean_environment())


def wait_for_checkpoints(process, path, count):
    seen = set()
    while process.poll() is None and len(seen) < count:
        try:
            seen.add(path.stat().st_ino)
        except FileNotFoundError:
            pass
        time.sleep(0.001)
    return process.poll() is None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_searches_continue(binary, work, tmp_path, how):
    out = tmp_path / "run"
    process = start(binary, work, out, "cuda")
    assert wait_for_checkpoints(process, tmp_path / "run.checkpoint", 2), process.communicate()
    process.send_signal(how)
    said = process.communicate()[1]
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    assert [path.name for path in tmp_path.iterdir()] == ["run.checkpoint"]
    if how == signal.SIGINT:
        assert "the same command continues this search" in said
    second = start(binary, work, out, "cuda:0,0")
    said = second.communicate()[1]
    assert second.returncode == 0
    assert "continuing from" in said
    assert out.read_bytes() == (work / "expected").read_bytes()
    assert os.listdir(tmp_path) == ["run"]
