// A checkpoint folder with random weights, every dimension and every layout choice a field: for tests that need models
// which no published file is. Tests only.
//
//   io::MemoryIo io;
//   RandomCheckpoint shape;
//   shape.hc_count = 2;
//   shape.write(io, "model");                 // model/config.json, model/model*.safetensors
//   auto file = open_model(io, "model");
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/json_writer.h"
#include "base/rng.h"
#include "base/str.h"
#include "format/ngram_hash.h"
#include "format/safetensors_writer.h"
#include "io/io.h"

namespace evros::format::test {

struct RandomCheckpoint {
  // The text model, under config.json's names. layers[i] is 'L' (linear) or 'F' (full).
  std::string layers = "LLLF";
  int64_t hidden_size = 64, vocab_size = 96, max_position_embeddings = 512;
  double rms_norm_eps = 1e-6;
  int64_t hc_count = 4, hc_lowrank = 16;
  bool tie_word_embeddings = false;
  int64_t num_attention_heads = 4, num_key_value_heads = 2, head_dim = 32;
  double rope_theta = 1e7, partial_rotary_factor = 0.25;
  std::vector<int64_t> mrope_section = {2, 1, 1};
  int64_t indexer_n_heads = 2, indexer_head_dim = 16, indexer_budget = 16,
          indexer_compress_ratio = 4;  // ratio 0: dense
  int64_t linear_num_key_heads = 2, linear_num_value_heads = 6, linear_key_head_dim = 16, linear_value_head_dim = 16;
  int64_t linear_conv_kernel_dim = 4;
  std::string output_gate_type = "sigmoid";  // or "silu"; empty: left out, so that hidden_act decides
  int64_t num_experts = 8, num_experts_per_tok = 3, moe_intermediate_size = 32, shared_expert_intermediate_size = 32;
  bool norm_topk_prob = true;
  std::vector<int64_t> ple_layers = {1};  // zero-based, linear layers; empty: no PLE
  int64_t ngram_size = 3, heads_per_ngram = 2, ple_row_width = 8, ple_conv_kernel_size = 4;
  int64_t ngram_vocab_size_base = 50, seed = 1234;
  bool mtp = false;
  std::vector<int64_t> eos_ids = {2};       // of config.json; the first cuts n-grams
  std::vector<int64_t> generation_eos_ids;  // of generation_config.json; empty: no such file
  // The layout of the files.
  std::string prefix = "model.";  // or "model.language_model."
  bool nested_config = false;     // under text_config
  bool fused_experts = false;     // gate_up_proj, down_proj
  bool hash_buffers = true;       // the int64 constants are stored, not left to be derived
  int64_t table_shards = 3;       // of different lengths where the rows allow it
  int64_t files = 1;              // above 1: numbered files and an index
  std::string dtype = "BF16";     // of every float tensor: BF16, F16 or F32
  uint64_t weight_seed = 1;

  /// Writes the folder. Every condition of format::validate on the fields is the caller's business.
  void write(io::Io& io, const std::string& folder) {
    tensors_.clear();
    make_tensors();
    CHECK(io.make_folder(folder).ok());
    put(io, io::join(folder, "config.json"), config());
    if (!generation_eos_ids.empty()) {
      JsonWriter json;
      json.begin_object().key("eos_token_id");
      integers(json, generation_eos_ids);
      put(io, io::join(folder, "generation_config.json"), json.end_object().take());
    }
    write_weights(io, folder);
    tensors_.clear();
  }

