#!/usr/bin/env python3
"""`evros perplexity` against NumPy: the same sums over the logits that `evros trace` writes, window by window."""
import json
import os
import unittest

import numpy as np
from safetensors.numpy import load_file, save_file

from text_case import TINY, TextCase, run

TEXT = "Once upon a time there was a small fox who lived near a river. Every morning she counted the stones: one, two, three. " \
       "One day a bird came and said, \"There are four.\" The fox laughed and counted again, and the bird was right."
WINDOW, STRIDE = 16, 6


def log_softmax(logits):
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))


class Perplexity(TextCase):
    TEXT = TEXT

    def measure(self, *options, window=WINDOW, stride=STRIDE):
        done = run("perplexity", TINY, "-f", self.text, "--ctx", str(window), "--stride", str(stride), "--json", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def traced(self, window, stride, *options):
        """Logits and targets by the rule of the windows: each token once, in the first window that reads it."""
        rows, targets, done = [], [], 0
        for begin in range(0, len(self.ids), stride):
            tokens = self.ids[begin:begin + window]
            out = self.path("trace.safetensors")
            self.assertEqual(run("trace", TINY, "--tokens", ",".join(map(str, tokens)), "--out", out, *options).returncode, 0)
            logits = load_file(out)["a.logits"]
            for at in range(max(done, begin + 1), begin + len(tokens)):
                rows.append(logits[at - begin - 1])
                targets.append(self.ids[at])
            done = begin + len(tokens)
            if done == len(self.ids):
                break
        return np.stack(rows), np.array(targets)

    def expect_equal(self, report, logits, targets):
        nats = -log_softmax(logits)[np.arange(len(targets)), targets]
        self.assertEqual(report["tokens"], len(self.ids))
        self.assertEqual(report["scored"], len(targets))
        np.testing.assert_allclose(report["nats"], nats.mean(), rtol=1e-12)
        np.testing.assert_allclose(report["perplexity"], np.exp(nats.mean()), rtol=1e-12)
        np.testing.assert_allclose(report["error"], np.exp(nats.mean()) * nats.std(ddof=1) / np.sqrt(len(nats)), rtol=1e-9)

    def test_every_token_is_predicted_once_from_its_window(self):
        self.assertGreater(len(self.ids), 3 * WINDOW)
        logits, targets = self.traced(WINDOW, STRIDE)
        self.assertEqual(targets.tolist(), self.ids[1:])
        self.expect_equal(self.measure(), logits, targets)

    def test_windows_that_do_not_overlap_leave_their_first_token_out(self):
        logits, targets = self.traced(WINDOW, WINDOW)
        self.assertLess(len(targets), len(self.ids) - 1)
        self.expect_equal(self.measure(stride=WINDOW), logits, targets)

    def test_chunks_and_threads_change_no_digit(self):
        one = self.measure("--chunk", "5", "--threads", "1")
        self.assertEqual(one, self.measure("--chunk", "128", "--threads", "2"))

    def test_saved_logits_are_those_of_the_trace(self):
        saved = self.path("saved.safetensors")
        self.measure("--save-logits", saved)
        logits, targets = self.traced(WINDOW, STRIDE)
        file = load_file(saved)
        self.assertEqual(file["logits"].tobytes(), logits.tobytes())
        self.assertEqual(file["targets"].tolist(), targets.tolist())

    def test_divergence_is_the_sum_over_both_distributions(self):
        base, own = self.path("base.safetensors"), self.path("own.safetensors")
        plain = self.measure("--save-logits", base)
        self.measure("--kv", "bf16", "--save-logits", own)
        report = self.measure("--kv", "bf16", "--kld", base)
        p, q = (log_softmax(load_file(path)["logits"]) for path in (base, own))
        kld = (np.exp(p) * (p - q)).sum(axis=1)
        self.assertGreater(kld.mean(), 0)
        # Differences of nearly equal numbers: what is left is as exact as the sums of 4096 terms around 1.
        for name, wanted in (("mean", kld.mean()), ("max", kld.max()), ("median", np.sort(kld)[len(kld) // 2])):
            np.testing.assert_allclose(report["kld"][name], wanted, rtol=1e-6, atol=1e-14)
        self.assertEqual(report["kld"]["same_top"], np.mean(p.argmax(axis=1) == q.argmax(axis=1)))
        np.testing.assert_allclose(report["kld"]["base_perplexity"], plain["perplexity"], rtol=1e-12)

    def test_a_model_does_not_diverge_from_itself(self):
        base = self.path("base.safetensors")
        self.measure("--save-logits", base)
        kld = self.measure("--kld", base)["kld"]
        self.assertEqual((kld["mean"], kld["max"], kld["same_top"]), (0, 0, 1))

    def refused(self, words, *options, code=1):
        done = run("perplexity", TINY, *options)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_logits_of_something_else_are_refused(self):
        base, other, odd = self.path("base.safetensors"), self.path("other.txt"), self.path("odd.safetensors")
        self.measure("--save-logits", base)
        options = ["--ctx", str(WINDOW), "--stride", str(STRIDE), "--kld", base]
        with open(other, "w", encoding="utf-8") as out:
            out.write("Twice" + TEXT[4:])
        self.refused(["base.safetensors"], "-f", other, *options)
        self.refused(["windows of 16 every 6", "16 every 7"], "-f", self.text, "--ctx", "16", "--stride", "7", "--kld", base)
        save_file({"logits": np.zeros((3, 4), np.float32)}, odd)
        self.refused(["odd.safetensors", "3 x 4"], "-f", self.text, "--ctx", "16", "--stride", "6", "--kld", odd)
        bad = load_file(base)
        bad["logits"][7, 11] = np.nan
        save_file(bad, odd)
        self.refused(["prediction 7", "finite"], "-f", self.text, "--ctx", "16", "--stride", "6", "--kld", odd)

    def test_what_cannot_be_measured_is_refused_and_leaves_no_file(self):
        short = self.path("short.txt")
        with open(short, "w", encoding="utf-8") as out:
            out.write("a")
        target = self.path("never.safetensors")
        self.refused(["at least 2"], "-f", short, "--save-logits", target)
        self.refused(["--stride", "17", "16"], "-f", self.text, "--ctx", "16", "--stride", "17", "--save-logits", target, code=2)
        self.refused(["99999999"], "-f", self.text, "--ctx", "99999999")
        self.refused(["absent"], "-f", self.path("absent"))
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("never")], [])


if __name__ == "__main__":
    unittest.main()
