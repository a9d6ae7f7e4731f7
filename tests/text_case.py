"""What tests of commands that read a text share: the program, the bundled model, a text of theirs with its tokens, a folder."""
import json
import os
import subprocess
import tempfile
import unittest

EVROS = os.environ["EVROS"]
TINY = os.path.join(os.environ["EVROS_SOURCE_DIR"], "models/evros-tiny")


def run(*arguments):
    return subprocess.run([EVROS, *arguments], capture_output=True, text=True, timeout=300)


class TextCase(unittest.TestCase):
    """A class below names its TEXT; `text` is a file with it, `ids` its tokens for the bundled model."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.text = cls.path("text.txt")
        with open(cls.text, "w", encoding="utf-8") as out:
            out.write(cls.TEXT)
        cls.ids = [entry["id"] for entry in json.loads(run("tokenize", TINY, "--plain", "--json", "-p", cls.TEXT).stdout)]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)
