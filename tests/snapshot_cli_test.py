#!/usr/bin/env python3
"""Sessions as files, across processes: what one process saves, another goes on from as if it had never stopped.

usage: snapshot_cli_test.py; needs EVROS and EVROS_SOURCE_DIR.
"""
import json
import os
import subprocess
import tempfile
import unittest

EVROS = os.environ["EVROS"]
MICRO = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro", "hf")
TINY = os.path.join(os.environ["EVROS_SOURCE_DIR"], "models", "evros-tiny")


class Snapshots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "talk.evros")

    def run_evros(self, *arguments, code=0):
        done = subprocess.run([EVROS, *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def facts(self, *arguments):
        return json.loads(self.run_evros("snapshot", *arguments, "--json").stdout)

    def test_a_restored_process_goes_on_with_the_same_bits(self):
        saved = self.facts("save", MICRO, self.file, "--tokens", "7,2,300,41,41,5,2,2,99,12")
        inspected = self.facts("inspect", self.file)
        kept = inspected.pop("file")
        self.assertEqual(inspected, saved)
        shown = self.run_evros("snapshot", "inspect", self.file).stdout
        self.assertIn(f"version        {kept['version']}\n", shown)
        self.assertIn(f"model          {kept['model']}\n", shown)
        self.assertEqual(kept["attachment_bytes"], 0)
        self.assertEqual(self.facts("restore", MICRO, self.file), saved)
        longer = self.facts("restore", MICRO, self.file, "-n", "6")
        self.assertEqual(len(longer["tokens"]), 16)
        never_left = self.facts("save", MICRO, self.file + "2", "--tokens", ",".join(map(str, longer["tokens"])))
        self.assertEqual(longer, never_left)

    def test_damage_and_other_models_are_one_sentence(self):
        self.facts("save", MICRO, self.file, "--tokens", "7,2,300")
        with open(self.file, "r+b") as file:
            content = file.read()
        for arguments in (["restore", TINY, self.file], ["restore", MICRO, self.file, "--kv", "f32"],
                          ["save", MICRO, self.file, "--tokens", "512"], ["save", MICRO, self.file]):
            done = self.run_evros("snapshot", *arguments, code=2 if arguments[-1] == self.file and arguments[0] == "save" else 1)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        with open(self.file, "rb") as file:
            self.assertEqual(file.read(), content, "a refused save wrote to the file")
        with open(self.file, "wb") as file:
            file.write(content[:-1])
        self.assertIn("snapshot", self.run_evros("snapshot", "inspect", self.file, code=1).stderr)

    def test_a_chat_continued_in_another_process_is_the_chat_in_one(self):
        def turn(text, *more):
            return self.run_evros("run", TINY, "-p", text, "--no-think", "-n", "12", "--temp", "0", *more)
        first, second = turn("What is your name?", "--session", self.file), turn("And mine?", "--session", self.file)
        self.assertIn("(0 reused)", first.stderr)
        self.assertNotIn("(0 reused)", second.stderr)
        kept = json.loads(self.run_evros("snapshot", "inspect", self.file, "--json").stdout)
        os.remove(self.file)
        turn("What is your name?", "--session", self.file)
        again = turn("And mine?", "--session", self.file, "--threads", "1", "--chunk", "5")
        self.assertEqual(again.stdout, second.stdout)
        self.assertEqual(json.loads(self.run_evros("snapshot", "inspect", self.file, "--json").stdout), kept)
        self.assertIn("without --raw", self.run_evros("run", TINY, "--raw", "-p", "x", "--session", self.file, code=1).stderr)

    def test_raw_text_goes_on_where_it_stopped(self):
        def turn(text, length, *more):
            return self.run_evros("run", TINY, "--raw", "-p", text, "-n", str(length), "--temp", "0", "-q", *more).stdout
        turn("Once upon a time", 8, "--session", self.file)
        tokens = json.loads(self.run_evros("snapshot", "inspect", self.file, "--json").stdout)["tokens"]
        turn(" there", 1, "--session", self.file)
        longer = json.loads(self.run_evros("snapshot", "inspect", self.file, "--json").stdout)["tokens"]
        self.assertEqual(longer[:len(tokens)], tokens)
        self.assertGreater(len(longer), len(tokens))


if __name__ == "__main__":
    unittest.main()
