#!/usr/bin/env python3
"""What the program says when something is wrong, and what it prints when it is read by another program.

Refusals are a table: a damaged file or a senseless request, and the words that the one sentence on standard error must
have. Exit code 1 for what was asked of it, 2 for how it was asked; nothing on standard output; no crash, no time-out.
usage: cli_test.py; needs EVROS, EVROS_SOURCE_DIR and EVROS_BINARY_DIR (for the unpacked GGUF fixtures).
"""
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

import numpy as np

from reference import checkpoint, gguf_files
from sanitizer import without_sanitizer

EVROS = os.environ["EVROS"]
MICRO = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro", "hf")
TINY = os.path.join(os.environ["EVROS_SOURCE_DIR"], "models", "evros-tiny")
GGUF = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro", "gguf", "micro-f32.gguf")
HUGE = 1 << 62


def run(*arguments, stdin=""):
    return subprocess.run([EVROS, *arguments], capture_output=True, input=stdin, text=True, timeout=120)


# Makers of bad models: scratch folder -> path.

def keys(drop=(), **values):
    """The GGUF fixture with other values of qwen4exp.* keys (dots spelt __)."""
    changed = {"qwen4exp." + name.replace("__", "."): value for name, value in values.items()}

    def make(scratch):
        target = os.path.join(scratch, "bad.gguf")
        gguf_files.rewrite(GGUF, target, keys=changed, drop=["qwen4exp." + name for name in drop])
        return target
    return make


def architecture(name):
    def make(scratch):
        target = os.path.join(scratch, "bad.gguf")
        with open(GGUF, "rb") as source, open(target, "wb") as out:
            out.write(source.read().replace(b"qwen4exp", name, 1))
        return target
    return make


def without(tensor):
    def make(scratch):
        target = os.path.join(scratch, "bad.gguf")
        gguf_files.rewrite(GGUF, target, leave_out=[tensor])
        return target
    return make


def mapped(tensor, function):
    def make(scratch):
        target = os.path.join(scratch, "bad.gguf")
        gguf_files.rewrite(GGUF, target, changed={tensor: function})
        return target
    return make


def value(tensor, number):
    """One element changed."""
    def change(array):
        array.flat[3] = number
        return array
    return mapped(tensor, change)


def info(*patches):
    """Fields of tensor infos overwritten: (tensor, {field: value})."""
    def make(scratch):
        target = shutil.copy(GGUF, os.path.join(scratch, "bad.gguf"))
        for tensor, fields in patches:
            gguf_files.patch(target, tensor, **fields)
        return target
    return make


def cut(path, keep):
    """The first bytes of a file: a count, or a share of its size."""
    def make(scratch):
        target = os.path.join(scratch, "cut" + os.path.splitext(path)[1])
        with open(path, "rb") as source, open(target, "wb") as out:
            out.write(source.read(keep if isinstance(keep, int) else int(os.path.getsize(path) * keep)))
        return target
    return make


def content(name, blob):
    def make(scratch):
        with open(os.path.join(scratch, name), "wb") as out:
            out.write(blob)
        return os.path.join(scratch, name)
    return make


def folder(config=None, drop=(), tensors=None, after=None):
    """The safetensors fixture: config keys changed or dropped, tensors changed by a function of the dict, then files."""
    def make(scratch):
        target = shutil.copytree(MICRO, os.path.join(scratch, "model"), copy_function=shutil.copyfile)
        path = os.path.join(target, "config.json")
        with open(path, encoding="utf-8") as f:
            settings = {**json.load(f), **(config or {})}
        with open(path, "w", encoding="utf-8") as f:
            json.dump({k: v for k, v in settings.items() if k not in drop}, f)
        if tensors:
            file = os.path.join(target, "model.safetensors")
            arrays = {name: ("I64" if a.dtype == np.int64 else "BF16", a.copy()) for name, a in checkpoint.read_file(file).items()}
            tensors(arrays)
            checkpoint.write_file(file, arrays)
        if after:
            after(target)
        return target
    return make


def remove(name):
    return lambda target: os.remove(os.path.join(target, name))


def overwrite(name, blob):
    def change(target):
        with open(os.path.join(target, name), "wb") as f:
            f.write(blob)
    return change


def truncate(name, share):
    def change(target):
        path = os.path.join(target, name)
        os.truncate(path, int(os.path.getsize(path) * share))
    return change


def overlap(target):
    """Two tensors of the folder share bytes."""
    path = os.path.join(target, "model.safetensors")
    with open(path, "rb") as f:
        blob = f.read()
    length = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8:8 + length])
    header["model.layers.0.linear_attn.in_proj_a.weight"]["data_offsets"] = \
        header["model.layers.0.linear_attn.in_proj_b.weight"]["data_offsets"]
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + blob[8 + length:])


