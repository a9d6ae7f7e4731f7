#!/usr/bin/env python3
"""Quantised files: the gguf package's reading of Q8_0 and Q4_0 against ours, and GGUF against safetensors.

usage: quantised_test.py; needs EVROS, EVROS_SOURCE_DIR and EVROS_BINARY_DIR (for the unpacked GGUF fixtures).
"""
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from reference import checkpoint, gguf_files

EVROS = os.environ["EVROS"]
MICRO = os.path.join(os.environ["EVROS_SOURCE_DIR"], "tests", "data", "micro")
GGUF = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro_gguf", "gguf")
TOKENS = checkpoint.read_file(os.path.join(MICRO, "golden.safetensors"))["a.tokens"]


class Quantised(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="evros_quantised_")
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name

    def trace(self, model, numerics="N1"):
        out = os.path.join(self.scratch, "trace.safetensors")
        subprocess.run([EVROS, "trace", model, "--tokens", ",".join(map(str, TOKENS)), "--kv", "f32", "--numerics", numerics,
                        "--prefix", "a", "--out", out], check=True, stdout=subprocess.DEVNULL, timeout=300)
        return checkpoint.read_file(out)

    def dequantised(self, kind):
        target = os.path.join(self.scratch, f"{kind}-as-f32.gguf")
        gguf_files.rewrite(os.path.join(GGUF, f"micro-{kind}.gguf"), target, dequantise=True)
        return target

    def largest_difference(self, one, other, tolerance):
        """Over all float arrays, as a share of the array's largest value; integer arrays (routes, rows, selections, history) must be equal."""
        self.assertEqual(set(one), set(other))
        worst = 0.0
        for name, values in one.items():
            if values.dtype.kind != "f":
                self.assertTrue(np.array_equal(values, other[name]), f"{name} differs")
                continue
            worst = max(worst, float(np.abs(values - other[name]).max() / max(1, np.abs(values).max())))
            self.assertLessEqual(worst, tolerance, name)
        return worst

    def check_float_rule(self, kind):
        # Under N1-f32 a quantised weight is its float value, which the gguf package computes in the same order: every bit.
        quantised = self.trace(os.path.join(GGUF, f"micro-{kind}.gguf"), "N1-f32")
        floats = self.trace(self.dequantised(kind))
        self.largest_difference(quantised, floats, 0)
        whole = self.trace(os.path.join(GGUF, f"micro-{kind}.gguf"))
        cost = np.abs(whole["a.logits"] - quantised["a.logits"]).max()
        print(f"{kind}: int8 activations move the logits by at most {cost:.3g}, of {np.abs(quantised['a.logits']).max():.3g}",
              file=sys.stderr)
        self.assertGreater(cost, 0, "N1 and N1-f32 are one rule for a quantised file")

    def test_q8_0_weights_are_what_the_gguf_package_reads(self):
        self.check_float_rule("q8_0")

    def test_q4_0_weights_are_what_the_gguf_package_reads(self):
        self.check_float_rule("q4_0")

    def test_float_gguf_of_another_converter_equals_the_checkpoint(self):
        # Not bit for bit: its writer computed -exp(A_log) with another exp.
        theirs, ours = self.trace(os.path.join(GGUF, "micro-f32.gguf")), self.trace(os.path.join(MICRO, "hf"))
        worst = self.largest_difference(theirs, ours, 1e-5)
        print(f"micro-f32.gguf against the checkpoint: at most {worst:.3g}", file=sys.stderr)

    def test_both_rules_are_one_for_float_weights(self):
        model = os.path.join(GGUF, "micro-f32.gguf")
        self.largest_difference(self.trace(model, "N1-f32"), self.trace(model), 0)


if __name__ == "__main__":
    unittest.main()
