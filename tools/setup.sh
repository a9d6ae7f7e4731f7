#!/usr/bin/env bash
# Installs what Evros needs from Debian 12's own packages, and only what is missing.
#   tools/setup.sh build    compiler, CMake, libraries: enough for `make build` and `make run`
#   tools/setup.sh test     the same, then the test tools and a Python environment in build/venv
# Prints nothing when nothing is missing. Runs as root, or through sudo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(make g++ cmake ninja-build pkg-config
  libboost1.81-dev libboost-json1.81-dev libssl-dev zlib1g-dev libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev
  libedit-dev libbsd-dev libmd-dev libncurses-dev)
test_packages=(git libgtest-dev libbenchmark-dev librapidcheck-dev clang-14 libclang-rt-14-dev clang-format-14 xz-utils
  spin gcc ccache chromium chromium-driver g++-aarch64-linux-gnu qemu-user)

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo --preserve-env=DEBIAN_FRONTEND "$@"; fi
}

install_packages() {
  local missing=() package started=$SECONDS log
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    fail "these packages are missing, and installing them needs root or sudo: ${missing[*]}. As root: apt-get install ${missing[*]}"
  fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  if ! as_root apt-get update -qq >"$log" 2>&1; then
    say "apt-get update failed; going on with the package lists that are there"
  fi
  if ! as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    fail "apt-get install failed (its last lines stand above); Evros is built on Debian 12, where all of these exist"
  fi
  rm -f "$log"
  say "packages installed in $((SECONDS - started)) s"
}

# A Python environment with the pinned packages of tools/requirements.txt, rebuilt when that file changes.
install_python() {
  local started=$SECONDS log
  cmp -s tools/requirements.txt build/venv/requirements.txt && return 0
  command -v python3 >/dev/null || install_packages python3
  python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
  say "making the Python environment build/venv"
  mkdir -p build
  log=$(mktemp)
  if ! { rm -rf build/venv && python3 -m venv build/venv &&
         build/venv/bin/python -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    fail "the Python environment could not be made (last lines above)"
  fi
  rm -f "$log"
  cp tools/requirements.txt build/venv/requirements.txt
  say "Python environment ready in $((SECONDS - started)) s"
}

[ -r /etc/debian_version ] && command -v apt-get >/dev/null || {
  command -v cmake >/dev/null && exit 0
  fail "this script knows Debian's apt-get only; install the packages of README.md, 'Dependencies', by hand"
}
case "${1:-}" in
  build) install_packages "${build_packages[@]}" ;;
  test) install_packages "${build_packages[@]}" "${test_packages[@]}"; install_python ;;
  *) printf 'usage: tools/setup.sh build|test\n' >&2; exit 2 ;;
esac