def incomplete_index(target):
    overwrite("model.safetensors.index.json", json.dumps(
        {"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}}).encode())(target)
    os.remove(os.path.join(target, "model.safetensors"))


def first_of_two(scratch):
    """File 1 of a split set whose file 2 is gone."""
    target = os.path.join(scratch, "half-00001-of-00002.gguf")
    import gguf
    writer = gguf.GGUFWriter(target, "qwen4exp")
    writer.add_uint16("split.no", 0)
    writer.add_uint16("split.count", 2)
    writer.add_int32("split.tensors.count", 214)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return target


def drop_tensor(name):
    return lambda arrays: arrays.pop(name)


def retype_tensor(name, dtype):
    return lambda arrays: arrays.update({name: (dtype, arrays[name][1])})


def reshape_tensor(name, shape):
    return lambda arrays: arrays.update({name: (arrays[name][0], np.zeros(shape, np.float32))})


def poison(name):
    return lambda arrays: arrays[name][1].flat.__setitem__(5, np.inf)


def integers(name, change):
    return lambda arrays: change(arrays[name][1])


PLE = "model.layers.1.ple.ple_embedding."
OFFSETS = [0, 1009, 2022, 3041, 4062, 5093, 6126, 7165, 8214, 9265, 10326, 11389, 12458, 13545, 14636]

# name -> (maker of the model, words of the sentence)
BAD_MODELS = {
    # a GGUF's keys
    "head_range_beyond_the_table": (keys(ple__head_offsets=OFFSETS + [1 << 40]), ["ple.head_offsets"]),
    "head_vocabulary_of_2_to_62": (keys(ple__head_vocab_sizes=[HUGE] * 16), ["ple.head_vocab_sizes"]),
    "head_vocabulary_0": (keys(ple__head_vocab_sizes=[0] * 16), ["ple.head_vocab_sizes"]),
    "ngram_size_beyond_any_array": (keys(ple__ngram_size=0x7FFFFFFF), ["ple.ngram_size"]),
    "ngram_size_1": (keys(ple__ngram_size=1), ["ple.ngram_size"]),
    "ngram_size_without_its_multipliers": (keys(ple__ngram_size=9), ["ple."]),
    "heads_per_ngram_beyond_any_array": (keys(ple__heads_per_ngram=0xFFFFFFFF), ["ple.heads_per_ngram"]),
    "heads_per_ngram_0": (keys(ple__heads_per_ngram=0), ["ple.heads_per_ngram"]),
    "short_multipliers": (keys(ple__layer_multipliers=[3, 5]), ["ple.layer_multipliers", "2", "3"]),
    "short_offsets": (keys(ple__head_offsets=OFFSETS), ["ple.head_offsets", "15", "16"]),
    "short_compress_ratios": (keys(attention__compress_ratios=[0, 0, 0, 4]), ["attention.compress_ratios", "4", "8"]),
    "negative_compress_ratio": (keys(attention__compress_ratios=[0, 0, 0, -4, 0, 0, 0, 4]), ["attention.compress_ratios"]),
    "ratio_on_a_linear_layer": (keys(attention__compress_ratios=[4] * 8), ["attention.compress_ratios"]),
    "two_ple_layers_with_the_arrays_of_one": (keys(ple__layers=[1, 2]), ["ple."]),
    "ple_layer_out_of_range": (keys(ple__layers=[99]), ["ple.layers", "99"]),
    "ple_eos_outside_the_vocabulary": (keys(ple__eos_token_id=512), ["ple.eos_token_id", "512"]),
    "streams_0": (keys(hyper_connection__count=0), ["hyper_connection.count", "0"]),
    "streams_of_another_model": (keys(hyper_connection__count=3), ["hc_"]),
    "block_count_0": (keys(block_count=0), ["block_count", "0"]),
    "block_count_2_to_32": (keys(block_count=0xFFFFFFFF), ["block_count"]),
    "one_layer_too_many": (keys(block_count=9), ["9 blocks"]),
    "interval_against_the_tensors": (keys(full_attention_interval=3), ["full_attention_interval"]),
    "embedding_length_0": (keys(embedding_length=0), ["embedding_length", "0"]),
    "no_embedding_length": (keys(drop=["embedding_length"]), ["embedding_length"]),
    "key_heads_that_divide_nothing": (keys(ssm__group_count=4), ["ssm."]),
    "query_heads_that_divide_nothing": (keys(attention__head_count_kv=3), ["attention.head_count"]),
    "more_experts_used_than_there_are": (keys(expert_used_count=9), ["expert_used_count", "9", "8"]),
    "rotary_dimensions_beyond_the_head": (keys(rope__dimension_count=64), ["rope.dimension_count", "64"]),
    "odd_rotary_dimensions": (keys(rope__dimension_count=7), ["rope.dimension_count", "7"]),
    "epsilon_nan": (keys(attention__layer_norm_rms_epsilon=float("nan")), ["attention.layer_norm_rms_epsilon"]),
    "rope_base_0": (keys(rope__freq_base=0.0), ["rope.freq_base"]),
    "another_architecture": (architecture(b"qwen3moe"), ["qwen3moe"]),
    # a GGUF's tensors
    "dimensions_near_2_to_62": (info(("output.weight", {"dims": [HUGE, 4]})), ["output.weight"]),
    "dimensions_whose_product_wraps_to_the_right_one": (info(("output.weight", {"dims": [1 << 32, (1 << 32) + 1]})), ["output.weight"]),
    "dimension_0": (info(("output.weight", {"dims": [64, 0]})), ["output.weight"]),
    "offset_past_the_end": (info(("output.weight", {"offset": 1 << 50})), ["output.weight"]),
    "offset_that_wraps": (info(("output.weight", {"offset": (1 << 64) - 32})), ["output.weight"]),
    "overlapping_tensors": (info(("output.weight", {"offset": 0})), ["output.weight"]),
    "unaligned_offset": (info(("output.weight", {"offset": 131073})), ["output.weight"]),
    "unknown_type": (info(("output.weight", {"type_id": 99})), ["output.weight", "99"]),
    "tensor_missing": (without("blk.5.ssm_out.weight"), ["blk.5.ssm_out.weight"]),
    "tensor_transposed": (info(("blk.0.hc_attn_down.weight", {"dims": [16, 256]})), ["blk.0.hc_attn_down.weight"]),
    # a GGUF's bytes
    "gguf_cut_in_its_magic": (cut(GGUF, 3), ["cut.gguf"]),
    "gguf_cut_in_its_counts": (cut(GGUF, 17), ["cut.gguf"]),
    "gguf_cut_in_its_keys": (cut(GGUF, 900), ["cut.gguf"]),
    "gguf_cut_in_its_data": (cut(GGUF, 0.7), ["cut.gguf"]),
    "gguf_of_version_1": (content("old.gguf", b"GGUF" + struct.pack("<IQQ", 1, 0, 0)), ["old.gguf", "1"]),
    "gguf_of_2_to_62_keys": (content("keys.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE)), ["keys.gguf"]),
    "gguf_of_2_to_62_tensors": (content("tensors.gguf", b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0)), ["tensors.gguf"]),
    "key_of_2_to_62_bytes": (content("key.gguf", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, HUGE)), ["key.gguf"]),
    "split_without_its_second_file": (first_of_two, ["half-00002-of-00002.gguf"]),
    "text_that_is_no_model": (content("notes.txt", b"not a model\n"), ["notes.txt"]),
    "empty_file": (content("empty.gguf", b""), ["empty.gguf"]),
    "no_such_file": (lambda scratch: os.path.join(scratch, "absent.gguf"), ["absent.gguf"]),
    # a folder
    "folder_without_config": (folder(after=remove("config.json")), ["config.json"]),
    "folder_without_tensors": (folder(after=remove("model.safetensors")), ["safetensors"]),
    "empty_folder": (lambda scratch: scratch, ["config.json"]),
    "config_that_is_no_json": (folder(after=overwrite("config.json", b"{\"hidden_size\": 64,")), ["config.json"]),
    "config_that_is_an_array": (folder(after=overwrite("config.json", b"[]")), ["config.json"]),
    "config_of_another_model": (folder({"model_type": "qwen3_moe"}), ["config.json", "model_type", "qwen3_moe"]),
    "config_without_hidden_size": (folder(drop=["hidden_size"]), ["config.json", "hidden_size"]),
    "hidden_size_as_text": (folder({"hidden_size": "64"}), ["config.json", "hidden_size"]),
    "hidden_size_negative": (folder({"hidden_size": -64}), ["config.json", "hidden_size", "-64"]),
    "hidden_size_fraction": (folder({"hidden_size": 64.5}), ["config.json", "hidden_size"]),
    "hidden_size_of_2_to_62": (folder({"hidden_size": HUGE}), ["config.json", "hidden_size"]),
    "compress_ratio_negative": (folder({"indexer_compress_ratio": -1}), ["config.json", "indexer_compress_ratio", "-1"]),
    "budget_below_one_block": (folder({"indexer_budget": 3}), ["config.json", "indexer_budget", "3"]),
    "hc_count_0": (folder({"hc_count": 0}), ["config.json", "hc_count", "0"]),
    "ple_layer_0_of_a_list_that_counts_from_1": (folder({"ple_layer_ids": [0]}), ["config.json", "ple_layer_ids", "0"]),
    "ple_layer_beyond_the_last": (folder({"ple_layer_ids": [9]}), ["config.json", "ple_layer_ids", "9"]),
    "ple_layer_twice": (folder({"ple_layer_ids": [2, 2]}), ["config.json", "ple_layer_ids"]),
    "ple_width_that_heads_do_not_divide": (folder({"ple_embed_dim": 60}), ["config.json", "ple_embed_dim", "60"]),
    "layer_types_too_short": (folder({"layer_types": ["linear_attention"] * 7}), ["config.json", "layer_types", "7", "8"]),
    "layer_type_unknown": (folder({"layer_types": ["mamba"] * 8}), ["config.json", "layer_types", "mamba"]),
    "hidden_act_unknown": (folder({"hidden_act": "gelu"}), ["config.json", "hidden_act", "gelu"]),
    "output_gate_unknown": (folder({"output_gate_type": "tanh"}), ["config.json", "output_gate_type", "tanh"]),
    "rope_type_yarn": (folder({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e7, "partial_rotary_factor": 0.25}}),
                       ["config.json", "yarn"]),
    "attention_bias": (folder({"attention_bias": True}), ["config.json", "attention_bias"]),
    "two_index_key_heads": (folder({"indexer_kv_heads": 2}), ["config.json", "indexer_kv_heads", "2"]),
    "eos_outside_the_vocabulary": (folder({"eos_token_id": 512}), ["config.json", "eos_token_id", "512"]),
    "tied_by_config_alone": (folder(tensors=drop_tensor("lm_head.weight")), ["lm_head.weight"]),
    "tensor_of_the_folder_missing": (folder(tensors=drop_tensor("model.layers.3.self_attn.k_proj.weight")),
                                     ["model.layers.3.self_attn.k_proj.weight"]),
    "expert_missing": (folder(tensors=drop_tensor("model.layers.3.mlp.experts.5.up_proj.weight")),
                       ["model.layers.3.mlp.experts", "5"]),
    "tensor_of_another_shape": (folder(tensors=reshape_tensor("model.layers.3.self_attn.k_proj.weight", (32, 64))),
                                ["model.layers.3.self_attn.k_proj.weight"]),
    "table_shard_of_another_width": (folder(tensors=reshape_tensor(PLE + "ngram_embedding.shard_2.weight", (4224, 5))),
                                     [PLE + "ngram_embedding.shard_2.weight"]),
    "table_shards_of_two_types": (folder(tensors=retype_tensor(PLE + "ngram_embedding.shard_2.weight", "F32")),
                                  [PLE + "ngram_embedding.shard_2.weight", "F32", "BF16"]),
    "experts_of_two_types": (folder(tensors=retype_tensor("model.layers.3.mlp.experts.5.up_proj.weight", "F32")),
                             ["model.layers.3.mlp.experts.5.up_proj.weight", "F32", "BF16"]),
    "weights_of_a_type_that_is_none": (folder(tensors=retype_tensor("lm_head.weight", "I32")), ["lm_head.weight", "I32"]),
    "table_shard_missing": (folder(tensors=drop_tensor(PLE + "ngram_embedding.shard_1.weight")),
                            [PLE + "ngram_embedding.shard_1"]),
    "last_shard_missing_so_heads_reach_beyond": (folder(tensors=drop_tensor(PLE + "ngram_embedding.shard_3.weight")),
                                                 ["ngram"]),
    "multiplier_negative": (folder(tensors=integers(PLE + "layer_multipliers", lambda a: a.__setitem__(1, -5))),
                            [PLE + "layer_multipliers"]),
    "head_size_0": (folder(tensors=integers(PLE + "ngram_heads_vocab_sizes", lambda a: a.__setitem__(4, 0))),
                    ["ngram_heads_vocab_sizes"]),
    "head_offset_beyond": (folder(tensors=integers(PLE + "ngram_heads_offsets", lambda a: a.__setitem__(15, 1 << 40))),
                           [PLE + "ngram_heads_offsets"]),
    "tensors_cut": (folder(after=truncate("model.safetensors", 0.6)), ["model.safetensors"]),
    "tensors_cut_in_the_header": (folder(after=truncate("model.safetensors", 0.001)), ["model.safetensors"]),
    "header_of_2_to_62_bytes": (folder(after=overwrite("model.safetensors", struct.pack("<Q", HUGE) + b"{}")), ["model.safetensors"]),
    "header_that_is_no_json": (folder(after=overwrite("model.safetensors", struct.pack("<Q", 4) + b"{{{{")), ["model.safetensors"]),
    "tensors_that_overlap": (folder(after=overlap), ["linear_attn.in_proj_"]),
    "index_names_a_file_that_is_gone": (folder(after=incomplete_index), ["model-00001-of-00002.safetensors"]),
}

# Seen only when weights are read or run; everything else inspect must refuse with the same sentence.
BAD_WEIGHTS = {
    "nan_weight": (value("blk.2.ffn_down_exps.weight", np.nan), ["blk.2.ffn_down_exps.weight"]),
    "infinite_norm": (value("blk.2.hc_ffn_norm.weight", np.inf), ["blk.2.hc_ffn_norm.weight"]),
    "infinite_embedding_of_an_unused_token": (value("token_embd.weight", np.inf), ["token_embd.weight"]),
    "nan_in_the_table_on_disk": (mapped("per_layer_token_embd.weight", lambda array: array * np.float32(np.nan)), ["NaN"]),
    "infinite_weight_of_a_folder": (folder(tensors=poison("model.layers.6.linear_attn.out_proj.weight")),
                                    ["linear_attn.out_proj|ssm_out"]),
    "sums_that_overflow": (mapped("blk.4.ssm_out.weight", lambda array: np.float32(3e38) * np.sign(array)), ["NaN or infinity", "in stage", "of layer 4"]),
    "values_beyond_the_cache_type": (mapped("blk.3.attn_v.weight", lambda array: array * np.float32(1e9)), ["kv=f16"]),
    "every_unsupported_tensor_at_once": (info(("output.weight", {"type_id": 26}), ("blk.3.attn_q.weight", {"type_id": 26})),
                                         ["output.weight", "blk.3.attn_q.weight"]),
}

RUN = ["run", "{gguf}", "-p", "x", "--raw"]
GOOD_TRACE = ["--tokens", "1,2,3", "--out", "{scratch}/out.safetensors"]
# name -> (arguments, words); {gguf}, {hf}, {scratch} are filled in
BAD_REQUESTS = {
    "empty_prompt": (["run", "{gguf}", "-p", "", "--raw"], ["prompt"]),
    "empty_prompt_from_standard_input": (["run", "{gguf}", "-f", "/dev/null", "--raw"], ["prompt"]),
    "prompt_file_missing": (["run", "{gguf}", "-f", "{scratch}/absent.txt"], ["absent.txt"]),
    "id_beyond_the_vocabulary": (["trace", "{gguf}", "--tokens", "1,512", "--out", "{scratch}/o"], ["512", "511"]),
    "context_beyond_the_model": (["trace", "{gguf}", *GOOD_TRACE, "--ctx", "4097"], ["4097", "4096"]),
    "more_tokens_than_the_context": (["trace", "{gguf}", *GOOD_TRACE, "--ctx", "2"], ["2", "3"]),
    "output_folder_missing": (["trace", "{gguf}", "--tokens", "1", "--out", "{scratch}/absent/o"], ["absent"]),
    "logit_bias_beyond_the_vocabulary": (["run", "{gguf}", "-p", "x", "--raw", "--logit-bias", "512=1"], ["512"]),
    "no_tokenizer": (["tokenize", "{hf}", "-p", "x"], ["hf", "tokenizer"]),
    "decode_beyond_the_vocabulary": (["tokenize", "{gguf}", "--decode", "512"], ["512"]),
    "convert_to_no_gguf": (["convert", "{hf}", "{scratch}/o.bin"], ["o.bin", "gguf"]),
    "convert_into_a_missing_folder": (["convert", "{hf}", "{scratch}/absent/o.gguf"], ["absent"]),
    "inspect_nothing": (["inspect", "{scratch}/absent"], ["absent"]),
    "stop_id_beyond_the_vocabulary": ([*RUN, "--stop-id", "512"], ["512", "511"]),
    "trace_into_a_folder": (["trace", "{gguf}", "--tokens", "1", "--out", "{scratch}"], ["is a folder"]),
    "snapshot_into_a_folder": (["snapshot", "save", "{gguf}", "{scratch}", "--tokens", "1"], ["is a folder"]),
    "session_in_a_folder": ([*RUN, "--session", "{scratch}"], ["is a folder"]),
    "bench_longer_than_the_context": (["bench", "{gguf}", "--prompt", "5000"], ["5000", "4096"]),
    "bench_that_sums_up_beyond_64_bits": (["bench", "{gguf}", "--prompt", str(2**63 - 1), "--decode", str(2**63 - 1)], ["4096"]),
}

# Rows that differ in the value alone: (option, values, words).
BAD_VALUES = [
    (["run", "{gguf}", "-p", "x"], [
        ("--temp", ["", "-1", "warm", "nan", "inf", "1e999", "0.5x", " 1"], ["number of at least 0"]),
        ("--top-k", ["", "-1", "1.5", "99999999999", "k"], ["whole number from 0 to 2147483647"]),
        ("--top-p", ["", "0", "1.5", "-0.5", "p"], ["above 0 and at most 1"]),
        ("--min-p", ["", "-0.1", "1.1"], ["number from 0 to 1"]),
        ("--repetition-penalty", ["", "0", "-1"], ["above 0"]),
        ("--presence-penalty", ["", "101", "-101"], ["-100 to 100"]),
        ("--frequency-penalty", ["", "101", "-101"], ["-100 to 100"]),
        ("--logit-bias", ["", "nonsense", "5", "5=", "=1", "-3=1", "5=x", "5=1x", "5=inf", "99999999999=1"], ["ID=VALUE"]),
        ("--seed", ["", "-1", "18446744073709551616", "0x10", "1.0"], ["18446744073709551615"]),
        ("--stop-id", ["", "-1", "one", "1,,2", "1,"], ["whole number"]),
        ("--stop", [""], ["empty"]),
        ("--max-tokens", ["", "-1", "many"], ["whole number"]),
        ("--session", [""], ["empty"]),
    ]),
    (["inspect", "{gguf}"], [
        ("--ctx", ["", "0", "-1", "many", "9223372036854775808"], ["whole number from 1"]),
        ("--threads", ["", "0", "1025", "two"], ["1 to 1024"]),
        ("--chunk", ["", "0", "65537"], ["1 to 65536"]),
        ("--ple", ["", "moon"], ["disk, ram"]),
        ("--ple-memory-mb", ["", "0", "-1"], ["whole number from 1"]),
        ("--memory-mb", ["", "0", "-1", "lots"], ["whole number from 1"]),
        ("--kv", ["", "q9"], ["f32, f16, bf16"]),
        ("--numerics", ["", "N7"], ["N1, N1-f32"]),
        ("--kernels", ["", "warp"], ["none of ref"]),
    ]),
    (["trace", "{gguf}", "--out", "{scratch}/o"], [
        ("--tokens", ["", "one", "1,-1", "1,two", "2147483648", "1,,2", "1,2,", ",1", ","], ["whole number from 0"]),
    ]),
    (["trace", "{gguf}", "--tokens", "1,2,3"], [("--out", [""], ["empty"])]),
    (["trace", "{gguf}", *GOOD_TRACE], [
        ("--chunks", ["", "0", "-2", "2,0", "2,,3", "2,"], ["whole number from 1"]),
        ("--greedy", ["", "-1"], ["whole number from 0"]),
    ]),
    (["tokenize", "{gguf}"], [("--decode", ["", "x", "-1", "1,,2", "1,"], ["whole number"]), ("--file", [""], ["empty"])]),
    (["bench", "{gguf}"], [("--prompt", ["", "0", "-5"], ["whole number from 1"]), ("--decode", ["", "0"], ["whole number from 1"]),
                            ("--contexts", ["", "0", "5,x", "5,,6", "5,"], ["whole number from 1"]), ("--rounds", ["", "0", "1001"], ["1 to 1000"]),
                            ("--sequences", ["", "0"], ["1 to 1024"]), ("--budget", ["", "0", "nan"], ["number from"]), ("--plot", [""], ["empty"])]),
    (["perplexity", "{gguf}", "-f", "x"], [("--ctx", ["", "1", "x"], ["whole number from 2"]), ("--stride", ["", "0"], ["whole number from 1"]),
                                           ("--kld", [""], ["empty"]), ("--save-logits", [""], ["empty"])]),
    (["imatrix", "{gguf}", "-f", "x", "-o", "{scratch}/o.gguf"], [("--ctx", ["", "0", "x"], ["whole number from 1"]), ("--file", [""], ["empty"])]),
    (["synth", "{scratch}/o"], [("--layers", ["", "1", "1025"], ["2 to 1024"]), ("--experts", ["", "9"], ["10 to 65536"]),
                                ("--vocab", ["", "1023"], ["1024 to 1048576"]), ("--table-rows", ["", "1023"], ["1024 to 320001536"]),
                                ("--type", ["", "q9"], ["mix"])]),
    (["verify", "{gguf}"], [("--budget", ["", "0", "-1", "nan"], ["number from"]), ("--seed", ["", "-1"], ["whole number"])]),
    (["convert", "{hf}", "{scratch}/o.gguf"], [("--type", ["", "q9"], ["f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q4_0, iq4_nl"]), ("--imatrix", [""], ["empty"])]),
]

BAD_USAGE = {
    "no_command": ([], ["command is missing"]),
    "unknown_command": (["transmogrify"], ["\"transmogrify\" is not a command"]),
    "unknown_snapshot_command": (["snapshot", "eat"], ["\"eat\" is not a command", "`evros snapshot --help`"]),
    "unknown_option": (["inspect", "{gguf}", "--frobnicate"], ["--frobnicate", "`evros inspect --help`"]),
    "required_option_missing": (["trace", "{gguf}", "--tokens", "1"], ["--out"]),
    "two_models": (["inspect", "{gguf}", "{gguf}"], ["not expected"]),
    "model_with_an_empty_name": (["inspect", ""], ["MODEL", "empty"]),
    "convert_without_a_target": (["convert", "{gguf}"], ["TO"]),
    "convert_to_an_empty_name": (["convert", "{gguf}", ""], ["TO", "empty"]),
    "synth_of_holes_with_chosen_layers": (["synth", "x", "--sparse", "--layers", "4"], ["--layers", "--sparse", "together"]),
    "perplexity_that_saves_and_compares": (["perplexity", "-f", "x", "--kld", "a", "--save-logits", "b"], ["--kld", "--save-logits", "together"]),
    "perplexity_with_gaps_between_windows": (["perplexity", "{gguf}", "-f", "x", "--stride", "300", "--ctx", "256"],
                                             ["--stride", "300", "256"]),
    "snapshot_of_nothing": (["snapshot", "save", "{gguf}", "{scratch}/s"], ["nothing to save", "`evros snapshot save --help`"]),
    "snapshot_of_no_text": (["snapshot", "save", "{gguf}", "{scratch}/s", "-p", ""], ["nothing to save"]),
    "serve_pages_of_no_origin": (["serve", "{gguf}", "--cors-origin", "evil"], ["--cors-origin", "evil"]),
    "serve_others_without_a_key": (["serve", "{gguf}", "--host", "0.0.0.0"], ["0.0.0.0", "--api-key-file"]),
    "serve_with_a_key_of_two_words": (["serve", "{gguf}", "--api-key", "two words"], ["API key"]),
    "imatrix_without_a_target": (["imatrix", "{gguf}", "-f", "x"], ["--out"]),
    "bench_as_json_and_csv": (["bench", "--json", "--csv"], ["--json", "--csv", "together"]),
    "bench_stages_of_contexts": (["bench", "--stages", "--contexts", "512"], ["--contexts", "--stages", "together"]),
    "synth_to_an_empty_name": (["synth", "", "--sparse"], ["TO", "empty"]),
    "control_characters_are_not_repeated": (["a\x1b[31m\nb"], ["is not a command"]),
    "think_and_no_think": (["run", "{gguf}", "-p", "x", "--think", "--no-think"], ["think", "together"]),
    "prompt_and_file": (["run", "{gguf}", "-p", "x", "-f", "y"], ["--prompt", "--file", "together"]),
    "raw_and_system": (["run", "{gguf}", "-p", "x", "--raw", "-s", "y"], ["--raw", "--system", "together"]),
    "raw_and_think": (["run", "{gguf}", "-p", "x", "--raw", "--think"], ["--raw", "--think", "together"]),
    "raw_and_no_think": (["run", "{gguf}", "-p", "x", "--raw", "--no-think"], ["--raw", "--no-think", "together"]),
    "text_and_file": (["tokenize", "{gguf}", "-p", "x", "-f", "y"], ["--text", "--file", "together"]),
    "decode_and_text": (["tokenize", "{gguf}", "--decode", "1", "-p", "y"], ["--decode", "--text", "together"]),
    "decode_and_file": (["tokenize", "{gguf}", "--decode", "1", "-f", "y"], ["--decode", "--file", "together"]),
}
for command, options in BAD_VALUES:
    for option, values, words in options:
        for number, bad in enumerate(values):
            BAD_USAGE[f"{command[0]}_{option.strip('-').replace('-', '_')}_{number}"] = \
                ([*command, f"{option}={bad}" if bad else option, *([] if bad else [""])], [option, *words])


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="evros_cli_")
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name

    def fill(self, arguments):
        return [a.format(gguf=GGUF, hf=MICRO, scratch=self.scratch) for a in arguments]


class Refusals(Scratch):
    def expect_refusal(self, arguments, words):
        done = run(*arguments)
        self.assertEqual(done.returncode, 1, f"{done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("evros: ") and done.stderr.endswith("\n"), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.isprintable() or done.stderr[:-1].isprintable(), repr(done.stderr))
        for word in words:
            self.assertTrue(any(w in done.stderr for w in word.split("|")), f"no \"{word}\" in: {done.stderr}")

    def expect_no_trace(self, maker, words):
        path, out = maker(self.scratch), os.path.join(self.scratch, "out.safetensors")
        self.expect_refusal(["trace", path, "--tokens", "1,2,3", "--threads", "1", "--out", out], words)
        self.assertFalse(os.path.exists(out))
        return path


class BadWeights(Refusals):
    def check(self, maker, words):
        self.expect_no_trace(maker, words)


class BadModels(Refusals):
    def check(self, maker, words):
        self.expect_refusal(["inspect", self.expect_no_trace(maker, words)], words)


class BadRequests(Refusals):
    def check(self, arguments, words):
        self.expect_refusal(self.fill(arguments), words)
        self.assertEqual(os.listdir(self.scratch), [], "something was left behind")


class BadUsage(Scratch):
    def check(self, arguments, words):
        done = run(*self.fill(arguments))
        self.assertEqual(done.returncode, 2, f"{done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Aevros: [^\n]*; see `evros[a-z ]* --help`\n\Z")
        self.assertTrue(done.stderr[:-1].isprintable(), repr(done.stderr))
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(os.listdir(self.scratch), [], "something was left behind")


class Piped(Scratch):
    """Output that another program reads."""

    def expect_plain(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        for stream in (done.stdout, done.stderr):
            self.assertNotIn("\r", stream, "a progress bar in a pipe")
            self.assertNotIn("\x1b", stream, "terminal codes in a pipe")

    def test_a_reply_is_pure_text(self):
        arguments = ["run", TINY, "-p", "Once upon a time", "--raw", "-n", "8", "--temp", "0"]
        done, quiet = run(*arguments), run(*arguments, "-q")
        self.expect_plain(done)
        self.expect_plain(quiet)
        self.assertNotEqual(quiet.stdout.strip(), "")
        self.assertEqual(done.stdout, quiet.stdout, "statistics belong on standard error")
        self.assertEqual(quiet.stderr, "")

    def test_conversion_is_quiet(self):
        done = run("convert", MICRO, os.path.join(self.scratch, "o.gguf"), "--type", "q8_0", "--quiet")
        self.expect_plain(done)
        self.assertEqual(done.stderr, "")

    def test_conversion_draws_no_bar(self):
        self.expect_plain(run("convert", MICRO, os.path.join(self.scratch, "o.gguf"), "--type", "f16"))

    def test_inspect_json_parses(self):
        for model in (GGUF, MICRO, TINY):
            done = run("inspect", model, "--json", "--tensors")
            self.expect_plain(done)
            facts = json.loads(done.stdout)
            self.assertEqual(facts["hyper_parameters"]["layers"], 8)
            self.assertGreater(len(facts["tensors"]), 200)
            self.assertGreater(facts["plan"]["total_bytes"], 0)

    def test_tokenize_json_parses_whatever_the_text(self):
        text = "quote \" backslash \\ tab\t newline\n nul-free \u00e9\u4e2d\U0001f600 <|im_start|>"
        done = run("tokenize", TINY, "--json", "-p", text)
        self.expect_plain(done)
        ids = json.loads(done.stdout)
        self.assertTrue(ids)
        back = run("tokenize", TINY, "--json", "--decode", ",".join(str(entry["id"]) for entry in ids))
        self.assertEqual(json.loads(back.stdout), text)

    def test_decode_prints_every_byte(self):
        ids = [str(entry["id"]) for entry in json.loads(run("tokenize", TINY, "--json", stdin="a\0b").stdout)]
        self.assertEqual(run("tokenize", TINY, "--decode", ",".join(ids)).stdout, "a\0b\n")

    def test_pieces_of_characters_have_their_bytes(self):
        text = "\U0001f9ff\u4e2d\u00e9 x"
        entries = json.loads(run("tokenize", TINY, "--json", "-p", text).stdout)
        pieces = [bytes.fromhex(e["bytes"]) if "bytes" in e else e["text"].encode() for e in entries]
        self.assertEqual(b"".join(pieces).decode(), text)
        self.assertTrue(any("bytes" in e for e in entries), "this text was chosen to need some")

    def test_metadata_has_json_types(self):
        for model, keys in ((GGUF, {"general.architecture": "qwen4exp", "qwen4exp.block_count": 8}), (MICRO, {"hidden_size": 64})):
            metadata = json.loads(run("inspect", model, "--json").stdout)["metadata"]
            for key, wanted in keys.items():
                self.assertEqual(metadata[key], wanted)

    def test_arrays_of_the_metadata_are_arrays(self):
        for model, key in ((GGUF, "qwen4exp.attention.compress_ratios"), (TINY, "layer_types")):
            metadata = json.loads(run("inspect", model, "--json").stdout)["metadata"]
            lists = {k: v for k, v in metadata.items() if isinstance(v, list) or (isinstance(v, dict) and set(v) == {"count", "first"})}
            self.assertIn(key, lists)
            for value in lists.values():
                if isinstance(value, dict):
                    self.assertEqual(len(value["first"]), 16)
                    self.assertGreater(value["count"], 16)
            self.assertFalse([k for k, v in metadata.items() if isinstance(v, str) and re.fullmatch(r"\[.*\]", v, re.S)])

    def test_inspect_says_what_run_would_refuse(self):
        self.assertEqual(json.loads(run("inspect", TINY, "--json").stdout)["cannot_run"], [])
        self.assertNotIn("cannot run", run("inspect", TINY).stdout)
        with open(GGUF, "rb") as file:
            whole = file.read()
        pre = b"tokenizer.ggml.pre\x08\0\0\0\x06\0\0\0\0\0\0\0"
        for old, new, word in ((pre + b"qwen35", pre + b"llama3", "llama3"),
                               (b"tokenizer.ggml.merges", b"tokenizer.ggml.mergez", "tokenizer.ggml.merges"),
                               (b"tokenizer.ggml.token_type", b"tokenizer.ggml.token_typz", "tokenizer.ggml.token_type"),
                               (b"tokenizer.ggml.eos_token_id\x04\0\0\0", None, None)):
            if word is None:  # the number itself
                at = whole.index(old) + len(old)
                changed, word = whole[:at] + b"\xff\xff\0\0" + whole[at + 4:], "tokenizer.ggml.eos_token_id is 65535"
            else:
                self.assertIn(old, whole)
                changed = whole.replace(old, new)
            path = os.path.join(self.scratch, "changed.gguf")
            with open(path, "wb") as file:
                file.write(changed)
            refused = run("run", path, "-p", "x", "--raw", "-n", "1")
            self.assertEqual(refused.returncode, 1, refused.stdout)
            sentence = refused.stderr.removeprefix("evros: ").rstrip("\n")
            self.assertIn(word, sentence)
            inspected = run("inspect", path)
            self.assertEqual(inspected.returncode, 0)
            self.assertIn(f"cannot run: {sentence}\n", inspected.stdout)
            self.assertEqual(json.loads(run("inspect", path, "--json").stdout)["cannot_run"], [sentence])

    def test_one_is_no_plural(self):
        done = run("bench", GGUF, "--stages", "--prompt", "1", "--decode", "1", "--threads", "1")
        self.assertIn("1 token in 1 chunk,", done.stdout)
        self.assertNotRegex(done.stdout, r"(?<![\d.])1 tokens")  # a rate such as 725.1 tokens/s is fine

    def test_help_and_version_succeed(self):
        for arguments in (["--help"], ["--version"], ["run", "--help"]):
            done = run(*arguments)
            self.expect_plain(done)
            self.assertNotEqual(done.stdout, "")
            self.assertEqual(done.stderr, "")


class Surroundings(Scratch):
    """A machine that is short of something, or in the way."""

    def expect_sentence(self, done, words, code=1):
        self.assertEqual(done.returncode, code, f"{done.stdout}{done.stderr}")
        lines = [line for line in done.stderr.splitlines() if line.startswith("evros: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def shell(self, line, **options):
        return subprocess.run(["bash", "-c", line, EVROS, EVROS], capture_output=True, text=True, timeout=300, **options)

    def test_output_that_is_lost_is_a_failure(self):
        for arguments in (["--help"], ["--version"], ["tokenize", TINY, "-p", "hello"], ["inspect", TINY],
                          ["tokenize", TINY, "--decode", "1,2"], ["run", TINY, "-p", "x", "--raw", "-n", "9", "-q"]):
            with self.subTest(arguments), open("/dev/full", "w") as full:
                done = subprocess.run([EVROS, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
                done.stdout = ""
                self.expect_sentence(done, ["standard output cannot be written", "No space left"])

    def test_closed_standard_streams_are_not_taken_by_files(self):
        self.expect_sentence(self.shell(f'"$1" run {TINY} <&-'), ["prompt is empty"])
        self.expect_sentence(self.shell(f'"$1" tokenize {TINY} -p x >&-'), ["standard output cannot be written"])
        self.assertEqual(self.shell(f'"$1" tokenize {TINY} -p x 2>&-').returncode, 0)

    @without_sanitizer
    def test_little_memory_is_one_sentence_and_leaves_nothing(self):
        seen = set()
        out = os.path.join(self.scratch, "o.gguf")
        own = os.path.getsize(EVROS) // 1024 + 2000  # with less the system cannot even map the program
        for kilobytes in [*range(own, 100001, 10000), 150000, 200000, 400000]:
            for command in (f"convert {MICRO} {out} -q", f"trace {GGUF} --tokens 1,2,3 --out {out}", f"tokenize {TINY} -p hello",
                            f"run {TINY} -p hello -n 2 -q --threads 64"):
                with self.subTest(command, kilobytes=kilobytes):
                    done = self.shell(f'ulimit -v {kilobytes}; exec "$1" {command}')
                    if done.returncode == 127 or (done.returncode != 0 and "evros: " not in done.stderr and
                                                  "error while loading" in done.stderr):
                        continue  # the loader itself cannot start
                    seen.add(done.returncode)
                    if done.returncode != 0:
                        self.expect_sentence(done, [])
                    self.assertEqual([name for name in os.listdir(self.scratch) if name.endswith(".partial")], [])
        self.assertEqual(seen, {0, 1}, "the limits reach from too little to enough")

    def test_a_file_beyond_the_limit_of_the_shell_is_refused(self):
        done = self.shell(f'ulimit -f 100; exec "$1" convert {MICRO} {self.scratch}/o.gguf -q')
        self.expect_sentence(done, ["o.gguf", "File too large"])
        self.assertEqual(os.listdir(self.scratch), [])

    def test_a_pipe_is_never_replaced_by_a_file(self):
        for name, arguments in {
                "o.gguf": ["convert", MICRO], "t": ["trace", GGUF, "--tokens", "1", "--out"],
                "s": ["snapshot", "save", GGUF, "--tokens", "1"], "r": ["run", GGUF, "-p", "x", "--raw", "--session"]}.items():
            path = os.path.join(self.scratch, name)
            os.mkfifo(path)
            with self.subTest(name):
                done = run(*arguments, path) if name != "s" else run(*arguments[:3], path, *arguments[3:])
                self.expect_sentence(done, [path, "is a pipe"])
                self.assertTrue(os.path.exists(path) and not os.path.isfile(path))
        self.assertEqual(len(os.listdir(self.scratch)), 4)

    def test_a_model_is_not_overwritten_under_any_of_its_names(self):
        model = os.path.join(self.scratch, "m.gguf")
        shutil.copyfile(GGUF, model)
        os.link(model, os.path.join(self.scratch, "hard.gguf"))
        for name in ("m.gguf", "./m.gguf", "hard.gguf"):
            with self.subTest(name):
                self.expect_sentence(run("convert", model, os.path.join(self.scratch, name)), ["over the model"])
        with open(model, "rb") as a, open(GGUF, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_two_conversions_to_one_file_leave_a_good_one(self):
        out = os.path.join(self.scratch, "o.gguf")
        wanted = os.path.join(self.scratch, "wanted.gguf")
        self.assertEqual(run("convert", MICRO, wanted, "-q").returncode, 0)
        for _ in range(5):
            both = [subprocess.Popen([EVROS, "convert", MICRO, out, "-q"], stderr=subprocess.PIPE, text=True) for _ in range(3)]
            errors = [p.communicate(timeout=120)[1] for p in both]
            self.assertIn(0, [p.returncode for p in both])
            for process, error in zip(both, errors):
                self.assertTrue(process.returncode == 0 or "being written by another process" in error, error)
            with open(out, "rb") as a, open(wanted, "rb") as b:
                self.assertEqual(a.read(), b.read())
        self.assertEqual(sorted(os.listdir(self.scratch)), ["o.gguf", "wanted.gguf"])

    def test_text_that_is_not_utf8_is_named_with_its_own_offset(self):
        path = os.path.join(self.scratch, "p.txt")
        with open(path, "wb") as out:
            out.write(b"hello \xff\xfe world")
        for arguments in (["run", TINY, "-f", path], ["run", TINY, "-f", path, "--raw"], ["tokenize", TINY, "-f", path]):
            with self.subTest(arguments):
                done = run(*arguments)
                self.expect_sentence(done, [path, "UTF-8", "offset 6 "])
                self.assertEqual(done.stdout, "")

    def test_an_error_leaves_standard_output_empty(self):
        done = run("run", TINY, "-p", "word " * 300, "--ctx", "64")
        self.expect_sentence(done, ["64"])
        self.assertEqual(done.stdout, "")


class Thinking(Scratch):
    def ask(self, *arguments):
        done = run("run", TINY, "-p", "Tell me a story.", "--seed", "1", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("think>", done.stdout)
        return done

    def test_thoughts_are_apart_from_the_answer(self):
        done, quiet = self.ask("--think", "-n", "60", "--temp", "0"), self.ask("--think", "-n", "60", "--temp", "0", "-q")
        self.assertEqual(done.stdout, quiet.stdout)
        self.assertEqual(quiet.stderr, "")
        self.assertNotIn("\x1b", done.stderr)
        self.assertFalse(done.stdout.startswith("\n") and done.stdout.strip(), "line breaks before the answer")

    def test_without_thinking_the_answer_is_all(self):
        done = self.ask("--no-think", "-n", "12", "-q", "--temp", "0")
        self.assertNotEqual(done.stdout.strip(), "")


def fill(case, table):
    for name, row in table.items():
        row = row if isinstance(row, tuple) else (row,)
        setattr(case, "test_" + name, lambda self, row=row: self.check(*row))


fill(BadModels, BAD_MODELS)
fill(BadWeights, BAD_WEIGHTS)
fill(BadRequests, BAD_REQUESTS)
fill(BadUsage, BAD_USAGE)

if __name__ == "__main__":
    unittest.main()
