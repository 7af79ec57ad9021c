#!/usr/bin/env bash
# make bench: builds, installs the rivals into a virtual environment, measures, prints the table, renders the docs.
# ROWMAX_BENCH_PYTHON names a Python that has bench/requirements.txt already. Arguments go to bench/cpu_table.py.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${ROWMAX_BENCH_PYTHON:-}
if [ -z "$python" ]; then
    [ -x build/bench-venv/bin/python ] || python3 -m venv build/bench-venv
    python=build/bench-venv/bin/python
    "$python" -m pip install --quiet -r bench/requirements.txt
fi

# The package whose calls are timed.
"$python" -m pip install --quiet --no-deps .

cmake --preset release -DROWMAX_BUILD_BENCH=ON
cmake --build build/release --target rowmax_bench openblas_tiles host_cost

output=$("$python" bench/cpu_table.py "$@")
"$python" bench/render.py --show "$output"
"$python" bench/render.py
