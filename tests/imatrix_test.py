#!/usr/bin/env python3
"""`evros imatrix` against the NumPy model's own products, read with the gguf package; what `convert --imatrix` makes of it."""
import os
import re
import unittest

import gguf
import numpy as np

from reference import checkpoint, gguf_model, qwen4exp
from text_case import TINY, TextCase, run

TEXT = "Once upon a time there was a small fox who lived near a river. Every morning she counted the stones: one, two, three. " \
       "One day a bird came and said, \"There are four.\""
WINDOW = 16
STEMS = {name: stem for stem, name in gguf_model.NAMES.items()}


class Recorder(qwen4exp.Model):
    """The NumPy model, which notes what every matrix is multiplied with: GGUF name -> {expert: [sums, rows]}."""

    def __init__(self, config, arrays):
        super().__init__(config, arrays)
        self.seen = {}

    def names(self, name, part):
        layer, stem = re.fullmatch(r"(?:layers\.(\d+)\.)?(.*?)(?:\.weight)?", name).groups()
        at = f"blk.{layer}." if layer else ""
        single = re.fullmatch(r"mlp\.experts\.(\d+)\.(gate|up|down)_proj", stem)
        if single:
            return [at + f"ffn_{single[2]}_exps"], int(single[1])
        if stem == "mlp.experts.gate_up_proj":
            return [at + ("ffn_gate_exps" if part[1].start is None else "ffn_up_exps")], part[0]
        if stem == "mlp.experts.down_proj":
            return [at + "ffn_down_exps"], part
        if stem == "self_attn.indexer.index_qk_proj":
            return [at + "indexer.q_proj", at + "indexer.k_proj"], 0
        return [at + STEMS[stem]], 0

    def mul(self, x, name, part=...):
        stems, expert = self.names(name, part)
        columns = x
        if name.endswith("linear_attn.out_proj.weight"):  # the file has the value heads in another order
            heads = np.arange(self.c["linear_num_value_heads"] * self.c["linear_value_head_dim"])
            columns = x[:, np.argsort(gguf_model.grouped(heads, self.c), kind="stable")]
        for stem in stems:
            entry = self.seen.setdefault(stem + ".weight", {}).setdefault(expert, [0, 0])
            entry[0] += (columns.astype(np.float64)**2).sum(0)
            entry[1] += len(columns)
        return super().mul(x, name, part)


def read(path):
    """GGUF name -> (sums [experts, columns], counts [experts])."""
    tensors = {t.name: t.data for t in gguf.GGUFReader(path).tensors}
    return {name.removesuffix(".in_sum2"): (data.reshape(-1, data.shape[-1]), tensors[name.removesuffix("in_sum2") + "counts"].reshape(-1))
            for name, data in tensors.items() if name.endswith(".in_sum2")}


def write(path, matrices, kind="imatrix", suffixes=("in_sum2", "counts")):
    writer = gguf.GGUFWriter(path, "")
    writer.add_type(kind)
    for name, arrays in matrices.items():
        for suffix, array in zip(suffixes, arrays):
            writer.add_tensor(f"{name}.{suffix}", array.reshape(len(array), -1))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def content(path):
    with open(path, "rb") as file:
        return file.read()


