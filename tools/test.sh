#!/usr/bin/env bash
# Runs the tests. Every step prints its name and its seconds; the first failure ends the run and says what failed; the last
# line counts test cases.
#   tools/test.sh ci            what CI runs: under half an hour on two cores from a clean clone
#   tools/test.sh all SECONDS   everything: all folders under every sanitizer, exhaustive arithmetic, every fuzz target for SECONDS
#   tools/test.sh exhaustive    the arithmetic on every input
#   tools/test.sh fuzz SECONDS  every fuzz target for SECONDS each
#   tools/test.sh tidy          the rules of CONTRIBUTING.md
# Which folders a preset tests stands in CMakePresets.json; fuzz targets are whatever src/**/*_fuzz.cc there are.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${JOBS:-$(nproc)}
passed=0
failed=0
step_name=start
logs=build/logs
mkdir -p "$logs"

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache}
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
fi

finish() { printf '%d passed, %d failed\n' "$passed" "$failed"; }
trap 'code=$?; if [ $code -ne 0 ]; then [ $failed -gt 0 ] || failed=1; echo "test: FAILED in step: $step_name"; finish; fi' EXIT

# step NAME COMMAND...: runs it, prints how long it took.
step() {
  local started=$SECONDS
  step_name=$1
  shift
  printf '== %s\n' "$step_name"
  "$@"
  printf '== %s: %d s\n' "$step_name" $((SECONDS - started))
}

# Prints a command's output only when it fails.
quietly() {
  local log=$logs/last
  if ! "$@" >"$log" 2>&1; then
    tail -n 80 "$log"
    return 1
  fi
}

build_tests() {  # PRESET [cmake options]
  quietly cmake --preset "$@"
  quietly cmake --build "build/$1" -j "$jobs" --target evros_tests
}

