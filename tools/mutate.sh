#!/usr/bin/env bash
# Do the tests notice? Breaks one thing at a time in a copy of the tree and expects the named tests to fail.
#   tools/mutate.sh             every patch in tools/mutations
#   tools/mutate.sh --ci        five cheap ones
#   tools/mutate.sh NAME...     these
# A patch begins with lines "red: PROGRAM FILTER": each of these test selections must pass without the patch and fail with
# it. Exit 1 when a mutant survives, does not build, or no longer applies. The copy is build/mutate/tree, with the changes
# of this working tree that git knows, built with the preset dev, or MUTATE_PRESET.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ci=(status_word_ignored cancel_skipped_at_the_end ngram_history_lost copy_on_write_removed index_tail_not_carried)
patches=$PWD/tools/mutations
tree=$PWD/build/mutate/tree
log=$PWD/build/mutate/log
preset=${MUTATE_PRESET:-dev}
jobs=${JOBS:-$(nproc)}
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1
fi

case "${1:-}" in
  --ci) names=("${ci[@]}") ;;
  "") names=(); for file in "$patches"/*.patch; do names+=("$(basename "$file" .patch)"); done ;;
  -*) echo "usage: tools/mutate.sh [--ci | NAME...]" >&2; exit 2 ;;
  *) names=("$@") ;;
esac

fail() {
  printf 'mutate: %s\n' "$1" >&2
  exit 1
}

reds() { sed -n 's/^red: //p' "$patches/$1.patch"; }  # NAME

build() {  # NAME...: the programs of these mutants
  local name targets
  mapfile -t targets < <(for name in "$@"; do reds "$name"; done | cut -d' ' -f1 | sort -u)
  cmake --build "$tree/build/$preset" -j "$jobs" --target "${targets[@]}" >"$log" 2>&1
}

# 0: passed; 1: failed, crashed or hung. The selection must hold at least one test.
run_tests() {  # PROGRAM FILTER
  local binary
  binary=$(find "$tree/build/$preset" -maxdepth 2 -name "$1" -type f)
  { timeout 120 "$binary" --gtest_filter="$2" >"$log" 2>&1; } 2>/dev/null || return 1  # the shell need not say "Aborted"
  grep -q '^\[  PASSED  \] [1-9]' "$log" || fail "$1 has no test $2"
}

# Whether a race shows is a matter of chance, above all on a busy machine: green is five times green.
stays_green() {  # PROGRAM FILTER
  local i
  for i in 1 2 3 4 5; do run_tests "$@" || return 1; done
}

clean_tree() { git -C "$tree" checkout -q -f -- .; }

prepare() {
  local commit
  commit=$(git stash create)
  commit=${commit:-$(git rev-parse HEAD)}
  git worktree prune
  if [ -d "$tree" ]; then
    clean_tree
    git -C "$tree" checkout -q --detach "$commit"
  else
    git worktree add -q --detach "$tree" "$commit"
  fi
  mkdir -p "$tree/build"
  ln -sfn "$PWD/build/venv" "$tree/build/venv"
  (cd "$tree" && cmake --preset "$preset") >"$log" 2>&1 || { tail -n 20 "$log"; fail "the copy could not be configured"; }
  build "${names[@]}" || { tail -n 40 "$log"; fail "the copy does not build without any mutation"; }
  for name in "${names[@]}"; do
    while read -r program filter; do
      run_tests "$program" "$filter" || { tail -n 40 "$log"; fail "$program $filter fails without any mutation"; }
    done < <(reds "$name")
  done
}

# Prints one row of the table; 1 when the mutant is not caught by every selection of its patch.
try_mutant() {  # NAME
  local started=$SECONDS verdict=caught survived=() program filter
  clean_tree
  if ! patch -d "$tree" -p1 -l -F3 -s <"$patches/$1.patch" >"$log" 2>&1; then
    verdict="DOES NOT APPLY"
  elif ! build "$1"; then
    grep -m 3 'error' "$log" || true
    verdict="DOES NOT BUILD"
  else
    while read -r program filter; do
      if stays_green "$program" "$filter"; then survived+=("$program $filter"); fi
    done < <(reds "$1")
    [ ${#survived[@]} -eq 0 ] || verdict="SURVIVED"
  fi
  printf '%-28s %-15s %4d s\n' "$1" "$verdict" $((SECONDS - started))
  [ ${#survived[@]} -eq 0 ] || printf '    still green: %s\n' "${survived[@]}"
  [ "$verdict" = caught ]
}

mkdir -p "$(dirname "$tree")"
for name in "${names[@]}"; do
  [ -r "$patches/$name.patch" ] || fail "there is no tools/mutations/$name.patch"
  [ -n "$(reds "$name")" ] || fail "tools/mutations/$name.patch does not say which tests must fail"
done
prepare
caught=0
for name in "${names[@]}"; do
  if try_mutant "$name"; then caught=$((caught + 1)); fi
done
clean_tree
printf 'mutate: %d of %d mutants caught\n' "$caught" "${#names[@]}"
[ "$caught" -eq "${#names[@]}" ]
