#!/usr/bin/env python3
"""`--device` where there is no GPU: cuda is an error that says what is missing, auto says it and takes the CPU, and nothing else
changes. The program is copied to a folder of its own, so that there is no CUDA library beside it.
usage: device_cli_test.py; needs EVROS and EVROS_BINARY_DIR (for the unpacked GGUF fixtures).
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

EVROS = os.environ["EVROS"]
GGUF = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro", "gguf", "micro-q8_0.gguf")
TOKENS = ["--tokens", "5,12,19,26,33"]


class Device(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp()
        cls.program = os.path.join(cls.scratch, "bin", "evros")
        os.makedirs(os.path.dirname(cls.program))
        shutil.copy(EVROS, cls.program)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)

    def run_it(self, *arguments):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=300)

    def save(self, *options):
        return self.run_it("snapshot", "save", GGUF, os.path.join(self.scratch, "talk.evros"), *TOKENS, "--json", *options)

    def test_cuda_without_its_library_is_one_sentence(self):
        commands = [["run", GGUF, "--raw", "-p", "x"], ["trace", GGUF, *TOKENS, "--out", os.path.join(self.scratch, "t")],
                    ["verify", GGUF], ["bench", GGUF], ["bench", GGUF, "--stages"], ["serve", GGUF, "--port", "0"],
                    ["perplexity", GGUF, "-f", __file__]]
        for command in commands:
            done = self.run_it(*command, "--device", "cuda")
            self.assertEqual(done.returncode, 1, command)
            self.assertEqual(done.stdout, "", command)
            self.assertRegex(done.stderr, r"^evros: this program has no CUDA library: there is no .*libevros_cuda\.so.*\n$")

    def test_auto_says_why_in_one_line_and_gives_the_same(self):
        plain, auto = self.save(), self.save("--device", "auto")
        self.assertEqual((plain.returncode, plain.stderr), (0, ""))
        self.assertEqual((auto.returncode, auto.stdout), (0, plain.stdout))
        self.assertRegex(auto.stderr, r"^evros: this program has no CUDA library: .*; going on on the CPU\n$")
        self.assertIn("digests", json.loads(auto.stdout))

    def test_a_file_that_is_no_library_is_named(self):
        wrong = os.path.join(os.path.dirname(self.program), "libevros_cuda.so")
        with open(wrong, "w") as out:
            out.write("text")
        try:
            done = self.save("--device", "cuda")
        finally:
            os.remove(wrong)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^evros: the CUDA library cannot be opened: .*libevros_cuda\.so.*\n$")

    def test_other_names_are_wrong_usage(self):
        done = self.save("--device", "tpu")
        self.assertEqual(done.returncode, 2)
        self.assertIn("tpu", done.stderr)


if __name__ == "__main__":
    unittest.main()
