"""Help, exit codes, devices, and the commands about the machine."""

import json
import subprocess

import numpy as np
import pytest
from command_support import clean_environment

COMMANDS = ["search", "score", "explain", "pack", "inspect", "eval", "bench", "kernels", "selftest", "doctor"]


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "q.npy", np.ones((1, 2, 4), "f4"))
    np.save(tmp_path / "d.npy", np.ones((3, 2, 4), "f4"))
    return tmp_path / "q.npy", tmp_path / "d.npy"


def test_help_lists_every_command(rowmax):
    text = rowmax("--help").stdout
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert "rowmax search queries.npy" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_examples(rowmax, command):
    text = rowmax(command, "--help").stdout
    assert f"  rowmax {command}" in text.split("Examples:")[1]


def test_version(rowmax):
    assert rowmax("--version").stdout.startswith("rowmax 0.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "subcommand"),
        (("fly",), "fly"),
        (("search",), "queries"),
        (("search", "q", "d", "--frobnicate"), "--frobnicate"),
        (("search", "q", "d", "-k", "0"), "-k"),
        (("search", "q", "d", "-k", "ten"), "ten"),
        (("search", "q", "d", "--memory", "lots"), "'lots' is not a size"),
        (("search", "q", "d", "--memory", "99999999T"), "is not a size"),
        (("search", "q", "d", "--device", "tpu"), "'tpu' is not a device"),
        (("search", "q", "d", "--device", "cuda:"), "'cuda:' is not a device"),
        (("search", "q", "d", "--device", "cuda:0,"), "'cuda:0,' is not a device"),
        (("search", "q", "d", "--device", "cuda:-1"), "'cuda:-1' is not a device"),
        (("search", "q", "d", "--device", "cuda:1x"), "'cuda:1x' is not a device"),
        (("search", "q", "d", "--threads", "-1"), "-1"),
        (("search", "q", "d", "--format", "xml"), "xml"),
        (("search", "q", "d", "--dtype", "float12"), "float12"),
        (("score", "q", "d", "--format", "trec"), "trec"),
        (("explain", "q"), "documents"),
        (("pack", "d"), "--output"),
        (("pack", "d", "-o", "c", "--to", "int8"), "int8"),
        (("inspect",), "path"),
        (("eval", "qrels"), "run"),
        (("bench", "--shape", "huge"), "huge"),
        (("kernels", "--dim", "5000"), "5000"),
        (("selftest", "--kernel", "abacus"), "'abacus'"),
        (("doctor", "--fix"), "--fix"),
    ],
)
def test_usage_errors_exit_2(rowmax, arguments, message):
    done = rowmax(*arguments, code=2)
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("device", ["auto", "cpu", "all"])
def test_devices_that_are_there(rowmax, files, device):
    assert len(rowmax("search", *files, "--device", device).stdout.splitlines()) == 3


@pytest.mark.parametrize("command", ["search", "score", "explain", "kernels", "selftest", "bench"])
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "cuda:0,1"])
def test_no_cuda_here(binary, rowmax, files, command, device):
    if subprocess.run([binary, "kernels", "--device", "cuda"], capture_output=True).returncode == 0:
        pytest.skip("there is a CUDA device: see test_cuda.py")
    inputs = files if command in ("search", "score", "explain") else ()
    done = rowmax(command, *inputs, "--device", device, code=4)
    assert f"--device {device}" in done.stderr


def test_kernel_names(rowmax, files):
    names = [kernel["name"] for kernel in json.loads(rowmax("kernels", "--json").stdout) if kernel["available"]]
    for name in names:
        if name.endswith("f32"):
            rowmax("search", *files, "--kernel", name)
    assert "'cpu.abacus'" in rowmax("search", *files, "--kernel", "cpu.abacus", code=2).stderr
    assert "ROWMAX_KERNEL" in rowmax("search", *files, env={"ROWMAX_KERNEL": "cpu.abacus"}, code=2).stderr


