#!/usr/bin/env bash
# Cross-compiles the program for 64-bit ARM, runs `evros verify` on every micro model under qemu-user, and compares the
# digests with those of build/release/evros on this machine (tools/aarch64_verify.py).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${JOBS:-$(nproc)}
log=build/aarch64.log
quietly() {
  "$@" >"$log" 2>&1 || { tail -n 60 "$log"; exit 1; }
}

mkdir -p build
tools/aarch64_sysroot.sh
started=$SECONDS
quietly cmake --preset aarch64
quietly cmake --build build/aarch64 -j "$jobs" --target evros
[ -e build/release/build.ninja ] || quietly cmake --preset release
quietly cmake --build build/release -j "$jobs" --target evros
printf 'aarch64: built in %d s\n' $((SECONDS - started))
exec python3 tools/aarch64_verify.py
