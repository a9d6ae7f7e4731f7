// A very small valid model in both containers, built from nothing, for tests and fuzz targets that damage it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/str.h"
#include "format/expected_tensors.h"
#include "format/gguf.h"
#include "format/hyper_params.h"
#include "format/safetensors_writer.h"
#include "io/memory_io.h"

namespace evros::format::test {

/// One linear layer with a PLE, one full layer; every size small and different where it can be.
inline HyperParams small_hyper() {
  HyperParams h;
  h.layers = 2, h.hidden = 8, h.vocab = 16, h.context_length = 64, h.rms_eps = 1e-6F;
  h.layer_kind = {LayerKind::linear, LayerKind::full};
  h.compress_ratio = {0, 2};
  h.hc_count = 2, h.hc_lowrank = 4;
  h.heads = 2, h.kv_heads = 1, h.key_dim = 4, h.value_dim = 4, h.rope_dims = 2, h.rope_theta = 1e4,
  h.rope_sections = {1, 0, 0, 0};
  h.index_heads = 1, h.index_dim = 4, h.index_budget = 4;
  h.linear_key_heads = 2, h.linear_value_heads = 4, h.linear_key_dim = 4, h.linear_value_dim = 2, h.conv_kernel = 4;
  h.experts = 3, h.experts_used = 2, h.expert_ff = 4, h.shared_ff = 6;
  h.ple = {{0, {101, 103}, {3, 5}, {0, 3}}};
  h.ngram_size = 2, h.heads_per_ngram = 2, h.ple_conv_kernel = 3, h.ple_row_width = 6, h.ple_eos = 1,
  h.ple_table_rows = 9;
  return h;
}

struct RawTensor {
  std::string name;
  std::vector<uint64_t> ne;
  uint32_t type = 0;
  uint64_t offset = 0;
};

/// A GGUF header as plain data, so that a test can write what no honest writer would.
struct RawGguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  int64_t extra_tensors = 0, extra_keys = 0;  // added to the counts in the header
  std::vector<std::pair<std::string, GgufValue>> keys;
  std::vector<RawTensor> tensors;
  uint64_t alignment = 32;
  std::string tail;  // appended after the last key instead of anything else, when not empty
  uint64_t cut = 0;  // bytes to take off the end

  void set(const std::string& key, GgufValue value) {
    for (auto& [name, old] : keys) {
      if (name == key) {
        old = std::move(value);
        return;
      }
    }
    keys.emplace_back(key, std::move(value));
  }
  void erase(const std::string& key) {
    std::erase_if(keys, [&](const auto& pair) { return pair.first == key; });
  }
  RawTensor& tensor(const std::string& name) {
    for (RawTensor& t : tensors) {
      if (t.name == name) return t;
    }
    return tensors.emplace_back(RawTensor{name, {}, 0, 0});
  }

  /// Offsets as ggml wants them, for f32 tensors.
  void place() {
    uint64_t offset = 0;
    for (RawTensor& t : tensors) {
      t.offset = offset;
      uint64_t bytes = 4;
      for (const uint64_t n : t.ne) bytes *= n;
      offset += (bytes + alignment - 1) / alignment * alignment;
    }
    data_bytes = offset;
  }

  std::string header() const {
    std::string out = magic;
    const auto number = [&](auto n) { out.append(reinterpret_cast<const char*>(&n), sizeof n); };
    const auto text = [&](const std::string& s) { number(uint64_t{s.size()}), out += s; };
    number(version);
    number(static_cast<int64_t>(tensors.size()) + extra_tensors);
    number(static_cast<int64_t>(keys.size()) + extra_keys);
    for (const auto& [key, value] : keys) {
      text(key);
      number(static_cast<uint32_t>(value.is_array() ? GgufType::array : value.type()));
      append_value(out, value);
    }
    if (!tail.empty()) return out + tail;
    for (const RawTensor& t : tensors) {
      text(t.name);
      number(static_cast<uint32_t>(t.ne.size()));
      for (const uint64_t n : t.ne) number(n);
      number(t.type);
      number(t.offset);
    }
    return out;
  }

  std::string bytes() const {
    std::string out = header();
    if (tail.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment + data_bytes, '\0');
    out.resize(out.size() - std::min<size_t>(cut, out.size()));
    return out;
  }

  uint64_t data_bytes = 0;
};

