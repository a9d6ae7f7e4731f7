#!/usr/bin/env python3
"""The memory plan: what it says beside what the kernel counts, and what is refused before anything starts."""
import json
import os
import pty
import resource
import subprocess
import tempfile
import threading
import unittest

from sanitizer import without_sanitizer
from server import Server

EVROS = os.environ["EVROS"]
TINY = os.path.join(os.environ["EVROS_SOURCE_DIR"], "models", "evros-tiny")
MIB = 1 << 20


def plan_of(model, *options, limit=None):
    done = subprocess.run([EVROS, "inspect", model, "--json", *options], capture_output=True, text=True, preexec_fn=limited(limit))
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)["plan"]


def limited(bytes_):
    return bytes_ and (lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_)))


def watched(arguments, limit=None):
    """(exit code, standard error, most bytes that were resident)"""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen([EVROS, *arguments], stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=limited(limit))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return child.returncode, errors.read().decode(), usage.ru_maxrss * 1024


class Words(unittest.TestCase):
    def test_inspect_shows_what_was_asked_and_what_is_done(self):
        done = subprocess.run([EVROS, "inspect", TINY, "--ctx", "2048", "--ple", "ram", "--memory-mb", "500"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        plan = done.stdout[done.stdout.index("memory plan"):]
        for words in ("context 2048, n-gram table in memory, memory 500.0 MiB", "context 2048 (as asked)", "500.0 MiB (as asked)",
                      "found: available memory", "experts", "shared experts", "hyper-connections", "head", "draft head", "together",
                      "one more session", "1024 more tokens", "largest context", "fits"):
            self.assertIn(words, plan)

    def test_json_has_the_same_and_adds_up(self):
        plan = plan_of(TINY, "--ctx", "2048")
        groups = {group["name"]: group for group in plan["groups"]}
        self.assertEqual(groups["n-gram table"]["place"], "frames")
        self.assertEqual(groups["draft head"]["place"], "disk")
        self.assertEqual(sum(group["memory_bytes"] for group in plan["groups"]), plan["weight_bytes"] + plan["table_memory_bytes"])
        parts = ("weight_bytes", "table_memory_bytes", "tables_bytes", "scratch_bytes", "buffer_bytes", "program_bytes", "caller_bytes")
        self.assertEqual(sum(plan[part] for part in parts) + plan["banks"] * plan["bank_bytes"] + plan["pages"] * plan["page_bytes"],
                         plan["total_bytes"])
        self.assertEqual((plan["context"], plan["context_choice"], plan["fits"]), (2048, "asked", True))
        self.assertTrue(any(limit["name"] == "available memory" for limit in plan["limits"]))

    def test_what_does_not_fit_is_refused_before_anything_starts(self):
        needed = plan_of(TINY)["total_bytes"] // MIB
        for command in (["run", TINY, "-p", "hello", "-n", "1"], ["serve", TINY, "--port", "0"], ["bench", TINY, "--stages"],
                        ["perplexity", TINY, "-f", os.path.join(TINY, "samples.md")]):
            done = subprocess.run([EVROS, *command, "--memory-mb", str(needed // 3)], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""), command)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            for words in ("of memory are needed and ", f"{needed // 3}.0 MiB may be used (as asked)", "experts 6.0 MiB", "scratch"):
                self.assertIn(words, done.stderr)
        plan = plan_of(TINY, "--memory-mb", str(needed // 3))
        self.assertFalse(plan["fits"])
        self.assertIn("of memory are needed", plan["refused"])

    def test_a_context_that_memory_shortened_is_said(self):
        needed = plan_of(TINY)["total_bytes"] // MIB
        done = subprocess.run([EVROS, "run", TINY, "-p", "hello", "-n", "1", "--memory-mb", str(needed - 8)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^memory: \d+\.\d MiB of \d+\.\d MiB \(as asked\): weights 2\d\.\d MiB, n-gram table ")
        self.assertRegex(done.stderr, r"(?m)^context: \d+ tokens, the longest that fits; 4096 would take \d+\.\d MiB$")

    def test_a_small_model_is_loaded_without_a_word(self):
        done = subprocess.run([EVROS, "run", TINY, "-p", "hello", "-n", "1"], capture_output=True, text=True)
        self.assertNotIn("memory", done.stderr)
        self.assertNotIn("loading", done.stderr)

    def test_a_terminal_sees_the_weights_being_loaded(self):
        terminal, other_end = pty.openpty()
        seen = []

        def read():
            try:
                while part := os.read(terminal, 4096):
                    seen.append(part)
            except OSError:  # the other end was closed
                pass

        reader = threading.Thread(target=read)
        reader.start()
        done = subprocess.run([EVROS, "run", TINY, "-p", "hello", "-n", "1"], stdout=subprocess.PIPE, stderr=other_end)
        os.close(other_end)
        reader.join(10)
        os.close(terminal)
        shown = b"".join(seen).decode()
        self.assertEqual(done.returncode, 0)
        self.assertRegex(shown, r"loading \[[#.]{24}\] +\d+%  \d+\.\d \w+ of \d+\.\d MiB")
        self.assertIn("100%", shown)
        self.assertIn("\r\x1b[K", shown.rsplit("loading", 1)[1].split("tokens/s")[0], "the bar is gone before the statistics")


class Truth(unittest.TestCase):
    """A model of the real widths with one layer of full attention, its context filled to the last token."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="plan_test_", dir=os.environ["EVROS_BINARY_DIR"])
        cls.model = os.path.join(cls.folder.name, "synth.gguf")
        subprocess.run([EVROS, "synth", cls.model, "--layers", "4", "--experts", "10", "--vocab", "8192", "--table-rows", "400000",
                        "--type", "q4_0", "-q"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fill(self, context, options, limit=None):
        tokens = ",".join(str(5 + 7 * i % 4000) for i in range(context))
        return watched(["snapshot", "save", self.model, os.path.join(self.folder.name, "s"), "--tokens", tokens, *options], limit)

    @without_sanitizer
    def test_what_is_resident_stays_below_the_plan_and_near_it(self):
        for context, options in ((64, []), (200, ["--ple", "ram"]), (300, ["--chunk", "256", "--kv", "f32"]),
                                 (100, ["--chunk", "16", "--ple-memory-mb", "8", "--threads", "1"]), (130, ["--threads", "6"])):
            options = ["--ctx", str(context), *options]
            total = plan_of(self.model, *options)["total_bytes"]
            code, errors, resident = self.fill(context, options)
            self.assertEqual((code, errors), (0, ""), options)
            self.assertLessEqual(resident, total, options)
            self.assertGreaterEqual(resident, 0.9 * total - 32 * MIB, options)

    @without_sanitizer
    def test_under_the_smallest_limit_that_the_plan_takes_it_runs(self):
        """ulimit -v: what the plan says fits does, and a little less is refused with the numbers, by name."""
        context, options = 128, ["--ctx", "128", "--threads", "2"]
        loose = 4096 * MIB
        plan = plan_of(self.model, *options, limit=loose)
        self.assertEqual(plan["usable_because"], "ulimit -v")
        tight = loose - (plan["usable_bytes"] - plan["total_bytes"]) + MIB
        self.assertTrue(plan_of(self.model, *options, limit=tight)["fits"])
        code, errors, _ = self.fill(context, options, tight)
        self.assertEqual((code, errors), (0, ""))
        code, errors, resident = self.fill(context, options, tight - 8 * MIB)
        self.assertEqual(code, 1)
        self.assertIn("may be used (ulimit -v)", errors)
        self.assertLess(resident, 64 * MIB, "it was refused before it took any")

    @without_sanitizer
    def test_memory_that_is_not_there_after_all_is_an_error(self):
        """A budget that the machine does not have is believed; the system then refuses."""
        plan = plan_of(self.model, "--ctx", "256")
        for share in (0.5, 0.8, 0.95):
            code, errors, _ = self.fill(256, ["--ctx", "256", "--memory-mb", "100000", "--threads", "1"], int(share * plan["total_bytes"]))
            self.assertEqual(code, 1, errors)
            self.assertIn("memory", errors.splitlines()[-1])

    @without_sanitizer
    def test_a_server_with_its_sessions_filled_stays_below_its_plan(self):
        options = ["--ctx", "256", "--parallel", "3", "--cached", "2", "--memory-mb", "4000"]
        with Server(*options, model=self.model) as server:
            for i in range(2):
                bodies = [{"model": "synth", "prompt": [5 + (i + j + 7 * k) % 4000 for k in range(200)], "max_tokens": 40, "ignore_eos": True}
                          for j in range(3)]
                callers = [threading.Thread(target=server.request, args=("POST", "/v1/completions", body)) for body in bodies]
                for caller in callers:
                    caller.start()
                for caller in callers:
                    caller.join()
            with open(f"/proc/{server.process.pid}/status") as file:
                resident = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
            said = next(line for line in server.log.splitlines() if line.startswith("memory: "))
        total = float(said.split()[1]) * MIB
        self.assertIn(" MiB of ", said)
        self.assertIn("5 sessions of 256 tokens", said)
        self.assertLessEqual(resident, total)
        self.assertGreaterEqual(resident, 0.5 * total)  # nobody sent the longest requests


if __name__ == "__main__":
    unittest.main()
