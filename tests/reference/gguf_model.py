"""A GGUF's tensors under the checkpoint's names and in its order of value heads (docs/model.md, sections 2.1, 2.5, 4.1).

With Model.mul exchanged for the rule of docs/numerics.md for quantised weights: activations as int8 by groups of 32.
"""
import re

import gguf
import numpy as np

from . import qwen4exp

HC = {"norm": "hc_norm", "down": "input_mix_weight_down", "up": "input_mix_weight_up", "inject": "block_inject_weight"}
NAMES = {
    "token_embd": "embed_tokens", "output": "lm_head",
    **{f"output_hc_{short}": f"hyper_connection_mixer.{long}" for short, long in HC.items()},
    **{f"hc_attn_{short}": f"attn_hyper_connection.{long}" for short, long in HC.items()},
    **{f"hc_ffn_{short}": f"mlp_hyper_connection.{long}" for short, long in HC.items()},
    "ffn_gate_inp": "mlp.gate", "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    **{f"ffn_{p}_shexp": f"mlp.shared_expert.{p}_proj" for p in ("gate", "up", "down")},
    "attn_qkv": "linear_attn.in_proj_qkv", "attn_gate": "linear_attn.in_proj_z", "ssm_beta": "linear_attn.in_proj_b",
    "ssm_alpha": "linear_attn.in_proj_a", "ssm_conv1d": "linear_attn.conv1d", "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "indexer.q_norm": "self_attn.indexer.q_layernorm", "indexer.k_norm": "self_attn.indexer.k_layernorm",
    "ple_key": "ple.key_proj", "ple_value": "ple.value_proj", "ple_conv1d": "ple.conv1d",
    **{f"ple_norm_{p}": f"ple.norm_{p}" for p in ("key", "query", "conv")},
}


def grouped(rows, config, before=0):
    """Value heads from GGUF's order (i * key heads + g) to the checkpoint's (g * r + i); `before` rows stay."""
    nk, nv = config["linear_num_key_heads"], config["linear_num_value_heads"]
    heads = rows[before:].reshape(nv // nk, nk, -1, *rows.shape[1:])
    return np.concatenate([rows[:before], heads.swapaxes(0, 1).reshape(rows[before:].shape)])


def read(path, config, ple_arrays):
    """(name -> float32 array, names of the matrices that are quantised in the file). One PLE layer at most.

    ple_arrays: the checkpoint's three integer arrays of the PLE, which a GGUF has as keys.
    """
    made, quantised, keys = {}, set(), 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    plain = {gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.BF16}
    stored = {t.name: t for t in gguf.GGUFReader(path).tensors}
    value = {name: gguf.dequantize(t.data, t.tensor_type).astype(np.float32) for name, t in stored.items()}

    def put(name, array, *sources):
        made[name] = array
        if all(stored[s].tensor_type not in plain for s in sources):
            quantised.add(name)

    for source, array in value.items():
        layer, stem = re.fullmatch(r"(?:blk\.(\d+)\.)?(.*?)(?:\.weight)?", source).groups()
        at = f"layers.{layer}." if layer else ""
        if stem == "per_layer_token_embd":
            put(f"layers.{config['ple_layer_ids'][0] - 1}.ple.ple_embedding.ngram_embedding.shard_0.weight", array, source)
        elif stem == "ssm_a":
            put(at + "linear_attn.A_log", grouped(np.log(-array), config), source)
        elif stem == "ssm_dt.bias":
            put(at + "linear_attn.dt_bias", grouped(array, config), source)
        elif stem == "ffn_gate_exps":
            up = f"blk.{layer}.ffn_up_exps.weight"
            put(at + "mlp.experts.gate_up_proj", np.concatenate([array, value[up]], 1), source, up)
        elif stem == "ffn_down_exps":
            put(at + "mlp.experts.down_proj", array, source)
        elif stem == "indexer.q_proj":
            key = f"blk.{layer}.indexer.k_proj.weight"
            put(at + "self_attn.indexer.index_qk_proj.weight", np.concatenate([array, value[key]]), source, key)
        elif stem in NAMES:
            if stem in ("attn_qkv", "ssm_conv1d"):
                array = grouped(array, config, keys)
            elif stem in ("attn_gate", "ssm_beta", "ssm_alpha"):
                array = grouped(array, config)
            elif stem == "ssm_out":
                array = grouped(array.T, config).T
            elif stem == "ffn_gate_inp_shexp":
                array = array.reshape(1, -1)
            elif "norm" in stem and stem != "ssm_norm":
                array = array.astype(np.float64) - 1
            put(at + NAMES[stem] + ".weight", array[:, None] if stem.endswith("conv1d") else array, source)
        else:
            assert stem in ("ffn_up_exps", "indexer.k_proj"), source
    return {**made, **ple_arrays}, quantised


class QuantisedModel(qwen4exp.Model):
    """Multiplies quantised matrices as docs/numerics.md says; `quantised` names them."""

    def __init__(self, config, arrays, quantised):
        super().__init__(config, arrays)
        self.quantised = quantised
        heads = np.arange(config["linear_num_value_heads"] * config["linear_value_head_dim"])
        self.file_order = np.argsort(grouped(heads, config), kind="stable")  # columns of ssm_out as the file has them

    def mul(self, x, name, part=...):
        if name not in self.quantised:
            return super().mul(x, name, part)
        if not name.endswith("linear_attn.out_proj.weight"):
            return as_int8(x) @ self.w[name][part].T
        return as_int8(x[:, self.file_order]) @ self.w[name][:, self.file_order].T


def as_int8(x):
    groups = x.astype(np.float32).reshape(len(x), -1, 32)
    amax = np.abs(groups).max(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.where(amax < 2.0 ** -100, 0, np.rint(groups * (np.float32(127) / amax)))
    return (q * (amax / np.float32(127)).astype(np.float64)).reshape(x.shape)
