"""The bundled model's GGUF read and recomputed by other people's code: PyPI gguf's reader and quantiser, NumPy."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gguf
import numpy as np

EVROS = os.environ["EVROS"]
SOURCE = Path(os.environ["EVROS_SOURCE_DIR"]) / "models" / "evros-tiny"
BUNDLED = Path(os.environ["EVROS_BINARY_DIR"]) / "evros-tiny.gguf"
PREFIX = "model.language_model."


def read_folder(folder):
    """name -> float32 array (int64 buffers stay int64)."""
    tensors = {}
    for path in sorted(folder.glob("model*.safetensors")):
        raw = path.read_bytes()
        (length,) = struct.unpack_from("<Q", raw)
        for name, entry in json.loads(raw[8:8 + length]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + length + o for o in entry["data_offsets"])
            if entry["dtype"] == "BF16":
                bits = np.frombuffer(raw[begin:end], np.uint16).astype(np.uint32) << 16
                data = bits.view(np.float32)
            else:
                data = np.frombuffer(raw[begin:end], {"F32": np.float32, "I64": np.int64}[entry["dtype"]])
            tensors[name] = data.reshape(entry["shape"])
    return tensors


def tiled(rows, key_heads, repeat, width):
    """Grouped value heads (g * repeat + i) in GGUF's order (i * key_heads + g); `width` rows a head."""
    shape = rows.shape
    heads = rows.reshape(key_heads, repeat, width, *shape[1:])
    return np.ascontiguousarray(heads.swapaxes(0, 1)).reshape(shape)


class BundledModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reader = gguf.GGUFReader(BUNDLED)
        cls.made = {t.name: t for t in cls.reader.tensors}
        cls.stored = read_folder(SOURCE)
        cls.config = json.loads((SOURCE / "config.json").read_text())

    def key(self, name):
        return self.reader.fields[name].contents()

    def expect(self, name, values):
        tensor = self.made[name]
        values = np.asarray(values, np.float32)
        self.assertEqual([int(n) for n in tensor.shape], list(values.shape[::-1]), name)
        wanted = gguf.quants.quantize(values, tensor.tensor_type) if tensor.tensor_type.name != "F32" else values
        self.assertEqual(tensor.data.tobytes(), wanted.tobytes(), name)

    def test_matrices_have_the_bytes_of_the_other_quantiser(self):
        h = self.stored
        self.assertEqual(self.made["token_embd.weight"].tensor_type.name, "Q8_0")
        self.expect("token_embd.weight", h[PREFIX + "embed_tokens.weight"])
        self.expect("output.weight", h["lm_head.weight"])
        fused = h[PREFIX + "layers.3.mlp.experts.gate_up_proj"]
        half = fused.shape[1] // 2
        self.expect("blk.3.ffn_gate_exps.weight", fused[:, :half])
        self.expect("blk.3.ffn_up_exps.weight", fused[:, half:])
        self.expect("blk.3.ffn_down_exps.weight", h[PREFIX + "layers.3.mlp.experts.down_proj"])
        shards = [h[f"{PREFIX}layers.1.ple.ple_embedding.ngram_embedding.shard_{k}.weight"] for k in range(4)]
        self.expect("per_layer_token_embd.weight", np.concatenate(shards))

    def test_gains_and_decay_are_folded(self):
        h, p = self.stored, PREFIX + "layers.0."
        self.expect("blk.0.hc_attn_norm.weight", np.float32(1) + h[p + "attn_hyper_connection.hc_norm.weight"])
        self.expect("blk.0.ssm_norm.weight", h[p + "linear_attn.norm.weight"])
        keys, values = self.config["linear_num_key_heads"], self.config["linear_num_value_heads"]
        decay = tiled(-np.exp(h[p + "linear_attn.A_log"].astype(np.float64)), keys, values // keys, 1)
        np.testing.assert_allclose(self.made["blk.0.ssm_a"].data, decay, rtol=2e-7)

    def test_the_draft_head_is_joined(self):
        joined = np.concatenate([self.stored["mtp.fc_embedding.weight"], self.stored["mtp.fc_hidden.weight"]], axis=1)
        self.expect("blk.8.nextn.eh_proj.weight", joined)
        self.assertEqual(self.key("qwen4exp.block_count"), 9)
        self.assertEqual(self.key("qwen4exp.nextn_predict_layers"), 1)
        self.assertEqual(self.key("qwen4exp.attention.compress_ratios"), [0, 0, 0, 16, 0, 0, 0, 16, 0])

    def test_metadata(self):
        self.assertEqual(self.key("general.architecture"), "qwen4exp")
        self.assertEqual(self.key("general.name"), "evros-tiny")
        self.assertEqual(self.key("qwen4exp.full_attention_interval"), 4)
        self.assertEqual(self.key("qwen4exp.ple.layers"), [1])
        self.assertEqual(self.key("qwen4exp.rope.dimension_sections"), [11, 11, 10, 0])
        buffers = PREFIX + "layers.1.ple.ple_embedding."
        self.assertEqual(self.key("qwen4exp.ple.layer_multipliers"), self.stored[buffers + "layer_multipliers"].tolist())
        self.assertEqual(self.key("qwen4exp.ple.head_offsets"), self.stored[buffers + "ngram_heads_offsets"].tolist())
        tokenizer = json.loads((SOURCE / "tokenizer.json").read_text())
        tokens = self.key("tokenizer.ggml.tokens")
        self.assertEqual(len(tokens), self.config["vocab_size"])
        for token, number in tokenizer["model"]["vocab"].items():
            self.assertEqual(tokens[number], token)
        self.assertEqual(self.key("tokenizer.ggml.merges"), [" ".join(m) for m in tokenizer["model"]["merges"]])
        self.assertEqual(self.key("tokenizer.ggml.eos_token_id"), 4089)
        self.assertEqual(self.key("evros.eos_token_ids"), [4089, 4087])
        self.assertEqual(self.key("tokenizer.chat_template"), (SOURCE / "chat_template.jinja").read_text())


class Micro(unittest.TestCase):
    def test_value_heads_are_tiled(self):
        """Two key heads with three value heads each: rows, channels and columns move."""
        source = Path(os.environ["EVROS_BINARY_DIR"]) / "micro" / "hf"
        with tempfile.TemporaryDirectory(dir=os.environ["EVROS_BINARY_DIR"]) as folder:
            out = Path(folder) / "micro.gguf"
            ran = subprocess.run([EVROS, "convert", "--type", "f32", str(source), str(out)], capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            made = {t.name: t.data.copy() for t in gguf.GGUFReader(out).tensors}
        h = read_folder(source)
        p, fixed = "model.layers.0.linear_attn.", 2 * 2 * 16
        qkv = h[p + "in_proj_qkv.weight"]
        np.testing.assert_array_equal(made["blk.0.attn_qkv.weight"][:fixed], qkv[:fixed])
        np.testing.assert_array_equal(made["blk.0.attn_qkv.weight"][fixed:], tiled(qkv[fixed:], 2, 3, 16))
        out_proj = np.ascontiguousarray(h[p + "out_proj.weight"].T)
        np.testing.assert_array_equal(made["blk.0.ssm_out.weight"], tiled(out_proj, 2, 3, 16).T)
        np.testing.assert_array_equal(made["blk.0.ssm_beta.weight"], tiled(h[p + "in_proj_b.weight"], 2, 3, 1))


class Errors(unittest.TestCase):
    def test_an_error_is_one_sentence_and_leaves_no_file(self):
        with tempfile.TemporaryDirectory(dir=os.environ["EVROS_BINARY_DIR"]) as folder:
            for arguments in (["/nowhere", f"{folder}/a.gguf"], [str(SOURCE), f"{folder}/a.gguf", "--type", "q9_9"],
                              [str(SOURCE), f"{folder}/a.bin"], [str(SOURCE), f"{folder}/missing/a.gguf"]):
                ran = subprocess.run([EVROS, "convert", *arguments], capture_output=True, text=True)
                self.assertEqual(ran.returncode, 2 if "--type" in arguments else 1)
                self.assertEqual(ran.stdout, "")
                self.assertTrue(ran.stderr.startswith("evros: "), ran.stderr)
                self.assertEqual(ran.stderr.count("\n"), 1)
                self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
