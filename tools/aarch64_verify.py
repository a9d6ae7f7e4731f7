"""Runs `evros verify` on the micro models with the aarch64 program under qemu-user and with the release program of this
machine. Every check of the partition table must pass on both, and both must print the same digest of every owner."""
import concurrent.futures
import json
import os
import subprocess
import sys

EMULATED = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "build/aarch64/evros"]
NATIVE = ["build/release/evros"]
MICRO = "build/release/micro/hf"
GGUF = "build/release/micro/gguf/micro-{}.gguf"
CASES = [(MICRO, "f32"), (MICRO, "f16"), (MICRO, "bf16"), *((GGUF.format(kind), "f16") for kind in ("f32", "q8_0", "q4_0"))]
TOKENS = 72  # sparse attention of the micro model begins after 24, the second page after 64
NOT_HERE = {"CUDA"}  # checks that need not be made
BUDGETS = (40, 200)  # seconds; the second when a busy machine did not reach the end with the first


def verify(program, model, kv):
    for budget in BUDGETS:
        command = [*program, "verify", model, "--json", "--threads", "1", "--kv", kv, "--tokens", str(TOKENS),
                   "--budget", str(budget)]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.stdout:
            raise SystemExit(f"aarch64: {' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        report = json.loads(done.stdout)
        if not any(check["note"] == "the time was over" for check in report["checks"]):
            break
    return report


def problems(where, report):
    if not report["passed"]:
        yield f"not passed on {where}"
    for check in report["checks"]:
        if check["outcome"] != "passed" and check["check"] not in NOT_HERE:
            yield f"{check['check']} on {where}: {check['outcome']}: {check['note']}"


def compare(case):
    model, kv = case
    name = f"{os.path.basename(model)}, kv {kv}"
    arm, here = verify(EMULATED, model, kv), verify(NATIVE, model, kv)
    found = [*problems("aarch64", arm), *problems("this machine", here)]
    for key in ("identity", "numerics", "tokens"):
        if arm[key] != here[key]:
            found.append(f"{key} is {arm[key]} on aarch64 and {here[key]} here")
    for owner, digest in here["digests"].items():
        if arm["digests"].get(owner) != digest:
            found.append(f"the digest of {owner} is {arm['digests'].get(owner)} on aarch64 and {digest} here")
    if found:
        print(f"aarch64: {name}:", *found, sep="\n  ", flush=True)
        return False
    print(f"aarch64: {name}: {sum(check['cases'] for check in arm['checks'])} cases, digests of {len(here['digests'])} owners "
          f"as with {here['kernels']}, {here['digests']['combined']}; {arm['seconds']:.0f} s", flush=True)
    return True


def main():
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        equal = sum(pool.map(compare, CASES))
    print(f"aarch64: {equal} of {len(CASES)} equal")
    return 0 if equal == len(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
