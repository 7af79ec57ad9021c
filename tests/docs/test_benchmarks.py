"""The documents say what the result files say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import render  # noqa: E402
import results  # noqa: E402


def newest(topic):
    return [results.read(path) for path in render.newest_files(topic)]


def test_benchmarks_are_rendered_from_the_result_files():
    done = subprocess.run([sys.executable, ROOT / "bench/render.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_result_files_say_where_they_come_from():
    files = sorted(results.FOLDER.glob("*.jsonl"))
    assert files
    for path in files:
        lines = results.read(path)
        assert lines[0]["case"] == "ceilings", path.name
        for line in lines:
            assert {"device", "commit", "date"} <= line.keys(), path.name
            assert not line["commit"].endswith("+changes"), f"{path.name} measures what no commit holds"
        for line in lines[1:]:
            if "median_ms" in line:
                assert line["p10_ms"] <= line["median_ms"] <= line["p90_ms"], path.name


def test_figures_of_the_readme():
    readme = " ".join((ROOT / "README.md").read_text().split())
    quality = {line.get("impl"): line for line in newest("quality")[0]}
    assert f"{quality['MaxSim']['recip_rank']:.2f} against {quality['mean pooling']['recip_rank']:.2f}" in readme
    run = newest("cpu")[0]

    def text(impl):
        return render.find(run, case="text-1k", dtype="float32", threads=1, impl=impl)["median_ms"]

    assert f"{text('rowmax'):.0f} ms" in readme
    assert f"{text('openblas') / text('rowmax'):.1f} times as fast as OpenBLAS" in readme
    steps = {line["impl"]: line for line in newest("training")[0] if line["case"] == "colpali-128"}
    ours, theirs = steps["rowmax"], steps["torch"]
    assert f"takes {ours['median_ms']:.1f} ms and {ours['extra_mib']:.0f} MiB on an H200" in readme
    assert f"torch's matrix product {theirs['median_ms']:.0f} ms and {theirs['extra_mib'] / 1024:.0f} GiB" in readme


def test_figures_of_the_training_page():
    page = (ROOT / "docs/training.md").read_text()
    run = newest("training")[0]
    for case in ("train-128", "train-256", "train-128-1024", "colpali-128", "kd-256x16"):
        ours, theirs = (next(x for x in run if x["case"] == case and x["impl"] == name) for name in ("rowmax", "torch"))
        row = next(row for row in page.splitlines() if row.startswith("|") and f"| {ours['median_ms']:.3f} |" in row)
        cells = [float(cell.replace(" ", "")) for cell in row.split("|")[2:-1]]
        values = ours["median_ms"], theirs["median_ms"], ours["extra_mib"], theirs["extra_mib"]
        for cell, value in zip(cells, values, strict=True):
            assert abs(cell - value) <= 0.005 * value, (case, cell, value)
