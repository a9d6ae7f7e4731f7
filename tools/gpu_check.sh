#!/usr/bin/env bash
# tools/gpu_check.sh [BUILD]: the CUDA device, checked and timed on a machine with a GPU. Prints one table and ends with a line
# PASS or FAIL, which is also its exit code. Every step has a time limit; all together take under six minutes.
#
# BUILD (default build/cuda) is a build folder of the preset `cuda`, made on this machine or on one without a GPU. Of it are
# used: evros, libevros_cuda.so, evros_cuda_bits, evros_cuda_lost and micro/gguf/micro-f32.gguf; beside them
# models/evros-tiny of this tree. Nothing else is needed but a driver. The program cannot be built with CUDA, CMake, ninja and a
# compiler alone: its readers need Boost.JSON, PCRE2 and the other packages of tools/setup.sh.
set -u
cd "$(dirname "$0")/.."
build=${1:-build/cuda}
evros=$build/evros
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
table=$work/table
failed=0
start=$SECONDS
most=355  # seconds for everything

row() { printf '  %-34s %-11s %s\n' "$1" "$2" "$3" >> "$table"; printf '%4d s  %-34s %-11s %s\n' $((SECONDS - start)) "$1" "$2" "$3"; }
fail() { failed=1; row "$1" FAILED "$2"; }

# step NAME SECONDS COMMAND...: runs it into $work/out; passes when it exits with 0 in time.
step() {
  local name=$1 limit=$2 left=$((most - (SECONDS - start)))
  shift 2
  if [ "$left" -le 1 ]; then fail "$name" "no time was left"; return 1; fi
  [ "$limit" -gt "$left" ] && limit=$left
  timeout -k 5 "$limit" "$@" > "$work/out" 2> "$work/err"
  local code=$?
  [ $code -eq 0 ] && return 0
  local why
  why=$(grep -hE 'FAILED|error|evros:' "$work/out" "$work/err" | head -n 1 | cut -c 1-160)
  [ $code -eq 124 ] && why="it took more than $limit seconds. $why"
  fail "$name" "exit $code: $why"
  sed 's/^/    | /' "$work/out" "$work/err" | tail -n 25
  return 1
}

echo "machine: $(timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader 2> /dev/null || echo 'nvidia-smi does not run')"
if [ ! -x "$evros" ]; then echo "FAIL: there is no $evros"; exit 1; fi

# ---- the kernels, one by one
if [ -x "$build/evros_cuda_bits" ]; then
  if step "kernel bits" 100 "$build/evros_cuda_bits" --gtest_brief=1; then
    ran=$(sed -n 's/^\[==========\] \(.* ran\)\..*/\1/p' "$work/out" | tail -n 1)
    if [ -n "$ran" ]; then row "kernel bits" passed "$ran"; else fail "kernel bits" "no test ran: $(head -n 1 "$work/out")"; fi
  fi
else
  row "kernel bits" "not run" "$build has no evros_cuda_bits"
fi

# ---- the models: micro in F32, the bundled one in four types, made here
micro=$build/micro/gguf/micro-f32.gguf
models=("$micro")
for type in bf16 q8_0 q4_0 q4_k; do
  step "convert $type" 40 "$evros" convert models/evros-tiny "$work/tiny-$type.gguf" --type "$type" -q && models+=("$work/tiny-$type.gguf")
done

# ---- every owner and every logit over the partition table, against the CPU
for model in "${models[@]}"; do
  for kv in f32 f16; do
    name="verify $(basename "$model" .gguf) kv=$kv"
    budget=10 tokens=96
    # Once with texts that are long enough for sparse attention in the bundled model.
    [ "$(basename "$model") $kv" = "tiny-q8_0.gguf f16" ] && budget=34 tokens=320
    if step "$name" $((budget + 25)) "$evros" verify "$model" --device cuda --kv "$kv" --budget $budget --tokens $tokens; then
      note=$(grep -E 'faults injected' "$work/out" | sed 's/: passed//')
      skipped=$(grep -cE ' not checked ' "$work/out")
      if grep -q 'on cuda:0' "$work/out"; then row "$name" passed "$note; $skipped rows not checked"; else fail "$name" "it did not run on cuda:0"; fi
      compared=$(grep -cE 'CPU and cuda:0 .* passed' "$work/out")
      [ "$compared" -eq 3 ] || fail "$name" "of owners, logits and snapshots, $compared of 3 were compared with the CPU"
      equal=$(awk '$1 ~ /^(gdn|ple|index|residual|routes|logits|position|kv_rows|tokens|frontier)/ && $2 != $3' "$work/out")
      [ -z "$equal" ] || fail "$name" "owners differ: $equal"
    fi
  done