def test_wrong_thread_counts(rowmax, files):
    done = rowmax("search", *files, env={"ROWMAX_THREADS": "many"}, code=2)
    assert "ROWMAX_THREADS" in done.stderr
    assert "'many'" in done.stderr


@pytest.mark.parametrize("option", [["-k", "9223372036854775808"], ["--threads", "99999999999"]])
def test_numbers_too_large_are_not_cut(rowmax, files, option):
    done = rowmax("search", *files, *option, code=2)
    assert option[1] in done.stderr


def test_a_kernel_that_cannot_do_it(rowmax, files):
    wrong = next(
        k["name"]
        for k in json.loads(rowmax("kernels", "--json").stdout)
        if k["available"] and k["name"].endswith("f64")
    )
    done = rowmax("search", *files, "--kernel", wrong, code=4)
    assert "float32" in done.stderr


def test_missing_inputs_exit_3(rowmax, files, tmp_path):
    assert "nowhere.npy" in rowmax("search", files[0], tmp_path / "nowhere.npy", code=3).stderr


def test_unwritable_output_exits_3(rowmax, files, tmp_path):
    done = rowmax("search", *files, "-o", tmp_path / "no" / "folder" / "run", code=3)
    assert "no/folder" in done.stderr


def test_output_is_not_an_input(rowmax, files):
    before = files[1].read_bytes()
    done = rowmax("search", *files, "-o", files[1], code=2)
    assert "also an input" in done.stderr
    assert files[1].read_bytes() == before


def test_kernels_for_a_call(rowmax):
    rows = json.loads(rowmax("kernels", "--dim", 96, "--dtype", "float16", "--json").stdout)
    chosen = [row for row in rows if row["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["refusal"] == ""
    assert all(row["refusal"] for row in rows if row["name"].endswith("f64"))
    assert chosen[0]["name"] in rowmax("kernels", "--dim", 96, "--dtype", "float16").stdout


def test_doctor(rowmax, tmp_path):
    report = json.loads(rowmax("doctor", "--json", env={"ROWMAX_COLOUR": "red"}, cwd=tmp_path).stdout)
    assert report["cpu"]["online"] >= 1
    assert report["memory"]["total"] > 0
    assert report["variables"] == {"ROWMAX_COLOUR": "red"}
    assert any("ROWMAX_COLOUR" in advice for advice in report["advice"])
    assert {folder["writable"] for folder in report["folders"]} == {True}
    assert list(tmp_path.iterdir()) == []
    assert "kernels" in rowmax("doctor").stdout


def test_selftest_passes(rowmax):
    report = json.loads(rowmax("selftest", "--json").stdout)
    assert report["passed"]
    for kernel in report["kernels"]:
        assert set(kernel["checks"]) == {"exact", "random", "golden", "invariance", "gradient"}
        assert kernel["checks"]["exact"]["cases"] > 40
        assert kernel["checks"]["invariance"]["cases"] > 100


def test_bench_reports_every_field(rowmax):
    on_cpu = ("--device", "cpu", "--shape", "one pair")
    lines = json.loads(
        rowmax("bench", *on_cpu, "--dtype", "float32", "--seconds", "0.01", "--json").stdout
    )
    assert len(lines) == 1, "one kernel, the one that calls take"
    for line in lines:
        assert 0 < line["p10_ms"] <= line["median_ms"] <= line["p90_ms"]
        assert line["repetitions"] >= 5
    table = rowmax("bench", *on_cpu, "--seconds", "0", "--all-kernels").stdout
    assert "of FMA peak" in table and "cpu.scalar4.f16" in table


@pytest.mark.parametrize("command", ["kernels", "doctor"])
def test_standard_output_that_cannot_be_written(binary, command):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [binary, command], stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment()
        )
    assert done.returncode == 3
    assert "No space left" in done.stderr
