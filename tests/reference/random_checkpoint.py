"""Random small checkpoints: any Qwen4-Exp configuration, in any of the layouts in which such checkpoints are stored.

    write(folder, seed, {"hc_count": 2}, nested=True)

Scales are chosen so that activations stay of order one and every gate, router and indexer is really in play.
"""
import re

import numpy as np

from . import checkpoint

GAMMA, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1

# Small, and no two sizes alike, so that a mix-up of two dimensions cannot pass.
BASE = {
    "architectures": ["Qwen4ExpForCausalLM"], "model_type": "qwen4_exp_text", "dtype": "bfloat16",
    "vocab_size": 150, "hidden_size": 40, "num_hidden_layers": 4,
    "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
    "hidden_act": "silu", "output_gate_type": "sigmoid", "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 28,
    "norm_topk_prob": True, "hc_count": 4, "hc_lowrank": 12,
    "ple_layer_ids": [2], "ple_embed_dim": 40, "ple_conv_kernel_size": 4, "ngram_size": 3, "heads_per_ngram": 2,
    "ngram_vocab_size_base": 200, "make_ngram_vocab_size_divisible_by": 128, "split_ngram_parts": 3, "seed": 1234,
    "indexer_n_heads": 3, "indexer_kv_heads": 1, "indexer_head_dim": 20, "indexer_budget": 12, "indexer_compress_ratio": 4,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
                        "mrope_interleaved": True, "mrope_section": [2, 1, 1]},
    "max_position_embeddings": 512, "eos_token_id": 5, "bos_token_id": None, "pad_token_id": 0,
}


def primes_above(start):
    number = start + 1
    while True:
        if number > 1 and all(number % d for d in range(2, int(number ** 0.5) + 1)):
            yield number
        number += 1


