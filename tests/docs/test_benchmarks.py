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
