#!/usr/bin/env python3
"""Every weight type that published files have, and the mixes of types in which they are published (docs/model.md 6.3): random
blocks in a small model, run by the program, against the gguf package's reading of the same blocks.

usage: every_type_test.py; needs EVROS.
"""
import os
import subprocess
import sys
import tempfile
import unittest

import gguf
import numpy as np

from reference import checkpoint, gguf_files, gguf_model, random_checkpoint

EVROS = os.environ["EVROS"]
# Rows of 256 wherever the published model has rows of a multiple of 256; narrow ones where it has 320 (hc up) and 160 (table).
CONFIG = {"hidden_size": 256, "moe_intermediate_size": 256, "shared_expert_intermediate_size": 256, "hc_lowrank": 64, "hc_count": 2,
          "head_dim": 64, "linear_key_head_dim": 64, "linear_value_head_dim": 64, "ple_embed_dim": 256, "num_experts": 4,
          "num_experts_per_tok": 2, "num_hidden_layers": 3,
          "layer_types": ["linear_attention", "linear_attention", "full_attention"]}
TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ3_XXS", "IQ3_S", "IQ2_XXS",
         "IQ2_XS", "IQ2_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4")
SMALL = ("norm", "conv1d", "ffn_gate_inp", "inject", "ssm_a", "ssm_dt", "ssm_beta")
REST = {"indexer": "BF16", "hc_": "Q8_0", "per_layer_token_embd": "IQ4_NL", "ffn_down_exps": "IQ4_NL"}
# The file -> {part of a tensor's name: type}; the first that matches.
MIXES = {
    "UD-IQ1_S": {**REST, "blk.1.ffn_gate_exps": "IQ2_XXS", "exps": "IQ1_S", "token_embd": "Q4_K", "output.": "Q6_K", "": "Q5_K"},
    "UD-IQ1_M": {**REST, "blk.1.ffn_up_exps": "IQ2_XXS", "exps": "IQ1_M", "token_embd": "Q4_K", "output.": "Q6_K", "": "Q5_K"},
    "UD-Q2_K_XL": {**REST, "blk.2.ffn_gate_exps": "IQ3_XXS", "exps": "IQ2_XS", "token_embd": "Q4_K", "output.": "Q6_K", "": "Q5_K"},
    "UD-IQ3_XXS": {**REST, "blk.1.ffn_gate_exps": "IQ3_S", "exps": "IQ2_S", "output.": "Q6_K", "": "Q5_K"},
    "UD-IQ4_XS": {**REST, "exps": "IQ4_XS", "output.": "Q6_K", "": "Q8_0"},
    "UD-Q4_K_XL": {"blk.0.ffn_down_exps": "Q8_0", **REST, "ffn_down_exps": "Q5_1", "blk.2.ffn_up_exps": "Q5_K", "exps": "Q4_K", "": "Q8_0"},
    "Q8_0 with a Q4_0 table": {"indexer": "BF16", "per_layer_token_embd": "Q4_0", "": "Q8_0"},
}


def kind_of(name):
    return gguf.GGMLQuantizationType[name]