def splitmix64(x):
    x = (x + GAMMA) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def ple_constants(config, place):
    """(multipliers, primes, offsets) of the PLE at this place of ple_layer_ids: docs/model.md, section 1.4."""
    heads = (config["ngram_size"] - 1) * config["heads_per_ngram"]
    half = max(1, ((1 << 63) - 1) // config["vocab_size"] // 2)
    seed = config.get("seed", 1234) + 10007 * place
    multipliers = [2 * (splitmix64((seed + GAMMA * (i + 1)) & MASK) % half) + 1 for i in range(config["ngram_size"])]
    generator = primes_above(config["ngram_vocab_size_base"] - 1)
    primes = [next(generator) for _ in range((place + 1) * heads)][place * heads:]
    return multipliers, primes, [sum(primes[:h]) for h in range(heads)]


class Builder:
    """Tensors by their names below `model.`, each drawn in turn from one generator."""

    def __init__(self, config, seed):
        self.c, self.draw, self.t = config, np.random.default_rng(seed), {}

    def normal(self, name, shape, scale):
        self.t[name] = self.draw.standard_normal(shape, np.float32) * np.float32(scale)

    def matrix(self, name, rows, columns, gain=1.0):
        self.normal(name, (rows, columns), gain / np.sqrt(columns))

    def gain(self, name, width):
        self.normal(name, (width,), 0.2)

    def hyper_connection(self, name, inject=True):
        wide, low = self.c["hc_count"] * self.c["hidden_size"], self.c["hc_lowrank"]
        self.gain(name + "hc_norm.weight", wide)
        self.matrix(name + "input_mix_weight_down.weight", low, wide, 4)
        self.matrix(name + "input_mix_weight_up.weight", wide, low, 2)
        if inject:
            self.matrix(name + "block_inject_weight.weight", self.c["hc_count"], wide, 3)

    def delta_net(self, name):
        c, hidden = self.c, self.c["hidden_size"]
        nv = c["linear_num_value_heads"]
        keys, values = c["linear_num_key_heads"] * c["linear_key_head_dim"], nv * c["linear_value_head_dim"]
        self.matrix(name + "in_proj_qkv.weight", 2 * keys + values, hidden)
        self.matrix(name + "in_proj_z.weight", values, hidden, 2)
        self.matrix(name + "in_proj_b.weight", nv, hidden, 2)
        self.matrix(name + "in_proj_a.weight", nv, hidden, 2)
        self.normal(name + "conv1d.weight", (2 * keys + values, 1, c["linear_conv_kernel_dim"]), 0.7)
        self.normal(name + "A_log", (nv,), 0.7)
        self.normal(name + "dt_bias", (nv,), 1.0)
        self.t[name + "norm.weight"] = 1 + 0.2 * self.draw.standard_normal(c["linear_value_head_dim"], np.float32)
        self.matrix(name + "out_proj.weight", hidden, values, 2)

    def attention(self, name):
        c, hidden = self.c, self.c["hidden_size"]
        heads, kv, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.matrix(name + "q_proj.weight", 2 * heads * dim, hidden)
        self.matrix(name + "k_proj.weight", kv * dim, hidden)
        self.matrix(name + "v_proj.weight", kv * dim, hidden, 2)
        self.matrix(name + "o_proj.weight", hidden, heads * dim, 2)
        self.gain(name + "q_norm.weight", dim)
        self.gain(name + "k_norm.weight", dim)
        index = c["indexer_head_dim"]
        if c["indexer_compress_ratio"] == 0:
            return
        self.matrix(name + "indexer.index_qk_proj.weight", (c["indexer_n_heads"] + 1) * index, hidden)
        self.gain(name + "indexer.q_layernorm.weight", index)
        self.gain(name + "indexer.k_layernorm.weight", index)

    def moe(self, name):
        c, hidden, middle = self.c, self.c["hidden_size"], self.c["moe_intermediate_size"]
        self.matrix(name + "gate.weight", c["num_experts"], hidden, 2)
        self.normal(name + "experts.gate_up_proj", (c["num_experts"], 2 * middle, hidden), hidden ** -0.5)
        self.normal(name + "experts.down_proj", (c["num_experts"], hidden, middle), 3 * middle ** -0.5)
        self.matrix(name + "shared_expert_gate.weight", 1, hidden, 2)
        shared = c["shared_expert_intermediate_size"]
        self.matrix(name + "shared_expert.gate_proj.weight", shared, hidden)
        self.matrix(name + "shared_expert.up_proj.weight", shared, hidden)
        self.matrix(name + "shared_expert.down_proj.weight", hidden, shared, 3)

    def ple(self, name, place, parts):
        c, hidden, wide = self.c, self.c["hidden_size"], self.c["hc_count"] * self.c["hidden_size"]
        constants = ple_constants(c, place)
        for part, values in zip(("layer_multipliers", "ngram_heads_vocab_sizes", "ngram_heads_offsets"), constants):
            self.t[f"{name}ple_embedding.{part}"] = np.array(values, np.int64)
        unit, width = c["make_ngram_vocab_size_divisible_by"], c["ple_embed_dim"] // len(constants[1])
        rows = -(-sum(constants[1]) // unit) * unit
        table = self.draw.standard_normal((rows, width), np.float32)
        begin = 0
        for part in range(parts):  # unequal on purpose: part k is about (k mod 3 + 1) shares
            left = parts - part
            end = rows if left == 1 else begin + max(1, (rows - begin) * (part % 3 + 1) // (2 * left))
            self.t[f"{name}ple_embedding.ngram_embedding.shard_{part}.weight"] = table[begin:end]
            begin = end
        self.matrix(name + "key_proj.weight", wide, c["ple_embed_dim"])
        self.matrix(name + "value_proj.weight", hidden, c["ple_embed_dim"])
        for norm in ("norm_key", "norm_query", "norm_conv"):
            self.gain(f"{name}{norm}.weight", wide)
        self.normal(name + "conv1d.weight", (wide, 1, c["ple_conv_kernel_size"]), 0.5)

    def layer(self, name, linear):
        self.hyper_connection(name + "attn_hyper_connection.")
        self.hyper_connection(name + "mlp_hyper_connection.")
        self.delta_net(name + "linear_attn.") if linear else self.attention(name + "self_attn.")
        self.moe(name + "mlp.")

    def build(self, linear, parts):
        c, hidden = self.c, self.c["hidden_size"]
        self.normal("embed_tokens.weight", (c["vocab_size"], hidden), 1.0)
        for i, is_linear in enumerate(linear):
            self.layer(f"layers.{i}.", is_linear)
        for place, layer in enumerate(c.get("ple_layer_ids") or []):
            self.ple(f"layers.{layer - 1}.ple.", place, parts)
        self.hyper_connection("hyper_connection_mixer.", inject=False)
        return self.t

    def build_mtp(self):
        """The draft head's tensors, complete names."""
        keep, self.t = self.t, {}
        hidden, wide = self.c["hidden_size"], self.c["hc_count"] * self.c["hidden_size"]
        self.matrix("mtp.fc_embedding.weight", hidden, hidden)
        self.matrix("mtp.fc_hidden.weight", hidden, hidden)
        self.gain("mtp.pre_fc_norm_embedding.weight", hidden)
        self.gain("mtp.pre_fc_norm_hidden.weight", wide)
        self.hyper_connection("mtp.hyper_connection_mixer.", inject=False)
        self.layer("mtp.layers.0.", False)
        made, self.t = self.t, keep
        return made


def split_experts(tensors):
    """The layout of transformers' save_pretrained: one tensor per expert and projection."""
    out = {}
    for name, value in tensors.items():
        if name.endswith("experts.gate_up_proj"):
            stem, middle = name[:-len("gate_up_proj")], value.shape[1] // 2
            for e in range(len(value)):
                out[f"{stem}{e}.gate_proj.weight"], out[f"{stem}{e}.up_proj.weight"] = value[e, :middle], value[e, middle:]
        elif name.endswith("experts.down_proj"):
            stem = name[:-len("down_proj")]
            out.update({f"{stem}{e}.down_proj.weight": value[e] for e in range(len(value))})
        else:
            out[name] = value
    return out


def group_of(name):
    """Tensors that are parts of one: the shards of a table, the experts of a layer. They share a dtype."""
    return re.sub(r"(shard_|experts\.)\d+", r"\1", name)


def vision(draw):
    return {"model.visual.patch_embed.proj.weight": draw.standard_normal((6, 3, 2, 4, 4), np.float32),
            "model.visual.blocks.0.attn.qkv.bias": draw.standard_normal(18, np.float32),
            "model.visual.merger.norm.weight": draw.standard_normal(6, np.float32)}


def write(folder, seed, config=None, drop=(), prefix="model.", per_expert=False, nested=False, with_vision=False, mtp=False,
          parts=3, dtypes=("BF16",), files=1):
    """Writes a checkpoint folder: `config` over BASE, without the keys in `drop`.

    prefix      before the trunk's names: "model." or "model.language_model."
    per_expert  one tensor per expert instead of fused ones;  nested: text_config below a multimodal config
    parts       shards of each n-gram table, of unequal sizes;  dtypes: dealt out to the tensors in turn, integers stay I64
    files       shards of the checkpoint
    """
    c = {**BASE, **(config or {})}
    interval = c.get("full_attention_interval")
    linear = [(i + 1) % interval != 0 for i in range(c["num_hidden_layers"])] if "layer_types" in drop else \
        [t == "linear_attention" for t in c["layer_types"]]
    builder = Builder(c, seed)
    tensors = builder.build(linear, parts)
    if per_expert:
        tensors = split_experts(tensors)
    tensors = {prefix + name: value for name, value in tensors.items()}
    if not c["tie_word_embeddings"]:
        builder.t = {}
        builder.matrix("lm_head.weight", c["vocab_size"], c["hidden_size"])
        tensors.update(builder.t)
    if mtp:
        c.update(mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False)
        made = builder.build_mtp()
        tensors.update(split_experts(made) if per_expert else made)
    if with_vision:
        tensors.update(vision(builder.draw))
    groups = sorted({group_of(name) for name in tensors})
    arrays = {name: ("I64" if value.dtype == np.int64 else dtypes[groups.index(group_of(name)) % len(dtypes)], value)
              for name, value in sorted(tensors.items())}
    for key in drop:
        c.pop(key, None)
    if nested:
        c = {**c, "model_type": "qwen4_exp_text"}
        c = {"architectures": ["Qwen4ExpForConditionalGeneration"], "model_type": "qwen4_exp", "image_token_id": 140,
             "vision_config": {"depth": 1, "hidden_size": 6}, "tie_word_embeddings": c["tie_word_embeddings"], "text_config": c}
    checkpoint.write_folder(folder, c, arrays, files)
