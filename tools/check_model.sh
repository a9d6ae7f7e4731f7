#!/usr/bin/env bash
# Checks docs/publication.pml with spin: the model in every interleaving, and that each variant without one of its parts is
# found wrong. Prints a line for each; the last one counts them. Under a minute and under 1 GB on a quiet machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

model=$PWD/docs/publication.pml
work=build/model
passed=0
mkdir -p "$work"
cd "$work"

# Leaves the search's report in ./log.
search() {  # MACROS...
  rm -f pan pan.c ./*.trail
  spin "$@" -a "$model" >log
  gcc -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=1000 -DVECTORSZ=1024 -o pan pan.c
  ./pan -m10000 >log 2>&1 || true
}

fail() {
  cat log
  printf 'model: %s\n' "$1" >&2
  exit 1
}

# The whole space was searched, nothing is wrong in it, and no statement of the model is dead.
holds() {  # NAME MACROS...
  local started=$SECONDS
  search "${@:2}"
  grep -q "^Full statespace search" log || fail "$1: the search did not run"
  grep -q " errors: 0$" log || fail "$1: an assertion is violated"
  ! grep -Eq 'max search depth too small|out of memory|reached -DMEMLIM|aborted' log || fail "$1: not searched to the end"
  [ "$(grep -c '^unreached in' log)" -eq "$(grep -c '(0 of ' log)" ] || fail "$1: parts of the model are never reached"
  printf 'model: %s: holds in all %s states, %d s\n' "$1" "$(sed -n 's/^ *\([0-9]*\) states, stored$/\1/p' log)" $((SECONDS - started))
  passed=$((passed + 1))
}

# Spin finds this assertion violated.
breaks() {  # NAME ASSERTION MACROS...
  search "${@:3}"
  grep -Fq "assertion violated" log || fail "$1: no assertion is violated, so the model does not need what it lost"
  grep -F "assertion violated" log | grep -Fq "$2" || fail "$1: another assertion than $2 is violated"
  printf 'model: %s: found wrong, as it must be: %s\n' "$1" "$(sed -n 's/^pan:1: assertion violated \(.*\) (at depth.*/\1/p' log)"
  passed=$((passed + 1))
}

holds "two readers" -DREADERS=2 -DROUNDS=1 -DVIEWS=1
holds "a reader twice" -DREADERS=1 -DROUNDS=1 -DVIEWS=2
holds "records reused" -DREADERS=1 -DROUNDS=2 -DVIEWS=1 -DRECORDS=3
breaks NO_LOCK 'record[next].image[0]==shown[0]' -DNO_LOCK -DREADERS=1 -DROUNDS=2 -DVIEWS=1
breaks NO_PIN 'stamp[s]==seen' -DNO_PIN -DREADERS=1 -DROUNDS=2 -DVIEWS=1 -DRECORDS=3
breaks NO_RECHECK 'reading[next]==0' -DNO_RECHECK -DREADERS=1 -DROUNDS=2 -DVIEWS=1 -DRECORDS=3
breaks NO_RESERVE 'next!=' -DNO_RESERVE -DREADERS=1 -DROUNDS=1 -DVIEWS=1 -DRECORDS=2
printf 'model: %d checks passed\n' "$passed"