  std::string config() const {
    JsonWriter json;
    json.begin_object();
    if (nested_config) json.key("model_type").value("qwen4_exp").key("text_config").begin_object();
    json.key("model_type").value("qwen4_exp_text");
    for (const auto& [key, n] : std::initializer_list<std::pair<const char*, int64_t>>{
             {"num_hidden_layers", static_cast<int64_t>(layers.size())},
             {"hidden_size", hidden_size},
             {"vocab_size", vocab_size},
             {"max_position_embeddings", max_position_embeddings},
             {"hc_count", hc_count},
             {"hc_lowrank", hc_lowrank},
             {"num_attention_heads", num_attention_heads},
             {"num_key_value_heads", num_key_value_heads},
             {"head_dim", head_dim},
             {"indexer_n_heads", indexer_n_heads},
             {"indexer_head_dim", indexer_head_dim},
             {"indexer_budget", indexer_budget},
             {"indexer_compress_ratio", indexer_compress_ratio},
             {"linear_num_key_heads", linear_num_key_heads},
             {"linear_num_value_heads", linear_num_value_heads},
             {"linear_key_head_dim", linear_key_head_dim},
             {"linear_value_head_dim", linear_value_head_dim},
             {"linear_conv_kernel_dim", linear_conv_kernel_dim},
             {"num_experts", num_experts},
             {"num_experts_per_tok", num_experts_per_tok},
             {"moe_intermediate_size", moe_intermediate_size},
             {"shared_expert_intermediate_size", shared_expert_intermediate_size},
             {"mtp_num_hidden_layers", mtp ? 1 : 0}}) {
      json.key(key).value(n);
    }
    json.key("rms_norm_eps").value(rms_norm_eps).key("hidden_act").value("silu");
    json.key("tie_word_embeddings").value(tie_word_embeddings).key("norm_topk_prob").value(norm_topk_prob);
    if (!output_gate_type.empty()) json.key("output_gate_type").value(output_gate_type);
    json.key("layer_types").begin_array();
    for (const char kind : layers) json.value(kind == 'F' ? "full_attention" : "linear_attention");
    json.end_array().key("rope_parameters").begin_object().key("rope_type").value("default");
    json.key("rope_theta")
        .value(rope_theta)
        .key("partial_rotary_factor")
        .value(partial_rotary_factor)
        .key("mrope_section");
    integers(json, mrope_section);
    json.end_object().key("eos_token_id");
    integers(json, eos_ids);
    if (!ple_layers.empty()) ple_config(json);
    json.end_object();
    if (nested_config) json.end_object();
    return json.take();
  }

 private:
  using Shape = std::vector<uint64_t>;
  struct Stored {
    std::string name, dtype;
    Shape shape;
    std::vector<std::byte> data;
  };

  static uint64_t u(int64_t n) { return static_cast<uint64_t>(n); }
  static void put(io::Io& io, const std::string& path, const std::string& text) {
    auto file = io.create(path);
    CHECK(file.ok());
    CHECK((*file)->write_at(0, std::as_bytes(std::span(text))).ok());
  }
  static void integers(JsonWriter& json, const std::vector<int64_t>& list) {
    json.begin_array();
    for (const int64_t n : list) json.value(n);
    json.end_array();
  }
  int64_t ple_heads() const { return (ngram_size - 1) * heads_per_ngram; }

  void ple_config(JsonWriter& json) const {
    std::vector<int64_t> ids;
    for (const int64_t layer : ple_layers) ids.push_back(layer + 1);
    json.key("ple_layer_ids");
    integers(json, ids);
    json.key("ngram_size").value(ngram_size).key("heads_per_ngram").value(heads_per_ngram);
    json.key("ple_embed_dim")
        .value(ple_heads() * ple_row_width)
        .key("ple_conv_kernel_size")
        .value(ple_conv_kernel_size);
    json.key("ngram_vocab_size_base").value(ngram_vocab_size_base).key("seed").value(seed);
  }

  /// Uniform in centre +- spread, a function of weight_seed, the tensor's number and the element's.
  void add(std::string name, Shape shape, double spread, double centre = 0) {
    Stored stored{std::move(name), dtype, std::move(shape), {}};
    uint64_t n = 1;
    for (const uint64_t d : stored.shape) n *= d;
    const size_t width = dtype == "F32" ? 4 : 2;
    stored.data.resize(n * width);
    const auto number = static_cast<uint32_t>(tensors_.size());
    for (uint64_t i = 0; i < n; ++i) {
      const auto value = static_cast<float>(centre + spread * (2 * uniform(weight_seed, number, i) - 1));
      std::byte* at = stored.data.data() + i * width;
      const auto bits = __builtin_bit_cast(uint32_t, value);
      if (dtype == "F32") store(at, bits);
      if (dtype == "BF16") store(at, static_cast<uint16_t>(bits >> 16));
      if (dtype == "F16") store(at, half(value));
    }
    tensors_.push_back(std::move(stored));
  }
  /// Truncated to a half; magnitudes here are below 2^15, and those below 2^-14 become 0.
  static uint16_t half(float value) {
    const auto bits = __builtin_bit_cast(uint32_t, value);
    const uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 255;
    if (exponent < 113) return static_cast<uint16_t>(sign);
    return static_cast<uint16_t>(sign | (exponent - 112) << 10 | (bits >> 13 & 0x3FF));
  }
  /// A matrix [out, in] that keeps magnitudes.
  void matrix(const std::string& name, int64_t out, int64_t in) {
    add(name, {u(out), u(in)}, std::sqrt(3.0 / static_cast<double>(in)));
  }
  /// A zero-centred gain.
  void gain(const std::string& name, int64_t n) { add(name, {u(n)}, 0.25); }
  void integers(const std::string& name, const std::vector<uint64_t>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    tensors_.push_back({name, "I64", {values.size()}, {bytes.begin(), bytes.end()}});
  }

