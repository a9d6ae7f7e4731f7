#!/usr/bin/env python3
"""docs/openapi.yaml against the running server, by schemathesis: requests made from the schema, valid and broken ones, must get
the declared statuses and bodies, and never a server error."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from server import SOURCE, Server

# What the schema cannot say: ids are bounded by the model's vocabulary, a template refuses conversations, a time may be too short,
# a page that answers GET answers HEAD and OPTIONS too.
CONFIG = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "400", "404", "504"]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "504"]
allow_header_conformance.enabled = false
unsupported_method.enabled = false
"""
EXAMPLES = os.environ.get("EVROS_SCHEMA_EXAMPLES", "8")  # random requests for each operation


class Schema(unittest.TestCase):
    def test_every_operation_does_what_the_document_says(self):
        tool = pathlib.Path(sys.executable).parent / "schemathesis"
        # A short context keeps replies short; a request may take its whole.
        with Server("--ctx", "128", "--chunk", "128", "--quiet") as server, tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "schemathesis.toml").write_text(CONFIG)
            done = subprocess.run(
                [tool, "run", SOURCE / "docs" / "openapi.yaml", "--url", server.url, "--max-examples", EXAMPLES, "--seed", "1",
                 "--phases", "coverage,fuzzing", "--request-timeout", "60", "--continue-on-failure", "--no-color"],
                cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout[-20000:] + done.stderr[-2000:])
            self.assertEqual(server.status()["queue"]["running"], 0)


if __name__ == "__main__":
    unittest.main()
