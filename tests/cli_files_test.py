#!/usr/bin/env python3
"""The program among pipes, terminals, full disks, signals and other programs: what it reads, waits for, locks and leaves behind.

usage: cli_files_test.py; needs EVROS, EVROS_SOURCE_DIR and EVROS_BINARY_DIR (for the unpacked fixtures).
"""
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np

from reference import gguf_files
from sanitizer import PATIENCE
from server import Server

EVROS = os.environ["EVROS"]
MICRO = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro", "hf")
GGUF = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro", "gguf", "micro-f32.gguf")
TINY = os.path.join(os.environ["EVROS_SOURCE_DIR"], "models", "evros-tiny")
TEXT = "Once upon a time there was a small fox.\n" * 3


def run(*arguments, stdin=None, timeout=60 * PATIENCE):
    return subprocess.run([EVROS, *arguments], capture_output=True, text=True, timeout=timeout,
                          **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}))


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="evros_files_")
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name

    def path(self, name):
        return os.path.join(self.scratch, name)

    def fifo(self, name="pipe"):
        os.mkfifo(self.path(name))
        return self.path(name)

    def expect_sentence(self, done, words, code=1):
        self.assertEqual(done.returncode, code, f"{done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Aevros: [^\n]*\n\Z")
        for word in words:
            self.assertIn(word, done.stderr)

    def wait_for(self, what, holds, seconds=60):
        end = time.monotonic() + seconds * PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), end, f"waited in vain for {what}")
            time.sleep(0.005)


