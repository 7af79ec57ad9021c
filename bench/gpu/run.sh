#!/usr/bin/env bash
# Everything a GPU is asked, in one script: builds, tests, measures; tables last.
#
#   bench/gpu/run.sh [-o FOLDER] [-b FOLDER] [-c COMMIT] [PART...]
#
#   -o FOLDER  where result files and logs go                      (build/gpu)
#   -b FOLDER  built already: test_cuda, cuda_host_cost, site/     (else built here, into build/release and build/gpu/site)
#   -c COMMIT  what it was built from                              (git's HEAD)
#
# Parts, each by itself within about a minute and a half of an H200: tests python float16 bfloat16 float32 sweeps
# ladder shapes pipeline host bytes. Without parts: all. PYTHON names a Python with torch (and flash-maxsim, late-interaction-kernels,
# which are left out where they cannot be imported); bytes needs ncu.
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
[ $# -gt 0 ] || parts=(tests python float16 bfloat16 float32 sweeps ladder shapes pipeline host bytes)
commit=${commit:-$(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD -- src include python bench || echo +changes)}
mkdir -p "$output"
failed=()

build() {
    cmake --preset release -DROWMAX_CUDA=ON
    cmake --build --preset release --target test_cuda cuda_host_cost
    "$python" -m pip install --quiet --no-deps --target build/gpu/site --upgrade .
    built=build/gpu
    cp build/release/tests/cuda/test_cuda build/release/bench/cuda_host_cost "$built/"
}

device() { "$python" -c 'import re, torch; print(re.sub("[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()))'; }

# The GPU's tests are many short launches: shards fill the device and the cores.
run_tests() {
    export ROWMAX_TEST_DATA=$PWD/tests/data
    local shards=${SHARDS:-12} i
    for ((i = 0; i < shards; i++)); do
        GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$built/test_cuda" --gtest_brief=1 >"$output/test-$i.log" 2>&1 &
    done
    for ((i = 0; i < shards; i++)); do wait -n || failed+=(tests); done
    grep -hE '^\[  (FAILED|PASSED)' "$output"/test-*.log | sort | uniq -c | sort -rn | head -20
}

run_python() {
    local workers=()
    "$python" -c 'import xdist' 2>/dev/null && workers=(-n "${WORKERS:-6}")
    "$python" -m pytest tests/python_cuda tests/docs/test_examples.py -q -p no:cacheprovider "${workers[@]}" \
        >"$output/python.log" 2>&1 || failed+=(python)
    tail -25 "$output/python.log"
}

measure() {
    local topic=$1 script=$2
    shift 2
    "$python" "bench/gpu/$script" --output "$output/$name-$(date +%F)-$topic.jsonl" --commit "$commit" "$@" \
        >"$output/$topic.log" 2>&1 || failed+=("$topic")
}

[ -n "$built" ] || build || exit 1
export PYTHONPATH=$PWD/$built/site${PYTHONPATH:+:$PYTHONPATH}
[ "${built#/}" = "$built" ] || export PYTHONPATH=$built/site:$PYTHONPATH
name=$(device) || exit 4
for part in "${parts[@]}"; do
    start=$SECONDS
    case $part in
        tests) run_tests ;;
        python) run_python ;;
        float16 | bfloat16 | float32) measure "forward-$part" forward.py --dtype "$part" ;;
        sweeps | ladder | shapes | pipeline) measure "$part" "$part.py" ;;
        host) measure host host_cost.py --native "$built/cuda_host_cost" ;;
        bytes) measure hbm hbm_bytes.py ;;
        *) echo "run.sh: no part '$part'" >&2 && exit 2 ;;
    esac
    echo "== $part: $((SECONDS - start)) s"
done
for part in "${parts[@]}"; do
    case $part in
        float16 | bfloat16 | float32) log=forward-$part ;;
        bytes) log=hbm ;;
        *) log=$part ;;
    esac
    [ "$part" = tests ] || [ "$part" = python ] || { echo "== $log" && tail -${LINES_SHOWN:-80} "$output/$log.log"; }
done
echo "== done${failed[*]:+, FAILED: ${failed[*]}}"
[ ${#failed[@]} -eq 0 ]