done

# ---- a session saved by one process on one device, and gone on with by another on the other
ids=$(seq -s, 5 7 480)
for pair in "cpu cuda" "cuda cpu"; do
  set -- $pair
  name="snapshot from $1 to $2"
  snap=$work/$1.evros
  step "$name" 30 "$evros" snapshot save "$micro" "$snap" --tokens "$ids" --device "$1" --json || continue
  step "$name" 30 "$evros" snapshot restore "$micro" "$snap" --greedy 12 --device "$2" --json || continue
  cp "$work/out" "$work/there"
  step "$name" 30 "$evros" snapshot restore "$micro" "$snap" --greedy 12 --device "$1" --json || continue
  if cmp -s "$work/out" "$work/there"; then row "$name" passed "12 greedy tokens and every digest equal"; else fail "$name" "tokens or digests differ"; fi
done

# ---- what goes wrong
if [ -x "$build/evros_cuda_lost" ]; then
  if step "faults on the GPU" 60 "$build/evros_cuda_lost" "$micro"; then
    row "faults on the GPU" passed "$(grep -c '^lost: passed' "$work/out") checks"
  fi
  grep '^lost:' "$work/out" | sed 's/^lost: /      /' | cut -c 1-220
else
  row "faults on the GPU" "not run" "$build has no evros_cuda_lost"
fi

# ---- figures: a model of the real widths with random weights
if step "synth" 60 "$evros" synth "$work/real.gguf" --layers 8 --experts 64 --type q8_0 -q; then
  if step "bench" 60 "$evros" bench "$work/real.gguf" --device cuda --contexts 512,2048 --prompt 256 --rounds 3 --budget 40 --max-context 4096; then
    cp "$work/out" "$work/speed"
    row "bench" done "$(awk '$1 == 512 {print $5 " tokens/s decoded at 512, " $6 " % of what a copy moves; prefill " $2 " tokens/s"}' "$work/out")"
  fi
  if step "bench --stages" 60 "$evros" bench "$work/real.gguf" --device cuda --stages --prompt 256 --decode 16 --max-context 1024; then
    cp "$work/out" "$work/stages"
    row "bench --stages" done "most expensive: $(awk '/^kernels/{on=1; next} on && n < 3 {printf "%s%s %s %%", n ? ", " : "", $1, $4; n++}' "$work/out")"
  fi
fi

# ---- the sanitizer, where the machine has one and lets it work
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null)
for tool in memcheck racecheck; do
  if [ -z "$sanitizer" ]; then row "$tool" "not run" "this machine has no compute-sanitizer"; continue; fi
  left=$((most - (SECONDS - start)))
  if [ $left -lt 10 ]; then row "$tool" "not run" "no time was left"; continue; fi
  timeout -k 5 $((left < 45 ? left : 45)) "$sanitizer" --tool $tool --error-exitcode 9 "$evros" trace "$micro" --device cuda --tokens "$(seq -s, 3 5 200)" \
    --chunks 24,1,1 --ctx 64 --out "$work/trace.safetensors" > "$work/out" 2>&1
  code=$?
  last=$(grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$work/out" | tail -n 1)
  if [ $code -eq 0 ] && [ -n "$last" ]; then row $tool passed "$last"
  elif [ $code -eq 9 ]; then fail $tool "$last"; sed 's/^/    | /' "$work/out" | head -n 30
  else row $tool "not run" "it does not work here (exit $code): $(grep -m 1 -iE 'error|fail|unable|not' "$work/out" | cut -c 1-120)"; fi
done

echo
for part in speed stages; do [ -f "$work/$part" ] && { cat "$work/$part"; echo; }; done
cat "$table"
echo
[ $failed -eq 0 ] && result=PASS || result=FAIL
echo "$result: $((SECONDS - start)) seconds"
exit $failed