class Streams(Scratch):
    """A text is read from whatever has a name; a model, which is read at positions, from a regular file alone."""

    COMMANDS = {
        "tokenize": ["tokenize", TINY],
        "run": ["run", TINY, "-n", "4", "--temp", "0", "-q", "--no-think"],
        "raw": ["run", TINY, "-n", "4", "--temp", "0", "-q", "--raw"],
        "perplexity": ["perplexity", TINY, "--ctx", "16", "-q", "--json"],
    }

    def same_of_every_stream(self, command, result):
        path = self.path("text.txt")
        with open(path, "w", encoding="utf-8") as out:
            out.write(TEXT)
        wanted = result(run(*command, "-f", path))
        self.assertEqual(result(run(*command, "-f", "-", stdin=TEXT)), wanted, "-f -")
        self.assertEqual(result(run(*command, stdin=TEXT)), wanted, "standard input")
        shell = subprocess.run(["bash", "-c", 'text=$1; shift; exec "$@" -f <(cat "$text")', "bash", path, EVROS, *command],
                               capture_output=True, text=True, timeout=60 * PATIENCE)
        self.assertEqual(result(shell), wanted, "process substitution")
        pipe = self.fifo()
        writer = threading.Thread(target=pathlib.Path(pipe).write_text, args=(TEXT,))
        writer.start()
        self.assertEqual(result(run(*command, "-f", pipe)), wanted, "a pipe with a name")
        writer.join()
        os.remove(pipe)
        return wanted

    def test_every_command_reads_a_text_from_every_stream(self):
        def output(done):
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        for name, command in self.COMMANDS.items():
            with self.subTest(name):
                self.assertTrue(self.same_of_every_stream(command, output).strip())

    def test_an_importance_matrix_is_made_of_every_stream(self):
        out = self.path("matrix.gguf")

        def matrix(done):
            self.assertEqual(done.returncode, 0, done.stderr)
            import gguf
            made = {t.name: t.data.tobytes() for t in gguf.GGUFReader(out).tensors}
            os.remove(out)
            return made
        self.assertTrue(self.same_of_every_stream(["imatrix", TINY, "-o", out, "--ctx", "16", "-q"], matrix))

    def test_the_key_of_a_server_comes_through_a_pipe(self):
        pipe = self.fifo()
        writer = threading.Thread(target=pathlib.Path(pipe).write_text, args=("secret\n",))
        writer.start()
        with Server("--api-key-file", pipe) as server:
            self.assertEqual(server.request("GET", "/v1/models")[0], 401)
            self.assertEqual(server.request("GET", "/v1/models", headers={"Authorization": "Bearer secret"})[0], 200)
        writer.join()

    def test_a_pipe_without_a_writer_is_waited_for_until_ctrl_c(self):
        process = subprocess.Popen([EVROS, "run", TINY, "-f", self.fifo(), "--session", self.path("s"), "-q"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        def catches():  # Ctrl-C: the last thing before the text is read
            with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
                return int(status.read().split("SigCgt:")[1].split()[0], 16) & 1 << signal.SIGINT - 1
        self.wait_for("a program that waits", catches)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60 * PATIENCE)
        self.expect_sentence(subprocess.CompletedProcess([], process.returncode, out, err), ["interrupted", self.path("pipe")], 130)
        self.assertEqual(os.listdir(self.scratch), ["pipe"])

    def test_a_text_without_end_is_refused_at_its_limit(self):
        self.expect_sentence(run("tokenize", TINY, "-f", "/dev/zero"), ["/dev/zero", "longer than"])
        self.expect_sentence(run("serve", TINY, "--api-key-file", "/dev/zero"), ["/dev/zero", "longer than"])

    def test_no_pipe_is_waited_for_where_a_file_is_needed(self):
        pipe = self.fifo("model.gguf")
        os.mkdir(self.path("folder"))
        in_folder = self.fifo("folder/model.safetensors")
        shutil.copyfile(os.path.join(MICRO, "config.json"), self.path("folder/config.json"))
        os.mkdir(self.path("other"))
        config = self.fifo("other/config.json")
        out = self.path("o.gguf")
        text = ["-f", os.path.join(MICRO, "config.json")]
        for command in (["inspect", pipe], ["run", pipe, "-p", "x"], ["tokenize", pipe, "-p", "x"], ["convert", pipe, out],
                        ["trace", pipe, "--tokens", "1", "--out", out], ["bench", pipe], ["verify", pipe], ["perplexity", pipe, *text],
                        ["imatrix", pipe, *text, "-o", out], ["serve", pipe], ["snapshot", "inspect", pipe],
                        ["snapshot", "restore", GGUF, pipe], ["snapshot", "save", pipe, out, "--tokens", "1"],
                        ["convert", GGUF, out, "--type", "q4_k", "--imatrix", pipe],
                        ["perplexity", TINY, *text, "--ctx", "16", "-q", "--kld", pipe]):
            with self.subTest(command):
                self.expect_sentence(run(*command), [f"{pipe} is a pipe"])
        for file, folder in ((in_folder, "folder"), (config, "other")):
            for command in (["inspect"], ["run", "-p", "x"], ["convert", out]):
                with self.subTest(command + [folder]):
                    self.expect_sentence(run(command[0], self.path(folder), *command[1:]), [f"{file} is a pipe"])

    def test_no_part_of_a_split_set_is_waited_for(self):
        import gguf
        for number in (0, 1):
            writer = gguf.GGUFWriter(self.path(f"half-0000{number + 1}-of-00002.gguf"), "qwen4exp")
            writer.add_uint16("split.no", number)
            writer.add_uint16("split.count", 2)
            writer.add_int32("split.tensors.count", 214)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.close()
        os.remove(self.path("half-00002-of-00002.gguf"))
        part = self.fifo("half-00002-of-00002.gguf")
        self.expect_sentence(run("inspect", self.path("half-00001-of-00002.gguf")), [f"{part} is a pipe"])


class Targets(Scratch):
    def test_a_target_that_cannot_be_is_told_before_the_model_is_read(self):
        """The model is one that loading refuses, with another sentence."""
        model = self.path("bad.gguf")
        gguf_files.rewrite(GGUF, model, changed={"blk.2.ffn_down_exps.weight": lambda array: array * np.float32(np.nan)})
        text = self.path("text")
        with open(text, "w", encoding="utf-8") as out:
            out.write(TEXT)
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        for folder in (self.path("absent"), self.path("file")):
            for command in (["run", model, "-p", "x", "--session", "{}"], ["imatrix", model, "-f", text, "-o", "{}.gguf"],
                            ["perplexity", model, "-f", text, "--save-logits", "{}"], ["trace", model, "--tokens", "1", "--out", "{}"],
                            ["snapshot", "save", model, "{}", "--tokens", "1"], ["bench", model, "--plot", "{}"],
                            ["convert", model, "{}.gguf"], ["synth", "{}.gguf"], ["synth", "{}.gguf", "--sparse"]):
                with self.subTest(command, folder=folder):
                    before = sorted(os.listdir(self.scratch))
                    done = run(*[word.format(os.path.join(folder, "new")) for word in command])
                    self.expect_sentence(done, [f"folder {folder}:", os.path.join(folder, "new")])
                    self.assertEqual(sorted(os.listdir(self.scratch)), before)

    def test_what_no_disk_holds_is_refused_with_numbers(self):
        free = os.statvfs(self.scratch)
        self.assertLess(free.f_bavail * free.f_frsize, 300e12, "this disk would hold it")
        done = run("synth", self.path("large.gguf"), "--layers", "1000", "--experts", "65536")
        self.expect_sentence(done, [self.path("large.gguf"), "needs", "iB", "free"])
        self.assertEqual(os.listdir(self.scratch), [])


class Stopped(Scratch):
    """Work that takes long ends soon after a signal, says what became of it, and leaves that."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="evros_stopped_")
        cls.model = os.path.join(cls.folder.name, "m.gguf")
        done = run("synth", cls.model, "--layers", "2", "--experts", "10", "--vocab", "1024", "--table-rows", "1024", "-q")
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def stopped(self, number, *arguments):
        """Starts, waits for the first bytes of a partial file, sends the signal."""
        def partial():
            found = [os.stat(self.path(name)) for name in os.listdir(self.scratch) if name.endswith(".partial")]
            return [(info.st_blocks, info.st_mtime_ns) for info in found if info.st_blocks > 2048]
        before = partial()
        process = subprocess.Popen([EVROS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in self.SIGNALS])
        self.wait_for("a partial file that grows", lambda: partial() not in ([], before))
        process.send_signal(number)
        out, err = process.communicate(timeout=60 * PATIENCE)
        done = subprocess.CompletedProcess(arguments, process.returncode, out, err)
        self.expect_sentence(done, ["stopped"], 128 + number)
        return done.stderr

    def test_a_conversion_is_removed_and_says_so(self):
        for number in self.SIGNALS:
            with self.subTest(number):
                said = self.stopped(number, "convert", self.model, self.path("o.gguf"), "--type", "q6_k", "--threads", "1", "-q")
                self.assertIn("o.gguf.partial is removed", said)
                self.assertEqual(os.listdir(self.scratch), [])

    def test_a_conversion_that_can_be_resumed_stays_and_is_gone_on_with(self):
        command = ["convert", self.model, self.path("o.gguf"), "--type", "q6_k", "--threads", "2"]
        for number in self.SIGNALS[:2]:  # the second one stops what the first one left
            with self.subTest(number):
                self.assertIn("o.gguf.partial stays", self.stopped(number, *command, "--resume", "-q"))
                self.assertEqual(os.listdir(self.scratch), ["o.gguf.partial"])
        done = run(*command, "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\Aevros: going on with \S+o\.gguf\.partial, which has [\d.]+ [MG]iB of [\d.]+ [MG]iB\n\Z")
        self.assertEqual(os.listdir(self.scratch), ["o.gguf"])
        self.assertRegex(run("convert", GGUF, self.path("p.gguf"), "--resume").stderr, r"\Aevros: beginning anew: [^\n]*\n\Z")

    def test_a_made_up_model_is_removed_and_says_so(self):
        for number in self.SIGNALS:
            with self.subTest(number):
                said = self.stopped(number, "synth", self.path("s.gguf"), "--layers", "4", "--threads", "1", "-q")
                self.assertIn("nothing of", said)
                self.assertEqual(os.listdir(self.scratch), [])

    def test_a_hangup_that_the_caller_ignores_stops_nothing(self):
        process = subprocess.Popen(["nohup", EVROS, "convert", self.model, self.path("o.gguf"), "--type", "q8_0", "-q"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.wait_for("a partial file", lambda: os.listdir(self.scratch))
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(60 * PATIENCE), 0)
        self.assertEqual(os.listdir(self.scratch), ["o.gguf"])


class SmallStacks(Scratch):
    def test_a_stack_too_small_for_the_kernels_is_refused_and_one_at_the_limit_is_enough(self):
        out = self.path("o.gguf")
        for command in (f"run {TINY} -p hello -n 2 -q", f"convert {TINY} {out} --type q4_k -q", f"trace {GGUF} --tokens 1,2,3 --out {out}",
                        f"tokenize {TINY} -p hello", f"inspect {TINY}", f"verify {GGUF} --budget 0.1"):
            for kilobytes in (64, 511, 512):
                with self.subTest(command, kilobytes=kilobytes):
                    done = subprocess.run(["bash", "-c", f'ulimit -s {kilobytes}; exec "$0" {command}', EVROS], capture_output=True,
                                          text=True, timeout=120 * PATIENCE)
                    if kilobytes < 512:
                        self.expect_sentence(done, ["ulimit -s", f"{kilobytes} KiB", "512 KiB"])
                    else:
                        self.assertEqual(done.returncode, 0, done.stderr)


class Sessions(Scratch):
    """One program at a time has a session's file."""

    def start(self, file):
        """A program that has the session open and waits for its text."""
        process = subprocess.Popen([EVROS, "run", TINY, "--raw", "-n", "4", "--temp", "0", "-q", "--session", file], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.wait_for("the lock", lambda: os.path.exists(file + ".lock"))
        return process

    def tokens(self, file):
        return json.loads(run("snapshot", "inspect", file, "--json").stdout)["tokens"]

    def test_a_second_program_is_refused_at_once_whether_the_file_exists_or_not(self):
        file = self.path("talk")
        held = []
        for _ in range(2):  # the second time the file exists, and is replaced while the lock is held
            first = self.start(file)
            before = sorted(os.listdir(self.scratch))
            for name in (file, os.path.join(self.scratch, ".", "talk")):
                for command in (["run", TINY, "--raw", "-p", "x", "--session", name], ["run", TINY, "-p", "x", "--session", name],
                                ["snapshot", "save", TINY, name, "--tokens", "1"]):
                    with self.subTest(command):
                        self.expect_sentence(run(*command), [name, "in use"])
            self.assertEqual(sorted(os.listdir(self.scratch)), before)
            first.communicate("Once upon a time", timeout=60 * PATIENCE)
            self.assertEqual(first.returncode, 0)
            self.assertEqual(os.listdir(self.scratch), ["talk"], "the lock goes with its program")
            tokens = self.tokens(file)
            self.assertEqual(tokens[:len(held)], held)
            self.assertGreater(len(tokens), len(held))
            held = tokens

    def test_the_lock_of_a_killed_program_hinders_nobody(self):
        file = self.path("talk")
        first = self.start(file)
        first.kill()
        first.communicate(timeout=60)
        self.assertTrue(os.path.exists(file + ".lock"))
        done = run("run", TINY, "--raw", "-p", "Once", "-n", "2", "-q", "--session", file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.scratch), ["talk"])


def on_terminal(*arguments):
    """(exit code, what stands on the terminal) of the program on a terminal of its own, where Ctrl-D is typed at a prompt."""
    master, slave = pty.openpty()
    process = subprocess.Popen([EVROS, *arguments], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    shown = b""
    while True:
        if not select.select([master], [], [], 0.5)[0]:  # it waits for a line
            os.write(master, b"\x04")
            continue
        try:
            part = os.read(master, 65536)
        except OSError:
            part = b""
        if not part:
            break
        shown += part
    os.close(master)
    return process.wait(60 * PATIENCE), shown


class Terminals(Scratch):
    NAME, KEY = b"micro-f32.gguf", b"tokenizer.ggml.bos_token_id"
    BAD_NAME = b"\x1b]0;own\x07\n\x7f\xff\xc2\x9b"
    BAD_KEY = b"evil\x1b[2J\r\xe2\x80\xae\xc3key of a model"

    def setUp(self):
        super().setUp()
        self.model = self.path("bad.gguf")
        with open(GGUF, "rb") as source:
            content = source.read()
        for good, bad in ((self.NAME, self.BAD_NAME), (self.KEY, self.BAD_KEY)):
            bad = bad + b"." * (len(good) - len(bad))
            self.assertEqual((content.count(good), len(bad)), (1, len(good)))
            content = content.replace(good, bad)
        with open(self.model, "wb") as out:
            out.write(content)

    def test_no_text_of_a_model_acts_on_the_terminal(self):
        for command in (["inspect"], ["inspect", "--tensors"], ["verify", "--budget", "0.1"], ["run", "-p", "x", "--raw", "-n", "1"],
                        ["bench", "--contexts", "8", "--prompt", "8", "--decode", "1", "--rounds", "1", "--plot", self.path("p.svg")],
                        ["tokenize", "-p", "x"], ["convert", self.path("o.gguf")], ["run", "-p", "x", "--kv", "f16", "--ctx", "99999"]):
            with self.subTest(command):
                done = subprocess.run([EVROS, command[0], self.model, *command[1:]], capture_output=True, timeout=120 * PATIENCE)
                for shown in (done.stdout.decode(), done.stderr.decode()):  # it is UTF-8
                    self.assertEqual([line for line in shown.split("\n") if not line.replace("\t", "").isprintable()], [])
        shown = run("inspect", self.model).stdout
        self.assertIn(r'"\x1b]0;own\x07\x0a\x7f\xff\xc2\x9b.', shown)
        self.assertIn(r"evil\x1b[2J\x0d\xe2\x80\xae\xc3key of a model", shown)
        with open(self.path("p.svg"), encoding="utf-8") as picture:
            self.assertIn(r"\x1b]0;own\x07\x0a", picture.read())

    def test_names_in_other_scripts_stay_readable(self):
        model = self.path("named.gguf")
        name = "k\u00fcche \u6a21\u578b \U0001f98a"
        self.assertEqual(run("convert", GGUF, model, "--name", name, "-q").returncode, 0)
        self.assertIn(f'"{name}"', run("inspect", model).stdout)

    def test_the_banner_of_a_chat_shows_the_name_escaped(self):
        code, shown = on_terminal("run", self.model)
        self.assertEqual(code, 0, shown)
        self.assertIn(rb"\x1b]0;own\x07\x0a", shown)
        self.assertNotIn(b"\x1b]0;own", shown)

    def test_a_name_with_control_characters_is_not_given_to_a_model(self):
        for name in (b"a\x1b[31m", b"a\nb", b"a\x7f", b"a\xc2\x9b", b"a\xff", b"\xe2\x80\xaeabc"):
            with self.subTest(name):
                done = subprocess.run([EVROS, "convert", GGUF, self.path("o.gguf"), "--name", name], capture_output=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
                self.assertRegex(done.stderr.decode(), r"\Aevros: --name: [^\n]*; see `evros convert --help`\n\Z")
                self.assertTrue(done.stderr.decode()[:-1].isprintable(), done.stderr)
                self.assertFalse(os.path.exists(self.path("o.gguf")))

    def test_a_chat_has_no_raw_form(self):
        code, shown = on_terminal("run", TINY, "--raw")
        self.assertEqual(code, 2, shown)
        self.assertIn(b"--raw", shown)
        self.assertIn(b"see `evros run --help`", shown)


if __name__ == "__main__":
    unittest.main()
