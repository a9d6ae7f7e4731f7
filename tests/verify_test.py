"""`evros verify` on the models of the tree: every cache type, the folder and the converted file, and what it says."""
import json
import os
import subprocess
import unittest

from sanitizer import PATIENCE

EVROS = os.environ["EVROS"]
SOURCES = os.environ["EVROS_SOURCE_DIR"]
BUNDLED = os.path.join(os.path.dirname(EVROS), "evros-tiny.gguf")
MICRO = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro", "hf")
TINY = os.path.join(SOURCES, "models/evros-tiny")


def verify(model, *options):
    done = subprocess.run([EVROS, "verify", model, "--json", "--threads", "1", *options], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout), done.stderr


class Verify(unittest.TestCase):
    def check(self, model, kv, budget, reached):
        code, report, errors = verify(model, "--kv", kv, "--budget", str(budget * PATIENCE))
        self.assertEqual(errors, "")
        failed = [row for row in report["checks"] if row["outcome"] == "FAILED"]
        self.assertEqual(failed, [])
        self.assertEqual(code, 0)
        self.assertTrue(report["passed"])
        self.assertIn(f"kv={kv}", report["numerics"])
        self.assertGreater(report["faults"], 0)
        self.assertEqual(report["faults"], report["faults_unchanged"])
        for owner in report["owners"]:
            self.assertEqual(owner["compared"], owner["equal"], owner)
        passed = [row["check"] for row in report["checks"] if row["outcome"] == "passed"]
        self.assertGreaterEqual(len(passed), reached, report["checks"])
        for row in report["checks"]:  # what was not checked says why
            self.assertTrue(row["outcome"] == "passed" or row["note"], row)

    def test_micro_passes_with_every_cache_type(self):
        for kv in ("f32", "f16", "bf16"):
            with self.subTest(kv=kv):
                self.check(MICRO, kv, 10, 5)

    def test_the_bundled_model_passes_as_folder_and_as_file(self):
        self.check(TINY, "f16", 12, 3)
        self.check(BUNDLED, "f16", 12, 3)

    def test_equal_seeds_prove_the_same_history_and_the_model_has_one_identity(self):
        first = verify(MICRO, "--budget", "2")[1]
        second = verify(MICRO, "--budget", "2")[1]
        self.assertEqual(first["identity"], second["identity"])
        self.assertEqual(len(first["identity"]), 64)

    def test_texts_of_a_chosen_length_have_one_digest_whatever_the_budget_and_the_kernels(self):
        first = verify(MICRO, "--budget", "2", "--tokens", "30")[1]
        second = verify(MICRO, "--budget", "3", "--tokens", "30", "--kernels", "ref")[1]
        other = verify(MICRO, "--budget", "2", "--tokens", "31")[1]
        self.assertEqual((first["tokens"], second["kernels"]), (30, "ref"))
        self.assertEqual(first["digests"], second["digests"])
        self.assertNotEqual(first["digests"]["combined"], other["digests"]["combined"])

    def test_memory_for_the_table_that_is_too_small_for_a_chunk_of_the_text_is_made_larger(self):
        code, report, errors = verify(TINY, "--budget", "2", "--tokens", "40", "--ple-memory-mb", "1")
        self.assertEqual((errors, code, report["tokens"]), ("", 0, 40))

    def test_nothing_checked_is_not_passed(self):
        code, report, errors = verify(MICRO, "--budget", "0.001")
        self.assertEqual({row["outcome"] for row in report["checks"]}, {"not checked"})
        self.assertTrue(all(row["note"] for row in report["checks"]))
        self.assertEqual((code, report["passed"], report["faults"]), (1, False, 0))
        done = subprocess.run([EVROS, "verify", MICRO, "--budget", "0.001"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing was checked", done.stdout.splitlines()[-1])

    def test_a_length_that_no_text_can_have_is_refused_with_the_range(self):
        for tokens in ("1", "23", "4081", "100000"):
            done = subprocess.run([EVROS, "verify", TINY, "--tokens", tokens], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            for word in (tokens, "24", "4080"):
                self.assertIn(word, done.stderr)

    def test_a_model_that_cannot_be_opened_is_one_sentence_and_exit_1(self):
        done = subprocess.run([EVROS, "verify", "/nonexistent.gguf"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