class EveryType(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="evros_types_")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = scratch.name
        folder = cls.path("folder")
        random_checkpoint.write(folder, 5, CONFIG)
        cls.config, arrays = checkpoint.read_folder(folder)
        cls.ple_arrays = {name.removeprefix("model."): a for name, a in arrays.items() if a.dtype == np.int64}
        cls.tokens = np.random.default_rng(6).integers(6, cls.config["vocab_size"], 24).astype(np.int32)
        subprocess.run([EVROS, "convert", folder, cls.path("floats.gguf"), "--type", "f32", "--quiet"], check=True, timeout=120)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.scratch, name)

    def retyped(self, target, type_of):
        """The model with random blocks; type_of(name) says of which type, where a row has whole blocks of it."""
        rng, seen = np.random.default_rng(7), set()

        def blocks(name, shape):
            if len(shape) < 2 or any(part in name for part in SMALL):
                return None
            wanted = type_of(name)
            if wanted == "BF16":
                values = rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[-1]))
                return gguf.quantize(values, kind_of(wanted)), kind_of(wanted)
            if shape[-1] % gguf.GGML_QUANT_SIZES[kind_of(wanted)][0] != 0:
                return None
            seen.add(wanted)
            return gguf_files.random_blocks(rng, wanted, shape, 1.0 / np.sqrt(shape[-1])), kind_of(wanted)

        gguf_files.rewrite(self.path("floats.gguf"), target, retyped=blocks)
        return seen

    def trace(self, model, numerics="N1"):
        out = self.path("trace.safetensors")
        subprocess.run([EVROS, "trace", model, "--tokens", ",".join(map(str, self.tokens)), "--kv", "f32", "--numerics", numerics,
                        "--threads", "1", "--prefix", "a", "--out", out], check=True, stdout=subprocess.DEVNULL, timeout=120)
        return checkpoint.read_file(out)

    def check(self, name, type_of, wanted):
        model, floats = self.path("made.gguf"), self.path("as-floats.gguf")
        self.assertEqual(self.retyped(model, type_of), wanted)
        gguf_files.rewrite(model, floats, dequantise=True)
        # N1-f32: the package's floats, every bit of every value on the way.
        exact, theirs = self.trace(model, "N1-f32"), self.trace(floats)
        self.assertEqual(set(exact), set(theirs))
        for key, values in exact.items():
            self.assertTrue(np.array_equal(values, theirs[key]), f"{name}: {key} differs")
        self.assertTrue(np.isfinite(exact["a.logits"]).all() and exact["a.logits"].std() > 0)
        # N1: layer by layer what NumPy makes of int8 activations, and not what it makes of floats.
        made = self.trace(model)["a.layer_out"].astype(np.float64)
        arrays, quantised = gguf_model.read(model, self.config, self.ple_arrays)
        right, wrong = self.layer_errors(made, arrays, quantised), self.layer_errors(made, arrays, set())
        print(f"{name}: int8 {right}, floats {wrong}", file=sys.stderr)
        # Where x*127/amax is within a float32 error of a half, two exact implementations round differently, and the delta rule
        # carries that through the layer's later tokens: one layer of three may show it. A wrong integer or scale shows in all.
        self.assertLess(np.median(right), 1e-6, name)
        self.assertGreater(np.median(wrong), 100 * np.median(right), name)

    def test_outer_scales(self):
        model, scaled, floats = self.path("made.gguf"), self.path("scaled.gguf"), self.path("as-floats.gguf")
        self.retyped(model, lambda name: "BF16" if "indexer" in name else "NVFP4")
        rng, scales = np.random.default_rng(8), {}
        for tensor in gguf.GGUFReader(model).tensors:
            if tensor.tensor_type == kind_of("NVFP4") and "token_embd" not in tensor.name:
                count = tensor.shape[2] if len(tensor.shape) == 3 else 1
                scales[tensor.name] = np.exp2(rng.integers(-3, 4, count)).astype(np.float32)
        self.assertGreater(len(scales), 20)
        named = {name.removesuffix("weight") + "scale": s for name, s in scales.items()}
        plain = next(name for name in scales if "exps" not in name)
        named[plain.removesuffix("weight") + "input_scale"] = np.float32([0.01])  # of activations: left out
        gguf_files.rewrite(model, scaled, added=named)
        gguf_files.rewrite(model, floats, dequantise=True, changed={
            name: lambda a, s=s: a * (s.reshape(-1, 1, 1) if a.ndim == 3 else s) for name, s in scales.items()})
        # Powers of two: whether weights or finished sums are multiplied changes no bit.
        exact, theirs, without = self.trace(scaled, "N1-f32"), self.trace(floats), self.trace(model, "N1-f32")
        for key, values in exact.items():
            self.assertTrue(np.array_equal(values, theirs[key]), f"{key} differs")
        self.assertFalse(np.array_equal(exact["a.logits"], without["a.logits"]))
        # Any number: near the floats that the package makes.
        odd = {name: (0.7 * s).astype(np.float32) for name, s in named.items()}
        gguf_files.rewrite(model, scaled, added=odd)
        gguf_files.rewrite(model, floats, dequantise=True, changed={
            name: lambda a, s=s: a * np.float32(0.7) * (s.reshape(-1, 1, 1) if a.ndim == 3 else s) for name, s in scales.items()})
        exact, theirs = self.trace(scaled, "N1-f32")["a.logits"], self.trace(floats)["a.logits"]
        self.assertLess(np.abs(exact - theirs).max(), 1e-4 * np.abs(theirs).max())

    def layer_errors(self, made, arrays, int8):
        """Median over the tokens of each layer's largest difference, as a share of the layer's largest value; `int8` names the
        matrices that are multiplied with int8 activations."""
        model, medians = gguf_model.QuantisedModel(self.config, arrays, int8), []
        for i, theirs in enumerate(made):
            x = made[i - 1].reshape(len(self.tokens), model.hc, model.hidden) if i else model.streams(self.tokens)
            ours = model.layer(i, x, self.tokens, {}, {"route": np.inf, "selection": np.inf})
            medians.append(float(np.median(np.abs(ours.reshape(theirs.shape) - theirs).max(1) / np.abs(theirs).max())))
        return medians


for kind in TYPES:
    setattr(EveryType, f"test_{kind.lower()}", lambda self, kind=kind: self.check(kind, lambda _: kind, {kind}))
for mix, roles in MIXES.items():
    def check_mix(self, mix=mix, roles=roles):
        self.check(mix, lambda name: next(t for part, t in roles.items() if part in name), set(roles.values()) - {"BF16"})
    setattr(EveryType, f"test_mix_{mix}", check_mix)


if __name__ == "__main__":
    unittest.main()
