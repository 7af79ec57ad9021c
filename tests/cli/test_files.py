"""What a command writes is never what it reads, nor what it writes elsewhere; odd files and streams."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from command_support import clean_environment, read_trec, write_plaid_index


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one of everything, which is also the working folder."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "q.npy", rng.normal(size=(2, 3, 8)).astype("f4"))
    np.save(tmp_path / "d.npy", rng.normal(size=(3, 4, 8)).astype("f4"))
    np.save(tmp_path / "mask.npy", np.ones((3, 4), bool))
    (tmp_path / "pages").mkdir()
    np.save(tmp_path / "pages" / "a.npy", rng.normal(size=(4, 8)).astype("f4"))
    (tmp_path / "q.ids").write_text("x\ny\n")
    (tmp_path / "d.ids").write_text("a\nb\nc\n")
    (tmp_path / "pairs").write_text("#0 #1\n")
    (tmp_path / "words").write_text("a\nb\nc\n")
    (tmp_path / "qrels").write_text("x 0 a 1\n")
    (tmp_path / "run").write_text("x Q0 a 1 1 t\n")
    os.symlink("d.npy", tmp_path / "link.npy")
    os.link(tmp_path / "d.npy", tmp_path / "hard.npy")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        "search q.npy d.npy -o q.npy",
        "search q.npy d.npy -o ./d.npy",
        "search q.npy d.npy -o link.npy",
        "search q.npy d.npy -o hard.npy",
        "search q.npy pages -o pages/a.npy",
        "search q.npy pages -o pages/new.npy",
        "search q.npy d.npy --ids d.ids -o d.ids",
        "search q.npy d.npy --query-ids q.ids -o q.ids",
        "search q.npy d.npy -o out --checkpoint d.npy",
        "search q.npy d.npy -o out --checkpoint out",
        "search q.npy d.npy --checkpoint q.npy",
        "score q.npy d.npy --pairs pairs -o pairs",
        "score q.npy d.npy --d-mask mask.npy -o mask.npy",
        "score q.npy d.npy --ids d.ids -o d.ids",
        "explain q.npy d.npy --html q.npy",
        "explain q.npy d.npy --png d.npy",
        "explain q.npy d.npy -o d.npy",
        "explain q.npy d.npy --query-tokens words --html words",
        "explain q.npy d.npy --html new --png new",
        "explain q.npy d.npy --html new --png x/../new",
        "explain q.npy d.npy --html new -o new",
        "explain q.npy d.npy --html - --json",
        "pack d.npy -o d.npy",
        "pack d.npy --ids d.ids -o d.ids",
        "pack pages -o pages/all.npy",
        "eval qrels run -o qrels",
        "eval qrels run -o run",
    ],
)
def test_outputs_are_not_inputs(rowmax, folder, command):
    before = contents(folder)
    done = rowmax(*command.split(), code=2)
    assert "also an input" in done.stderr or "would both write" in done.stderr
    assert contents(folder) == before


@pytest.mark.parametrize(
    "command",
    ["explain q.npy d.npy --html /dev/null --png /dev/null", "search q.npy d.npy -o -", "pack pages -o pages/all.rmx"],
)
def test_outputs_that_harm_nobody(rowmax, folder, command):
    rowmax(*command.split())


@pytest.mark.parametrize(
    ("command", "code"),
    [("search q.npy nowhere", 3), ("search q.npy d.npy --memory 1", 2), ("eval qrels run -c", 0), ("fly", 2)],
)
def test_standard_error_that_cannot_be_written(binary, folder, command, code):
    with open("/dev/full", "w") as full:
        done = subprocess.run([binary, *command.split()], stderr=full, capture_output=False, stdout=subprocess.DEVNULL)
    assert done.returncode == code


@pytest.mark.parametrize("command", ["--help", "--version", "search --help"])
def test_help_that_cannot_be_written(binary, command):
    with open("/dev/full", "w") as full:
        done = subprocess.run([binary, *command.split()], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert "No space left" in done.stderr


@pytest.mark.parametrize(
    "command",
    ["search q.npy d.npy --ids /dev/zero", "score q.npy d.npy --pairs /dev/zero", "eval /dev/zero run"],
)
def test_text_without_an_end_is_refused(rowmax, folder, command):
    assert "/dev/zero" in rowmax(*command.split(), code=3).stderr


def test_text_may_come_through_a_pipe(binary, folder):
    line = f'"{binary}" explain q.npy d.npy --query-tokens <(printf "a\\nb\\nc\\n")'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_answers_nothing(rowmax, folder):
    np.save("empty.npy", np.zeros((1, 0, 8), "f4"))
    assert "\u2588" not in rowmax("explain", "q.npy", "empty.npy").stdout


def test_doctor_looks_at_folders_that_are_not_there(rowmax, binary, folder):
    done = rowmax("doctor", "--json", env={"TMPDIR": "/nowhere"})
    assert {f["path"]: f["writable"] for f in json.loads(done.stdout)["folders"]}["/nowhere"] is False
    line = f'mkdir gone && cd gone && rmdir ../gone && "{binary}" doctor --json'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 0 and not json.loads(done.stdout)["folders"][0]["writable"]


def test_names_that_are_too_long(rowmax, folder):
    for options in (("-o", "x" * 300), ("--checkpoint", "x" * 300), ("--ids", "x" * 300)):
        assert "File name too long" in rowmax("search", "q.npy", "d.npy", *options, code=3).stderr


def test_a_folder_is_no_list_of_pairs(rowmax, folder):
    assert "directory" in rowmax("score", "q.npy", "d.npy", "--pairs", "pages", code=3).stderr


def test_a_document_that_cannot_be_read_is_not_left_out(rowmax, folder):
    os.symlink("nowhere", folder / "pages" / "b.npy")
    assert "pages/b.npy" in rowmax("search", "q.npy", "pages", code=3).stderr
    os.remove(folder / "pages" / "b.npy")
    os.mkfifo(folder / "pages" / "c.npy")
    assert "pages/c.npy" in rowmax("search", "q.npy", "pages", code=3).stderr


def test_a_mask_that_does_not_fit_is_named(rowmax, folder):
    assert "--d-mask q.npy" in rowmax("score", "q.npy", "d.npy", "--d-mask", "q.npy", code=3).stderr


def test_numbers_count_through_shards(rowmax, folder):
    run = read_trec(rowmax("search", "q.npy", "d.npy", "hard.npy").stdout)
    assert {document for document, _ in run["0"]} == {str(i) for i in range(6)}


def test_ids_that_two_inputs_share_are_mentioned(rowmax, folder):
    rowmax("pack", "d.npy", "--ids", "d.ids", "-o", "d.rmx")
    done = rowmax("search", "q.npy", "d.rmx", "d.rmx")
    assert done.stderr.count("names several documents") == 1
    assert rowmax("search", "q.npy", "d.rmx").stderr == ""


@pytest.mark.parametrize("command", ["search q.npy d.npy", "score q.npy d.npy", "search q.npy pages", "score q.npy pages"])
def test_the_memory_that_is_asked_for_is_enough(rowmax, folder, command):
    said = rowmax(*command.split(), "--memory", "1", code=2).stderr
    enough = int(said.split("at least ")[1].split()[0])
    assert rowmax(*command.split(), "--memory", enough).stdout == rowmax(*command.split()).stdout


def test_explain_stays_inside_the_document(rowmax, folder):
    for first in (1, 4, 2**62, 2**63 - 1):
        done = rowmax("explain", "q.npy", "d.npy", "--grid", "2x2", "--grid-first", first, "--png", "x.png", code=3)
        assert "--grid 2x2" in done.stderr
    assert not (folder / "x.png").exists()


@pytest.mark.parametrize("tag", ["two words", "", "a\nb"])
def test_a_tag_is_one_word(rowmax, folder, tag):
    assert "--tag" in rowmax("search", "q.npy", "d.npy", "--tag", tag, code=2).stderr


def test_seconds_are_numbers(rowmax, folder):
    rowmax("search", "q.npy", "d.npy", "--checkpoint-every", "nan", code=2)
    rowmax("bench", "--shape", "one pair", "--seconds", "nan", code=2)


def test_examples_of_the_help_run(binary, folder):
    """Every example of every command, on files of the names it uses."""
    rng = np.random.default_rng(2)
    tokens = rng.normal(size=(50, 1030, 8)).astype("f4")
    np.savez("docs.npz", tokens=tokens, ids=[f"d{i}" for i in range(50)])
    np.save("docs.npy", tokens)
    np.save("mask.npy", np.ones((50, 1030), bool))
    np.save("queries.npy", tokens[:9, :5])
    np.savez("queries.npz", tokens=tokens[:9, :5], ids=[f"q{i}" for i in range(9)])
    np.savez("pages.npz", tokens=tokens[:4, :1024], ids=[f"page{i}" for i in range(4)])
    np.savez("embeddings.npz", tokens=tokens[:3])
    write_plaid_index(folder / "plaid", rng, [[5, 9, 1], [3, 7]], dim=8)
    json_tokens = json.dumps([f"t{i}" for i in range(1030)])
    files = {"q.txt": "a\nb\nc\nd\ne\n", "d.json": json_tokens, "candidates.txt": "q0 d0\nq1 d3\n",
             "qrels.txt": "q0 0 d0 1\n0 0 0 1\n", "ids.txt": "".join(f"p{i}\n" for i in range(4))}  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text)
    header = json.dumps({"embeddings": {"dtype": "F32", "shape": [4, 2, 8], "data_offsets": [0, 256]}}).encode()
    (folder / "model-output.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(256))

    def run(line):
        script = f'set -e; rowmax() {{ "{binary}" "$@"; }}; jq() {{ cat; }}; {line}'
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=clean_environment())

    for made in ("docs.npz -o part1.rmx", "docs.npy -o part2.rmx", "pages.npz -o pages.rmx",
                 "docs.npz --coarse int8 -o coarse.rmx"):  # fmt: skip
        assert run(f"rowmax pack {made}").returncode == 0
    count = 0
    for command in ("", "search", "score", "explain", "pack", "inspect", "eval", "bench", "kernels", "doctor"):
        if command:  # the walk of the main help packs documents without ids
            assert run("rowmax pack docs.npz -o docs.rmx").returncode == 0
        if command == "pack":  # it makes an index anew
            shutil.rmtree("plaid")
        for line in run(f"rowmax {command} --help").stdout.splitlines():
            if not line.startswith("  rowmax ") or line == "  rowmax bench":  # which takes a minute
                continue
            example = line.strip().replace("--query q7", "--query '#7'").replace("--seconds 3", "--seconds 0")
            done = run(example)
            assert done.returncode == 0, (example, done.stderr)
            count += 1
    assert count > 20
