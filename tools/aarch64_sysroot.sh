#!/usr/bin/env bash
# Unpacks the arm64 libraries that Evros links into build/aarch64-sysroot, from Debian's own packages, without enabling that
# architecture on this machine. Does nothing when the same list of packages lies there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(libboost1.81-dev libboost-json1.81-dev libboost-container1.81-dev libboost-system1.81-dev
  libssl-dev libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev
  libedit-dev libbsd-dev libmd-dev libncurses-dev)
sysroot=build/aarch64-sysroot
work=$PWD/build/aarch64-packages

[ "$(cat "$sysroot/packages" 2>/dev/null)" != "${packages[*]}" ] || exit 0

fail() {
  tail -n 10 "$work/log" >&2
  printf 'aarch64: %s\n' "$1" >&2
  exit 1
}

rm -rf "$sysroot" "$work"
mkdir -p "$sysroot" "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
# Lists and cache of our own; sources and keys are those of this machine.
apt_get() {
  apt-get -qq -oAPT::Architecture=arm64 -oAPT::Architectures=arm64 -oAPT::Sandbox::User= \
    -oDir::State::Lists="$work/lists" -oDir::Cache="$work/cache" "$@"
}
apt_get update --error-on=any >"$work/log" 2>&1 ||
  fail "the lists of Debian's arm64 packages cannot be fetched; the aarch64 build needs them, so this machine must reach its Debian mirror"
(cd "$work/debs" && apt_get download "${packages[@]}") >"$work/log" 2>&1 ||
  fail "Debian's arm64 packages cannot be fetched (${packages[*]}); the aarch64 build needs them"
for package in "$work"/debs/*.deb; do dpkg -x "$package" "$sysroot"; done
rm -rf "$work"
echo "${packages[*]}" >"$sysroot/packages"
