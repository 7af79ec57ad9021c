#!/usr/bin/env bash
# Everything a GPU is asked, in one script: builds, tests, measures; tables last.
#
#   bench/gpu/run.sh [-o FOLDER] [-b FOLDER] [-c COMMIT] [PART...]
#
#   -o FOLDER  where result files and logs go                      (build/gpu)
#   -b FOLDER  built already: test_cuda, cuda_host_cost, cuda_tile_sizes, rowmax, librowmax.so, site/   (else built here, into
#              build/release and build/gpu)
#   -c COMMIT  what it was built from                              (git's HEAD)
#
# Parts: tests python compile float16 bfloat16 float32 compressed cases bytes ncu stream compile-training training heads selection
# residual; cases are shapes, pipeline, host, sweeps, tiles, alignment, accuracy and ladder, or those that CASES names; compile and
# compile-training make what Triton's implementations need, so that the parts behind them have time to measure them all. Without
# parts: all. Each is interrupted after its time (TIMEOUT, seconds: 90), and what it had found by then is kept. PYTHON names a
# Python with torch (and flash-maxsim, late-interaction-kernels, which are left out where they cannot be imported); bytes and ncu
# need Nsight Compute.
set -uo pipefail
cd "$(dirname "$0")/../.."

output=build/gpu built= commit= python=${PYTHON:-python3}
while getopts o:b:c: option; do
    case $option in
        o) output=$OPTARG ;;
        b) built=$OPTARG ;;
        c) commit=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
parts=("$@")
[ $# -gt 0 ] || parts=(tests python compile float16 bfloat16 float32 compressed cases bytes ncu stream compile-training training heads selection residual)
commit=${commit:-$(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD -- src include python bench || echo +changes)}
mkdir -p "$output"
failed=()

build() {
    cmake --preset release -DROWMAX_CUDA=ON
    cmake --build --preset release --target test_cuda cuda_host_cost cuda_tile_sizes rowmax_command rowmax
    "$python" -m pip install --quiet --no-deps --target build/gpu/site --upgrade .
    built=build/gpu
    cp -L build/release/tests/cuda/test_cuda build/release/bench/cuda_{host_cost,tile_sizes} build/release/cli/rowmax \
        build/release/src/librowmax.so "$built/"
}

device() { nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9\n' -; }

# Programs that share a GPU wait for one another's slices of its time, unless its multi-process service runs their work
# side by side. A daemon of this user's; start_sharing sets `sharing` where it could be started.
start_sharing() {
    sharing=
    command -v nvidia-cuda-mps-control >/dev/null || return 0
    CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d)
    export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
    timeout 10 nvidia-cuda-mps-control -d && sharing=yes && sleep 1
}
stop_sharing() {
    [ -z "$sharing" ] || echo quit | timeout 10 nvidia-cuda-mps-control
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

# The GPU's tests are many short launches: shards fill the device and the cores.
run_tests() {
    export ROWMAX_TEST_DATA=$PWD/tests/data
    local shards=${SHARDS:-15} i sharing
    start_sharing
    for ((i = 0; i < shards; i++)); do
        GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout "${TIMEOUT:-300}" "$built/test_cuda" --gtest_brief=1 \
            >"$output/test-$i.log" 2>&1 &
    done
    for ((i = 0; i < shards; i++)); do wait -n || failed+=(tests); done
    stop_sharing
    grep -hE -A 6 ': Failure$' "$output"/test-*.log | head -60
    grep -hE '^\[  (FAILED|PASSED)' "$output"/test-*.log | sort | uniq -c | sort -rn | head -20
}

run_python() {
    local workers=() tests=(tests/python_cuda tests/docs/test_examples.py)
    if [ -x "$built/rowmax" ]; then
        ROWMAX_BINARY=$(realpath "$built/rowmax")
        export ROWMAX_BINARY
        tests+=(tests/cli/test_cuda.py)
    fi
    # Without it the tests of the C interface are skipped.
    if [ -f "$built/librowmax.so" ]; then
        ROWMAX_LIBRARY=$(realpath "$built/librowmax.so")
        export ROWMAX_LIBRARY
    fi
    "$python" -c 'import xdist' 2>/dev/null && workers=(-n "${WORKERS:-12}")
    timeout -s INT -k 5 "${TIMEOUT:-90}" "$python" -m pytest "${tests[@]}" -q --tb=short -p no:cacheprovider "${workers[@]}" \
        >"$output/python.log" 2>&1 || failed+=(python)
    tail -25 "$output/python.log"
}

# measure TOPIC SCRIPT ARGUMENT...
measure() {
    local topic=$1 script=$2
    shift 2
    timeout "${TIMEOUT:-90}" "$python" "bench/gpu/$script" --commit "$commit" "$@" >"$output/$topic.log" 2>&1 || failed+=("$topic")
    logs+=("$topic")
}

[ -n "$built" ] || build || exit 1
export PYTHONPATH=$PWD/$built/site${PYTHONPATH:+:$PYTHONPATH}
[ "${built#/}" = "$built" ] || export PYTHONPATH=$built/site:$PYTHONPATH
name=$(device) || exit 4
logs=()
for part in "${parts[@]}"; do
    start=$SECONDS
    file=$output/$name-$(date +%F)
    case $part in
        tests) run_tests ;;
        python) run_python ;;
        float16 | bfloat16 | float32) measure "forward-$part" forward.py --dtype "$part" --output "$file-forward-$part.jsonl" ;;
        compressed) measure compressed compressed.py --output "$file-codes.jsonl" ;;
        cases) measure cases several.py ${CASES:-shapes pipeline host sweeps tiles alignment accuracy ladder} --folder "$output" \
            --prefix "$(basename "$file")" --native "$built" ;;
        bytes) measure hbm hbm_bytes.py --output "$file-hbm.jsonl" ;;
        ncu) measure ncu ncu_view.py --output "$file-ncu.jsonl" ;;
        compile) "$python" bench/gpu/compile_rivals.py --seconds "${TIMEOUT:-90}" || failed+=(compile) ;;
        compile-training) "$python" bench/gpu/compile_rivals.py training --seconds "${TIMEOUT:-90}" || failed+=(compile-training) ;;
        stream) measure stream out_of_core.py --gib "${GIB:-4}" --repeats 4 --output "$file-out-of-core.jsonl" ;;
        training) measure training training.py --seconds 80 --output "$file-training.jsonl" ;;
        heads)
            measure head head.py --dtype bfloat16 --output "$file-head.jsonl"
            measure step-share step_share.py --output "$file-step-share.jsonl"
            ;;
        selection) measure selection selection.py --output "$file-selection.jsonl" ;;
        residual) measure residual residual.py --output "$file-residual.jsonl" ;;
        *) echo "run.sh: no part '$part'" >&2 && exit 2 ;;
    esac
    echo "== $part: $((SECONDS - start)) s"
done
for log in "${logs[@]}"; do echo "== $log" && tail -n "${LINES_SHOWN:-160}" "$output/$log.log"; done
echo "== done${failed[*]:+, FAILED: ${failed[*]}}"
[ ${#failed[@]} -eq 0 ]