class Imatrix(TextCase):
    TEXT = TEXT

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.matrix = cls.path("matrix.gguf")
        cls.measure(cls.matrix)

    @classmethod
    def measure(cls, target, *options):
        done = run("imatrix", TINY, "-f", cls.text, "-o", target, "--ctx", str(WINDOW), "--kv", "f32", "-q", *options)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr

    def convert(self, target, *options):
        done = run("convert", TINY, target, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_sums_are_those_of_every_product_of_the_numpy_model(self):
        model = Recorder(*checkpoint.read_folder(TINY))
        for at in range(0, len(self.ids), WINDOW):
            model.run(np.array(self.ids[at:at + WINDOW]), "a")
        ours = read(self.matrix)
        self.assertEqual(set(ours), set(model.seen))
        self.assertGreater(len(ours), 100)
        for name, (sums, counts) in ours.items():
            for expert in range(len(counts)):
                wanted, rows = model.seen[name].get(expert, (np.zeros(sums.shape[1]), 0))
                self.assertEqual(counts[expert], rows, f"{name} {expert}")
                np.testing.assert_allclose(sums[expert], wanted, rtol=2e-3, atol=1e-5 * max(wanted.max(), 1e-9), err_msg=f"{name} {expert}")

    def test_keys_say_what_the_other_tool_says(self):
        fields = gguf.GGUFReader(self.matrix).fields
        self.assertEqual(fields["general.type"].contents(), "imatrix")
        self.assertEqual(fields["imatrix.datasets"].contents(), [self.text])
        self.assertEqual(fields["imatrix.chunk_count"].contents(), -(-len(self.ids) // WINDOW))
        self.assertEqual(fields["imatrix.chunk_size"].contents(), WINDOW)

    def test_chunks_threads_and_kernels_change_no_byte(self):
        other = self.path("other.gguf")
        for options in (["--chunk", "5", "--threads", "1"], ["--chunk", "7", "--threads", "3", "--kernels", "ref"]):
            self.measure(other, *options)
            self.assertEqual(content(other), content(self.matrix), options)

    def quantised(self, kind, *options):
        """Matrices of this type in the file: name -> (values, stored bytes)."""
        target = self.path("made.gguf")
        self.convert(target, "--type", kind, *options)
        return {t.name: (gguf.dequantize(t.data, t.tensor_type).astype(np.float64), t.data.tobytes())
                for t in gguf.GGUFReader(target).tensors if t.tensor_type.name == kind.upper()}

    def test_the_weighted_error_of_every_type_falls(self):
        exact = self.path("exact.gguf")
        self.convert(exact, "--type", "f32")
        floats = {t.name: t.data.astype(np.float64) for t in gguf.GGUFReader(exact).tensors}
        matrix = read(self.matrix)
        for kind, group in (("q4_k", 32), ("q5_k", 32), ("q6_k", 16)):
            plain, weighted = self.quantised(kind), self.quantised(kind, "--imatrix", self.matrix)
            totals = np.zeros((2, 2))  # the error that the search makes small, and that of the outputs alone; before, after
            for name in plain.keys() & matrix.keys():
                sums, counts = matrix[name]
                x = floats[name]
                groups = x.reshape(-1, group)
                own = (np.sqrt((groups**2).mean(1, keepdims=True)) + np.abs(groups)).reshape(x.shape)
                for expert in range(len(counts)):
                    pick = expert if x.ndim == 3 else ...
                    if counts[expert] == 0:
                        self.assertTrue(np.array_equal(plain[name][0][pick], weighted[name][0][pick]), f"{kind} {name} {expert}")
                        continue
                    column = sums[expert] / sums[expert].mean()
                    squares = [(made[name][0][pick] - x[pick])**2 for made in (plain, weighted)]
                    errors = np.array([[(e * own[pick] * column).sum(), (e * column).sum()] for e in squares])
                    self.assertLessEqual(errors[1, 0], errors[0, 0], f"{kind} {name} {expert}")
                    totals += errors
            self.assertTrue((totals[1] < 0.99 * totals[0]).all(), f"{kind} {totals}")
            for name in plain.keys() - matrix.keys():
                self.assertEqual(plain[name][1], weighted[name][1], name)

    def test_other_types_ignore_it(self):
        for kind in ("q8_0", "q4_0", "iq4_nl"):
            tensors = []
            for options in ([], ["--imatrix", self.matrix]):
                self.convert(self.path("made.gguf"), "--type", kind, *options)
                tensors.append({t.name: t.data.tobytes() for t in gguf.GGUFReader(self.path("made.gguf")).tensors})
            self.assertEqual(*tensors)
            self.assertEqual(self.imatrix_keys(), [], kind)

    def imatrix_keys(self):
        return [key for key in gguf.GGUFReader(self.path("made.gguf")).fields if "imatrix" in key]

    def test_a_file_names_the_matrix_when_a_tensor_used_it(self):
        for kind in ("q4_k", "q5_k", "q6_k"):
            self.convert(self.path("made.gguf"), "--type", kind, "--imatrix", self.matrix)
            self.assertEqual(sorted(self.imatrix_keys()), [f"quantize.imatrix.{end}" for end in ("chunks_count", "dataset", "entries_count")])
        sums, counts = read(self.matrix)["blk.0.attn_qkv.weight"]
        write(self.path("other.gguf"), {"blk.77.attn_qkv.weight": (sums, counts)})  # says nothing of this model
        self.convert(self.path("made.gguf"), "--type", "q4_k", "--imatrix", self.path("other.gguf"))
        self.assertEqual(self.imatrix_keys(), [])

    def test_a_matrix_that_says_nothing_is_counted_and_changes_no_tensor(self):
        kept = "blk.0.attn_qkv.weight"
        matrices = {name: (sums * 0, counts * 0) for name, (sums, counts) in read(self.matrix).items() if name == kept}
        write(self.path("nothing.gguf"), matrices)
        tensors = []
        for options in ([], ["--imatrix", self.path("nothing.gguf")]):
            said = self.convert(self.path("made.gguf"), "--type", "q4_k", *options)
            tensors.append({t.name: (t.tensor_type.name, t.data.tobytes()) for t in gguf.GGUFReader(self.path("made.gguf")).tensors})
        self.assertEqual(*tensors)
        others = sum(kind == "Q4_K" for kind, _ in tensors[0].values()) - 1
        self.assertIn(f"1 tensor weighted, {others} without an entry; 1 expert that no token reached", said)

    def refused(self, words, *arguments):
        done = run(*arguments)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_files_that_are_no_matrix_of_this_model_are_refused_and_leave_nothing(self):
        name = "blk.0.attn_qkv.weight"
        sums, counts = (array.copy() for array in read(self.matrix)[name])
        bad = self.path("bad.gguf")

        def refused(words, *arguments, **options):
            write(bad, {name: arguments}, **options)
            self.refused([bad, *words], "convert", TINY, self.path("never.gguf"), "--type", "q4_k", "--imatrix", bad)

        width = sums.shape[1]
        refused([name, str(width - 1), str(width)], sums[:, 1:], counts)
        refused([name, "2 experts"], np.concatenate([sums, sums]), np.concatenate([counts, counts]))
        refused([name, "sums of 1", "counts of 2"], sums, np.concatenate([counts, counts]))
        refused([name, "in_sum2", "finite"], sums * np.float32(np.nan), counts)
        refused([name, "counts", "-1"], sums, counts * 0 - 1)
        refused([name, "F16"], sums.astype(np.float16), counts)
        refused([name + ".counts"], sums, counts, suffixes=("in_sum2", "other"))
        refused([name + ".in_sum2"], sums, counts, suffixes=("other", "counts"))
        refused(["general.type", "model"], sums, counts, kind="model")
        self.refused(["absent"], "convert", TINY, self.path("never.gguf"), "--type", "q4_k", "--imatrix", self.path("absent"))
        self.assertFalse([entry for entry in os.listdir(self.folder.name) if entry.startswith("never")])

    def test_what_cannot_be_measured_is_refused_and_leaves_no_file(self):
        empty, target = self.path("empty.txt"), self.path("never.gguf")
        open(empty, "w", encoding="utf-8").close()
        self.refused(["no token"], "imatrix", TINY, "-f", empty, "-o", target, "-q")
        self.refused(["CPU"], "imatrix", TINY, "-f", self.text, "-o", target, "--device", "cuda", "-q")
        self.refused([".gguf"], "imatrix", TINY, "-f", self.text, "-o", self.path("never.dat"), "-q")
        self.refused(["absent"], "imatrix", TINY, "-f", self.path("absent"), "-o", target, "-q")
        self.assertFalse([entry for entry in os.listdir(self.folder.name) if entry.startswith("never")])


if __name__ == "__main__":
    unittest.main()
