#!/usr/bin/env bash
# setup.sh GROUP...: installs what a part of the project needs, and nothing twice. The one list of what that is.
# Debian packages come through apt (as root, or with sudo), Python packages go into .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

apt_build="g++ cmake ninja-build pkg-config libfmt-dev libcli11-dev nlohmann-json3-dev libpng-dev zlib1g-dev libgtest-dev libbenchmark-dev"
apt_python="python3 python3-dev python3-venv"
apt_lint="clang-format-14 clang-tidy-14"
apt_fuzz="clang libclang-rt-dev"
apt_ci="make ccache"
apt_bench="libopenblas-dev"

say() { printf '%s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

missing_packages() {
    for package in "$@"; do
        # shellcheck disable=SC2016 # the dollar is dpkg's
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

apt_install() {
    command -v dpkg-query >/dev/null || { say "no apt here: install what Debian calls: $*"; return; }
    local missing
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    say "installing" $missing
    as_root apt-get -qq update
    # shellcheck disable=SC2086 # a list
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >&2
}

# pip_install NAME ARGUMENT...: once for each content of the requirement files among the arguments.
pip_install() {
    local name=$1 stamp key
    shift
    [ -x .venv/bin/python ] || python3 -m venv .venv
    stamp=.venv/.installed-$name
    key=$( (echo "$@"; for file in "$@"; do if [ -f "$file" ]; then cat "$file"; fi; done) | sha256sum)
    [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && return
    say "installing Python packages for $name into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
    echo "$key" >"$stamp"
}

for group in "$@"; do
    case $group in
        build) apt_install $apt_build ;;
        demo) apt_install $apt_python && pip_install demo --no-deps -r examples/demo/requirements.txt ;;
        test) apt_install $apt_python && pip_install test -r scripts/requirements-test.txt ;;
        torch) apt_install $apt_python && pip_install torch -r scripts/requirements-torch.txt ;;
        bench) apt_install $apt_bench $apt_python && pip_install bench -r bench/requirements.txt ;;
        lint) apt_install $apt_lint $apt_python && pip_install lint -r scripts/requirements-lint.txt ;;
        fuzz) apt_install $apt_fuzz ;;
        ci) apt_install $apt_ci ;;
        *) say "setup.sh: no group '$group'; there are: build demo test torch bench lint fuzz ci" && exit 2 ;;
    esac
done