# Adds the test cases of the last ctest run to the totals. A case that skipped itself counts as failed: what cannot be tested
# here must be said in the test's own terms, not by silence.
count_cases() {  # PRESET
  local log=build/$1/Testing/Temporary/LastTest.log skipped
  passed=$((passed + $(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log" | awk '{s += $1} END {print s + 0}')))
  passed=$((passed + $(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} in .*/\1/p' "$log" | awk '{s += $1} END {print s + 0}')))
  failed=$((failed + $(sed -n 's/^ *\([0-9]*\) FAILED TESTS\{0,1\}$/\1/p' "$log" | awk '{s += $1} END {print s + 0}')))
  skipped=$(grep -c '^\[  SKIPPED \] .* ms)' "$log" || true)
  if [ "$skipped" -gt 0 ]; then
    grep '^\[  SKIPPED \] .* ms)' "$log"
    failed=$((failed + skipped))
    return 1
  fi
}

run_tests() {  # PRESET [gtest filter]
  local status=0
  GTEST_FILTER=${2:-*} ctest --test-dir "build/$1" -j "$jobs" --no-tests=error --output-on-failure --timeout 3600 || status=1
  grep '^sim: ' "build/$1/Testing/Temporary/LastTest.log" || true  # how many faults, and what they left
  count_cases "$1" || status=1
  return $status
}

preset() {  # PRESET FILTER [cmake options]: build and run
  local name=$1 filter=$2
  shift 2
  step "$name: build" build_tests "$name" "$@"
  step "$name: test" run_tests "$name" "$filter"
}

run_tidy() {
  local output
  output=$(python3 tools/tidy_test.py 2>&1) || { printf '%s\n' "$output"; return 1; }
  passed=$((passed + $(sed -n 's/^Ran \([0-9]*\) test.*/\1/p' <<<"$output")))
  python3 tools/tidy.py
  git ls-files -z '*.cc' '*.h' '*.cu' | xargs -0 -r clang-format-14 --dry-run -Werror 2>&1 | grep -E 'error|warning' >"$logs/format" || true
  if [ -s "$logs/format" ]; then
    cut -d: -f1 "$logs/format" | sort | uniq -c
    echo "not formatted: run make format"
    return 1
  fi
}

# The model of publication, docs/publication.pml.
check_model() {
  tools/check_model.sh | tee "$logs/model"
  passed=$((passed + $(sed -n 's/^model: \([0-9]*\) checks passed$/\1/p' "$logs/model")))
}

# Tests that must notice a broken tree. In the preset that has just been built, so that little is compiled.
check_mutants() {  # [--ci]
  MUTATE_PRESET=release tools/mutate.sh "$@" | tee "$logs/mutants"
  passed=$((passed + $(sed -n 's/^mutate: \([0-9]*\) of .* caught$/\1/p' "$logs/mutants")))
}

# The scalar program for 64-bit ARM under qemu-user: digests as with build/release.
check_aarch64() {
  tools/aarch64.sh | tee "$logs/aarch64"
  passed=$((passed + $(sed -n 's/^aarch64: \([0-9]*\) of .* equal$/\1/p' "$logs/aarch64")))
}

fuzz_one() {  # NAME SECONDS
  local corpus=build/fuzz/corpus/$1 seeds=() folder
  mkdir -p "$corpus" build/fuzz/findings
  for folder in "tests/fuzz/$1" "build/fuzz/seeds/$1"; do [ ! -d "$folder" ] || seeds+=("$folder"); done
  if ! "build/fuzz/$1" -max_total_time="$2" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/findings/$1-" "$corpus" ${seeds[@]+"${seeds[@]}"} >"$logs/$1" 2>&1; then
    tail -n 60 "$logs/$1"
    echo "fuzz: $1 failed; the input lies in build/fuzz/findings"
    return 1
  fi
  printf 'fuzz: %s: %s inputs\n' "$1" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$1")"
}
export -f fuzz_one
export logs

build_fuzzers() {
  quietly cmake --preset fuzz
  [ -s build/fuzz/fuzzers.txt ] || { echo "no src/**/*_fuzz.cc was found"; return 1; }
  quietly cmake --build build/fuzz -j "$jobs" --target evros_fuzzers
}

# Every template whose text is known is a seed.
seed_templates() {
  mkdir -p build/fuzz/seeds/jinja_fuzz
  cp models/evros-tiny/chat_template.jinja build/fuzz/seeds/jinja_fuzz/
  python3 -c '
import json
for i, case in enumerate(json.load(open("tests/data/jinja_golden.json"))["cases"]):
    open(f"build/fuzz/seeds/jinja_fuzz/{i}", "w").write(case["template"])'
}

run_fuzzers() {  # SECONDS
  seed_templates
  xargs -P 2 -I{} bash -c 'fuzz_one {} '"$1"' || exit 255' <build/fuzz/fuzzers.txt
  passed=$((passed + $(wc -l <build/fuzz/fuzzers.txt)))
}

# The CUDA library, for sm_90a; what it computes is checked by tools/gpu_check.sh on machines with a GPU.
compile_cuda() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "cuda: not compiled, this machine has no nvcc"
    return
  fi
  quietly cmake --preset cuda
  quietly cmake --build build/cuda -j "$jobs" --target evros_cuda
}

exhaustive() {
  quietly cmake --preset release
  quietly cmake --build build/release -j "$jobs" --target kernels_test
  build/release/kernels_test --gtest_also_run_disabled_tests --gtest_filter='*Exhaustive*' | tee "$logs/exhaustive"
  local count
  count=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$logs/exhaustive")
  [ "${count:-0}" -gt 0 ] || { echo "no test named *Exhaustive* ran"; return 1; }
  passed=$((passed + count))
}

step "setup" tools/setup.sh test
case "${1:-ci}" in
  ci)
    step "tidy" run_tidy
    step "model of publication" check_model
    preset release '*'
    step "aarch64" check_aarch64
    step "cuda: compile" compile_cuda
    step "mutants" check_mutants --ci
    preset clang '*'
    EVROS_SIM_SECONDS=5 preset asan '-*Slow*'
    preset tsan '-*Slow*'
    step "fuzz: build" build_fuzzers
    step "fuzz: 30 s each" run_fuzzers 30 ;;
  all)
    step "tidy" run_tidy
    step "model of publication" check_model
    for name in release clang asan tsan; do preset "$name" '*' -DEVROS_TEST_FOLDERS=; done
    step "aarch64" check_aarch64
    step "mutants" check_mutants
    step "exhaustive arithmetic" exhaustive
    step "fuzz: build" build_fuzzers
    step "fuzz: ${2:-600} s each" run_fuzzers "${2:-600}" ;;
  exhaustive) step "exhaustive arithmetic" exhaustive ;;
  fuzz)
    step "fuzz: build" build_fuzzers
    step "fuzz: ${2:-30} s each" run_fuzzers "${2:-30}" ;;
  tidy) step "tidy" run_tidy ;;
  *) echo "usage: tools/test.sh ci|all|exhaustive|fuzz [SECONDS]|tidy"; exit 2 ;;
esac
finish