/// GGUF of `h` with F32 zeros.
inline RawGguf small_gguf(const HyperParams& h = small_hyper()) {
  RawGguf g;
  const auto u = [&](const char* key, int64_t n) {
    g.set(cat("qwen4exp.", key), GgufValue::u32(static_cast<uint32_t>(n)));
  };
  g.set("general.architecture", GgufValue::string("qwen4exp"));
  u("block_count", h.layers + h.mtp_layers), u("context_length", h.context_length), u("embedding_length", h.hidden);
  u("attention.head_count", h.heads), u("attention.head_count_kv", h.kv_heads);
  u("attention.key_length", h.key_dim), u("attention.value_length", h.value_dim);
  g.set("qwen4exp.attention.layer_norm_rms_epsilon", GgufValue::f32(h.rms_eps));
  g.set("qwen4exp.rope.freq_base", GgufValue::f32(static_cast<float>(h.rope_theta)));
  u("rope.dimension_count", h.rope_dims);
  g.set("qwen4exp.rope.dimension_sections", GgufValue::array(std::span<const int32_t>(h.rope_sections)));
  u("expert_count", h.experts), u("expert_used_count", h.experts_used);
  u("expert_feed_forward_length", h.expert_ff), u("expert_shared_feed_forward_length", h.shared_ff);
  u("ssm.conv_kernel", h.conv_kernel), u("ssm.state_size", h.linear_key_dim), u("ssm.group_count", h.linear_key_heads);
  u("ssm.time_step_rank", h.linear_value_heads), u("ssm.inner_size", h.linear_value_heads * h.linear_value_dim);
  u("hyper_connection.count", h.hc_count), u("hyper_connection.low_rank", h.hc_lowrank);
  u("attention.indexer.head_count", h.index_heads), u("attention.indexer.key_length", h.index_dim),
      u("attention.indexer.top_k", h.index_budget);
  if (h.mtp_layers > 0) u("nextn_predict_layers", h.mtp_layers);
  std::vector<int32_t> ratios = h.compress_ratio;
  ratios.resize(static_cast<size_t>(h.layers + h.mtp_layers), 0);
  g.set("qwen4exp.attention.compress_ratios", GgufValue::array(std::span<const int32_t>(ratios)));
  if (!h.ple.empty()) {
    std::vector<int32_t> layers;
    std::vector<uint64_t> multipliers, sizes, offsets;
    for (const PleLayer& p : h.ple) {
      layers.push_back(p.layer);
      multipliers.insert(multipliers.end(), p.multipliers.begin(), p.multipliers.end());
      sizes.insert(sizes.end(), p.head_vocab.begin(), p.head_vocab.end());
      offsets.insert(offsets.end(), p.head_offset.begin(), p.head_offset.end());
    }
    g.set("qwen4exp.ple.layers", GgufValue::array(std::span<const int32_t>(layers)));
    u("ple.ngram_size", h.ngram_size), u("ple.heads_per_ngram", h.heads_per_ngram),
        u("ple.conv_kernel", h.ple_conv_kernel);
    u("ple.eos_token_id", h.ple_eos), u("embedding_length_per_layer_input", h.ple_row_width);
    g.set("qwen4exp.ple.layer_multipliers", GgufValue::array(std::span<const uint64_t>(multipliers)));
    g.set("qwen4exp.ple.head_vocab_sizes", GgufValue::array(std::span<const uint64_t>(sizes)));
    g.set("qwen4exp.ple.head_offsets", GgufValue::array(std::span<const uint64_t>(offsets)));
  }
  for (const TensorShape& t : expected_tensors(h)) {
    g.tensors.push_back({t.name, {t.ne.begin(), t.ne.begin() + t.dims}, 0, 0});
  }
  g.place();
  return g;
}

/// A checkpoint as config.json and named tensors; tensor bytes are made by files().
struct RawCheckpoint {
  std::string config;
  struct Stored {
    std::string name, dtype;
    std::vector<uint64_t> shape;
    std::string data;  // filled by files() when empty
  };
  std::vector<Stored> tensors;

  void add(const std::string& name, std::vector<uint64_t> shape) {
    tensors.push_back({name, "BF16", std::move(shape), ""});
  }
  void add_buffer(const std::string& name, const std::vector<int64_t>& values) {
    tensors.push_back({name,
                       "I64",
                       {values.size()},
                       std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t))});
  }
  Stored& tensor(const std::string& name) {
    for (Stored& t : tensors) {
      if (t.name == name) return t;
    }
    CHECK(false);
    return tensors[0];
  }
  void erase(const std::string& name) {
    std::erase_if(tensors, [&](const Stored& t) { return t.name == name; });
  }
  /// Replaces text that must be there.
  void edit(const std::string& from, const std::string& to) {
    const size_t at = config.find(from);
    CHECK(at != std::string::npos);
    config.replace(at, from.size(), to);
  }

  /// model.safetensors: every byte of a tensor without data is its running number.
  std::string weights() {
    std::vector<SafeTensorData> list;
    uint8_t running = 0;
    for (Stored& t : tensors) {
      uint64_t bytes = t.dtype == "I64" ? 8 : t.dtype == "F32" ? 4 : t.dtype == "F8_E4M3" ? 1 : 2;
      for (const uint64_t n : t.shape) bytes *= n;
      if (t.data.empty()) {
        for (uint64_t i = 0; i < bytes; ++i) t.data += static_cast<char>(running++);
      }
      list.push_back({t.name, t.dtype, t.shape, std::as_bytes(std::span(t.data))});
    }
    io::MemoryIo io;
    CHECK(write_safetensors(io, "w", list).ok());
    return io.get("w");
  }
  void put(io::MemoryIo& io, const std::string& folder) {
    io.put(folder + "/config.json", config);
    io.put(folder + "/model.safetensors", weights());
  }
};

