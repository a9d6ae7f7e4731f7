"""A running `evros serve` for the tests that talk to it like anybody else would."""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

from sanitizer import PATIENCE

EVROS = os.environ["EVROS"]
SOURCE = pathlib.Path(os.environ["EVROS_SOURCE_DIR"])
TINY = SOURCE / "models" / "evros-tiny"


class Server:
    """Started on a free port, ended by SIGTERM. `log` holds what it wrote to standard error so far."""

    def __init__(self, *arguments, model=TINY, environment=None):
        self.process = subprocess.Popen(
            [EVROS, "serve", str(model), "--port", "0", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(environment or {})})
        self.log = ""
        self.url = None
        self.ready = threading.Event()
        self.readers = [threading.Thread(target=self._read, args=(pipe,), daemon=True)
                        for pipe in (self.process.stdout, self.process.stderr)]
        for reader in self.readers:
            reader.start()
        if not self.ready.wait(60) or self.url is None:
            self.process.kill()
            self.stop()
            raise RuntimeError(f"the server did not start: {self.log}")

    def _read(self, pipe):
        for line in pipe:
            self.log += line
            found = re.search(r"http://\S+:\d+", line)
            if found and self.url is None:
                self.url = found.group(0).rstrip("/")
                self.ready.set()
        self.ready.set()  # a server that ended closes its pipes before it can be waited for

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, seconds=60):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for reader, pipe in zip(self.readers, (self.process.stdout, self.process.stderr)):
            reader.join(10)
            pipe.close()
        return code

    def request(self, method, path, body=None, headers=None, timeout=60):
        """(status, headers, body) of one request; `body` is sent as JSON unless it is bytes."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method,
                                         headers={"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=timeout * PATIENCE) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def status(self):
        return json.loads(self.request("GET", "/status")[2])

    def running(self):
        return self.status()["queue"]["running"]

    def eventually(self, holds, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if holds():
                return True
            time.sleep(0.01)
        return False