  void make_tensors() {
    matrix(prefix + "embed_tokens.weight", vocab_size, hidden_size);
    if (!tie_word_embeddings) matrix("lm_head.weight", vocab_size, hidden_size);
    read_gate(prefix + "hyper_connection_mixer.");
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string p = cat(prefix, "layers.", i, '.');
      hyper_connections(p);
      if (layers[i] == 'F')
        full(p + "self_attn.");
      else
        linear(p + "linear_attn.");
      moe(p + "mlp.");
      const auto ple_index = std::find(ple_layers.begin(), ple_layers.end(), static_cast<int64_t>(i));
      if (ple_index != ple_layers.end()) ple(p + "ple.", static_cast<uint32_t>(ple_index - ple_layers.begin()));
    }
    if (mtp) make_mtp();
  }
  void read_gate(const std::string& p) {
    gain(p + "hc_norm.weight", hc_count * hidden_size);
    matrix(p + "input_mix_weight_down.weight", hc_lowrank, hc_count * hidden_size);
    matrix(p + "input_mix_weight_up.weight", hc_count * hidden_size, hc_lowrank);
  }
  void hyper_connections(const std::string& p) {
    for (const char* which : {"attn_hyper_connection.", "mlp_hyper_connection."}) {
      read_gate(p + which);
      matrix(p + which + "block_inject_weight.weight", hc_count, hc_count * hidden_size);
    }
  }
  void linear(const std::string& p) {
    const int64_t inner = linear_num_value_heads * linear_value_head_dim;
    const int64_t channels = 2 * linear_num_key_heads * linear_key_head_dim + inner;
    matrix(p + "in_proj_qkv.weight", channels, hidden_size);
    matrix(p + "in_proj_z.weight", inner, hidden_size);
    matrix(p + "in_proj_b.weight", linear_num_value_heads, hidden_size);
    matrix(p + "in_proj_a.weight", linear_num_value_heads, hidden_size);
    add(p + "conv1d.weight", {u(channels), 1, u(linear_conv_kernel_dim)}, 0.8);
    add(p + "A_log", {u(linear_num_value_heads)}, 1.5, 0.5);
    add(p + "dt_bias", {u(linear_num_value_heads)}, 1.0);
    add(p + "norm.weight", {u(linear_value_head_dim)}, 0.25, 1.0);
    matrix(p + "out_proj.weight", hidden_size, inner);
  }
  void full(const std::string& p) {
    matrix(p + "q_proj.weight", 2 * num_attention_heads * head_dim, hidden_size);
    matrix(p + "k_proj.weight", num_key_value_heads * head_dim, hidden_size);
    matrix(p + "v_proj.weight", num_key_value_heads * head_dim, hidden_size);
    matrix(p + "o_proj.weight", hidden_size, num_attention_heads * head_dim);
    gain(p + "q_norm.weight", head_dim);
    gain(p + "k_norm.weight", head_dim);
    if (indexer_n_heads == 0) return;
    matrix(p + "indexer.index_qk_proj.weight", (indexer_n_heads + 1) * indexer_head_dim, hidden_size);
    gain(p + "indexer.q_layernorm.weight", indexer_head_dim);
    gain(p + "indexer.k_layernorm.weight", indexer_head_dim);
  }
  void moe(const std::string& p) {
    matrix(p + "gate.weight", num_experts, hidden_size);
    const int64_t ff = moe_intermediate_size, shared = shared_expert_intermediate_size;
    if (fused_experts) {
      const double in = std::sqrt(3.0 / static_cast<double>(hidden_size)),
                   mid = std::sqrt(3.0 / static_cast<double>(ff));
      add(p + "experts.gate_up_proj", {u(num_experts), u(2 * ff), u(hidden_size)}, in);
      add(p + "experts.down_proj", {u(num_experts), u(hidden_size), u(ff)}, mid);
    }
    for (int64_t e = 0; e < num_experts && !fused_experts; ++e) {
      matrix(cat(p, "experts.", e, ".gate_proj.weight"), ff, hidden_size);
      matrix(cat(p, "experts.", e, ".up_proj.weight"), ff, hidden_size);
      matrix(cat(p, "experts.", e, ".down_proj.weight"), hidden_size, ff);
    }
    matrix(p + "shared_expert_gate.weight", 1, hidden_size);
    matrix(p + "shared_expert.gate_proj.weight", shared, hidden_size);
    matrix(p + "shared_expert.up_proj.weight", shared, hidden_size);
    matrix(p + "shared_expert.down_proj.weight", hidden_size, shared);
  }
  void ple(const std::string& p, uint32_t index) {
    const int64_t wide = hc_count * hidden_size;
    matrix(p + "key_proj.weight", wide, ple_heads() * ple_row_width);
    matrix(p + "value_proj.weight", hidden_size, ple_heads() * ple_row_width);
    for (const char* norm : {"norm_key.weight", "norm_query.weight", "norm_conv.weight"}) gain(p + norm, wide);
    add(p + "conv1d.weight", {u(wide), 1, u(ple_conv_kernel_size)}, 0.8);
    const PleLayer made = derive_ple({u(seed), static_cast<int32_t>(vocab_size), static_cast<int32_t>(ngram_size),
                                      static_cast<int32_t>(heads_per_ngram), ngram_vocab_size_base},
                                     index);
    if (hash_buffers) {
      integers(p + "ple_embedding.layer_multipliers", made.multipliers);
      integers(p + "ple_embedding.ngram_heads_vocab_sizes", made.head_vocab);
      integers(p + "ple_embedding.ngram_heads_offsets", made.head_offset);
    }
    uint64_t left = made.head_offset.back() + made.head_vocab.back();
    for (int64_t shard = 0; shard < table_shards; ++shard) {
      const bool is_last = shard + 1 == table_shards;
      const uint64_t rows = is_last ? left : std::min(left - u(table_shards - shard - 1), u(7 + 13 * shard));
      add(cat(p, "ple_embedding.ngram_embedding.shard_", shard, ".weight"), {rows, u(ple_row_width)}, 1.0);
      left -= rows;
    }
  }
  void make_mtp() {
    matrix("mtp.fc_embedding.weight", hidden_size, hidden_size);
    matrix("mtp.fc_hidden.weight", hidden_size, hidden_size);
    gain("mtp.pre_fc_norm_embedding.weight", hidden_size);
    gain("mtp.pre_fc_norm_hidden.weight", hc_count * hidden_size);
    read_gate("mtp.hyper_connection_mixer.");
    hyper_connections("mtp.layers.0.");
    full("mtp.layers.0.self_attn.");
    moe("mtp.layers.0.mlp.");
  }

  void write_weights(io::Io& io, const std::string& folder) {
    JsonWriter index;
    index.begin_object().key("weight_map").begin_object();
    for (int64_t f = 0; f < files; ++f) {
      const std::string name = files == 1 ? "model.safetensors" : cat("model-", f + 1, "-of-", files, ".safetensors");
      std::vector<SafeTensorData> list;
      for (size_t i = 0; i < tensors_.size(); ++i) {
        if (static_cast<int64_t>(i) % files != f) continue;
        const Stored& stored = tensors_[i];
        list.push_back({stored.name, stored.dtype, stored.shape, stored.data});
        index.key(stored.name).value(name);
      }
      CHECK(write_safetensors(io, io::join(folder, name), list).ok());
    }
    if (files > 1) put(io, io::join(folder, "model.safetensors.index.json"), index.end_object().end_object().take());
  }

  std::vector<Stored> tensors_;
};

}  // namespace evros::format::test