/// The checkpoint of small_hyper(), in the layout that transformers writes: flat config, prefix "model.", single
/// experts.
inline RawCheckpoint small_checkpoint(const std::string& prefix = "model.") {
  RawCheckpoint c;
  c.config = R"({"model_type": "qwen4_exp_text", "num_hidden_layers": 2, "hidden_size": 8, "vocab_size": 16,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "layer_types": ["linear_attention", "qwen_sparse_attention"],
 "hc_count": 2, "hc_lowrank": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
 "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 0, 0]},
 "indexer_n_heads": 1, "indexer_head_dim": 4, "indexer_budget": 4, "indexer_compress_ratio": 2,
 "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 2,
 "linear_conv_kernel_dim": 4, "output_gate_type": "sigmoid", "hidden_act": "silu", "num_experts": 3, "num_experts_per_tok": 2,
 "moe_intermediate_size": 4, "shared_expert_intermediate_size": 6, "ple_layer_ids": [1], "ngram_size": 2,
 "heads_per_ngram": 2, "ple_conv_kernel_size": 3, "ple_embed_dim": 12, "eos_token_id": 1})";
  c.add("lm_head.weight", {16, 8});
  c.add(prefix + "embed_tokens.weight", {16, 8});
  const auto gate = [&](const std::string& p) {
    c.add(p + "hc_norm.weight", {16});
    c.add(p + "input_mix_weight_down.weight", {4, 16});
    c.add(p + "input_mix_weight_up.weight", {16, 4});
  };
  gate(prefix + "hyper_connection_mixer.");
  for (int layer = 0; layer < 2; ++layer) {
    const std::string p = cat(prefix, "layers.", layer, '.');
    for (const char* which : {"attn_hyper_connection.", "mlp_hyper_connection."}) {
      gate(p + which);
      c.add(p + which + "block_inject_weight.weight", {2, 16});
    }
    c.add(p + "mlp.gate.weight", {3, 8});
    for (int e = 0; e < 3; ++e) {
      c.add(cat(p, "mlp.experts.", e, ".gate_proj.weight"), {4, 8});
      c.add(cat(p, "mlp.experts.", e, ".up_proj.weight"), {4, 8});
      c.add(cat(p, "mlp.experts.", e, ".down_proj.weight"), {8, 4});
    }
    c.add(p + "mlp.shared_expert_gate.weight", {1, 8});
    c.add(p + "mlp.shared_expert.gate_proj.weight", {6, 8});
    c.add(p + "mlp.shared_expert.up_proj.weight", {6, 8});
    c.add(p + "mlp.shared_expert.down_proj.weight", {8, 6});
  }
  const std::string l = prefix + "layers.0.linear_attn.", f = prefix + "layers.1.self_attn.",
                    n = prefix + "layers.0.ple.";
  c.add(l + "in_proj_qkv.weight", {24, 8});
  c.add(l + "in_proj_z.weight", {8, 8});
  c.add(l + "in_proj_b.weight", {4, 8});
  c.add(l + "in_proj_a.weight", {4, 8});
  c.add(l + "conv1d.weight", {24, 1, 4});
  c.add(l + "A_log", {4});
  c.add(l + "dt_bias", {4});
  c.add(l + "norm.weight", {2});
  c.add(l + "out_proj.weight", {8, 8});
  c.add(f + "q_proj.weight", {16, 8});
  c.add(f + "k_proj.weight", {4, 8});
  c.add(f + "v_proj.weight", {4, 8});
  c.add(f + "o_proj.weight", {8, 8});
  for (const char* norm :
       {"q_norm.weight", "k_norm.weight", "indexer.q_layernorm.weight", "indexer.k_layernorm.weight"})
    c.add(f + norm, {4});
  c.add(f + "indexer.index_qk_proj.weight", {8, 8});
  c.add(n + "key_proj.weight", {16, 12});
  c.add(n + "value_proj.weight", {8, 12});
  for (const char* norm : {"norm_key.weight", "norm_query.weight", "norm_conv.weight"}) c.add(n + norm, {16});
  c.add(n + "conv1d.weight", {16, 1, 3});
  c.add_buffer(n + "ple_embedding.layer_multipliers", {101, 103});
  c.add_buffer(n + "ple_embedding.ngram_heads_vocab_sizes", {3, 5});
  c.add_buffer(n + "ple_embedding.ngram_heads_offsets", {0, 3});
  c.add(n + "ple_embedding.ngram_embedding.shard_0.weight", {4, 6});
  c.add(n + "ple_embedding.ngram_embedding.shard_1.weight", {5, 6});
  return c;
}

}  // namespace evros::format::test
