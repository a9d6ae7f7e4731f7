#!/usr/bin/env python3
"""`evros bench` and bench/compare: what they print and how it adds up. No time is judged here: a test machine is never quiet."""
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from sanitizer import PATIENCE

EVROS = os.environ["EVROS"]
SOURCES = os.environ["EVROS_SOURCE_DIR"]
GGUF = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro", "gguf", "micro-q8_0.gguf")
COMPARE = os.path.join(SOURCES, "bench", "compare")
ONCE = ["--decode", "2", "--prompt", "8", "--rounds", "1"]
SMALL = [*ONCE[:-1], "2"]


# The thread sanitizer makes reading a hundred times slower: with little memory, little is read.
LIMITS = ["--memory-mb", "400"] if "thread" in os.environ.get("EVROS_SANITIZE", "") else []


def bench(*options):
    done = subprocess.run([EVROS, "bench", GGUF, *LIMITS, *options], capture_output=True, text=True, timeout=300 * PATIENCE)
    if LIMITS and done.stderr.startswith("memory: "):  # an asked limit is answered in one line
        done.stderr = done.stderr[done.stderr.index("\n") + 1:]
    return done


class Bench(unittest.TestCase):
    def report(self, *options):
        done = bench("--json", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_the_report_adds_up(self):
        report = self.report(*SMALL, "--contexts", "16,64,16")
        self.assertEqual([point["context"] for point in report["points"]], [16, 64])
        self.assertEqual(report["rounds"], 2)
        machine = report["machine"]
        self.assertEqual(len(machine["read"]["rounds"]), 2)
        self.assertGreater(machine["int8_operations"], 0)
        for point in report["points"]:
            bytes_per_token = sum(point["bytes_per_token"].values())
            for i in range(2):
                self.assertAlmostEqual(point["memory_share"]["rounds"][i] * machine["read"]["rounds"][i],
                                       point["decode_tokens_per_second"]["rounds"][i] * bytes_per_token, delta=1)
                self.assertAlmostEqual(point["integer_share"]["rounds"][i] * machine["int8_operations"],
                                       point["prefill_tokens_per_second"]["rounds"][i] * report["operations_per_token"], delta=1e3)
            values = point["decode_tokens_per_second"]
            self.assertAlmostEqual(values["median"], sum(values["rounds"]) / 2)
        # More context, more K/V rows to read; the weights stay the same.
        first, second = (point["bytes_per_token"] for point in report["points"])
        self.assertEqual(first["weights"], second["weights"])
        self.assertLess(first["state"], second["state"])

    def test_a_run_that_does_not_count_says_so_and_succeeds(self):
        report = self.report(*SMALL, "--contexts", "16", "--threads", "1")
        self.assertFalse(report["counts"])
        self.assertIn("one thread", report["why_not"])
        done = bench(*SMALL, "--contexts", "16", "--threads", "1")
        self.assertEqual(done.returncode, 0)
        self.assertIn("This run does not count", done.stdout)

    def test_the_verdict_follows_from_the_readings(self):
        report = self.report(*SMALL, "--contexts", "16", "--threads", "2")
        readings = [report["machine"][name] for name in ("read_before", "read_after")]
        self.assertEqual(report["counts"], all(r["all"] >= 1.7 * r["one"] for r in readings))

    def test_texts_together_lie_between_one_and_all(self):
        report = self.report(*SMALL, "--contexts", "16", "--sequences", "3")
        together = report["together"]
        inspected = json.loads(subprocess.run([EVROS, "inspect", GGUF, "--json"], capture_output=True, text=True).stdout)["metadata"]
        used, experts = (inspected["qwen4exp." + key] for key in ("expert_used_count", "expert_count"))
        self.assertGreaterEqual(together["experts_per_layer"], used)
        self.assertLessEqual(together["experts_per_layer"], min(3 * used, experts))
        self.assertGreater(together["bytes_union"], together["bytes_single"])
        self.assertLess(together["bytes_union"], 3 * together["bytes_single"])
        self.assertAlmostEqual(together["bound"], 3 * together["bytes_single"] / together["bytes_union"])
        self.assertAlmostEqual(together["share_of_bound"], together["speedup"] / together["bound"])
        self.assertEqual(together["context"], 8 + 2 * 2)

    def test_a_context_is_cut_to_what_the_model_was_made_for(self):
        report = self.report(*ONCE, "--contexts", "4096")
        self.assertEqual([point["context"] for point in report["points"]], [4094])
        self.assertEqual(len(report["left_out"]), 1)
        self.assertRegex(report["left_out"][0], "4096.*4094 are measured instead")

    def test_contexts_that_were_asked_for_and_are_not_in_a_table_are_named_beside_it(self):
        done = bench(*ONCE, "--contexts", "16,100000", "--csv")
        self.assertEqual([row["context"] for row in csv.DictReader(io.StringIO(done.stdout))], ["16"])
        self.assertRegex(done.stderr, "left out: .*100000")

    def test_what_the_budget_leaves_out_is_said(self):
        report = self.report(*SMALL, "--contexts", "16,3000", "--budget", "0.001")
        self.assertEqual([point["context"] for point in report["points"]], [16])
        self.assertEqual(report["rounds"], 1)
        self.assertEqual(len(report["left_out"]), 3)
        self.assertIn("3000", report["left_out"][0])
        self.assertIn("measured once whatever the budget is", report["left_out"][2])

    def test_comma_separated_values_and_the_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            plot = os.path.join(folder, "plot.svg")
            done = bench(*SMALL, "--contexts", "16,64", "--csv", "--plot", plot)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            rows = list(csv.DictReader(io.StringIO(done.stdout)))
            self.assertEqual([row["context"] for row in rows], ["16", "64"])
            self.assertGreater(float(rows[0]["decode_tokens_per_second"]), 0)
            root = ElementTree.parse(plot).getroot()
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
            self.assertEqual(words.count("16"), 2)  # under both panels
            dots = [dot for dot in root.iter("{http://www.w3.org/2000/svg}circle")]
            self.assertEqual(len(dots), 4)
            self.assertEqual(os.listdir(folder), ["plot.svg"])
            missing = bench(*SMALL, "--contexts", "16", "--plot", os.path.join(folder, "absent", "p.svg"))
            self.assertEqual(missing.returncode, 1)
            self.assertIn("absent", missing.stderr)


FAKE = """#!/usr/bin/env python3
import json, sys
value = lambda name: int(sys.argv[sys.argv.index(name) + 1])
if "{refuse}": sys.exit("{refuse}")
print(json.dumps([{{"n_prompt": value("-p"), "n_gen": 0, "avg_ts": 10.0}}, {{"n_prompt": 0, "n_gen": value("-n"), "avg_ts": 2.0}}]))
"""


class Compare(unittest.TestCase):
    """bench/compare with a stand-in for llama-bench that answers in its JSON."""

    def compare(self, refuse):
        with tempfile.TemporaryDirectory() as folder:
            fake = os.path.join(folder, "llama-bench")
            with open(fake, "w", encoding="utf-8") as out:
                out.write(FAKE.format(refuse=refuse))
            os.chmod(fake, 0o755)
            return subprocess.run([sys.executable, COMPARE, GGUF, "--evros", EVROS, "--llama-bench", fake, "--rounds", "2", "--prompt", "16",
                                   "--decode", "2", "--json"], capture_output=True, text=True, timeout=300 * PATIENCE)

    def test_ratios_are_those_of_the_medians(self):
        done = self.compare("")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        for name, other in (("prefill", 10.0), ("decode", 2.0)):
            row = report[name]
            self.assertEqual(row["llama.cpp"], [other, other])
            self.assertAlmostEqual(row["ratio"], sum(row["evros"]) / 2 / other)

    def test_a_file_that_llama_cpp_cannot_run_gives_no_numbers(self):
        done = self.compare("unknown model architecture: 'qwen4exp'")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("nothing to compare", done.stderr)
        self.assertIn("unknown model architecture", done.stderr)


if __name__ == "__main__":
    unittest.main()
