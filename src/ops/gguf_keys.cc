#include "ops/gguf_keys.h"

#include <algorithm>
#include <limits>

#include "base/str.h"

namespace evros::ops {
namespace {

using format::GgufValue;
using format::HyperParams;
using format::LayerKind;

/// The n of "every n-th layer is full", or 0 when the layers follow no such rule.
int32_t full_interval(const HyperParams& hyper) {
  const auto first = std::find(hyper.layer_kind.begin(), hyper.layer_kind.end(), LayerKind::full);
  if (first == hyper.layer_kind.end()) return 0;
  const auto interval = static_cast<int32_t>(first - hyper.layer_kind.begin()) + 1;
  for (int32_t i = 0; i < hyper.layers; ++i) {
    const bool is_full = hyper.layer_kind[static_cast<size_t>(i)] == LayerKind::full;
    if (is_full != ((i + 1) % interval == 0)) return 0;
  }
  return interval;
}

class HyperKeys {
 public:
  HyperKeys(format::GgufWriter& writer, const HyperParams& hyper) : writer_(writer), h_(hyper) {}

  void run() {
    writer_.set("general.architecture", GgufValue::string("qwen4exp"));
    shape();
    attention();
    rest();
    if (!h_.ple.empty()) ple();
    if (h_.output_gate == format::GateActivation::silu)
      writer_.set("evros.output_gate_type", GgufValue::string("silu"));
    if (!h_.norm_topk_prob) writer_.set("evros.norm_topk_prob", GgufValue::boolean(false));
  }

 private:
  void set(const char* key, GgufValue value) { writer_.set(cat("qwen4exp.", key), std::move(value)); }
  void count(const char* key, int64_t n) {
    const auto value = static_cast<uint64_t>(n);
    const bool fits = value <= std::numeric_limits<uint32_t>::max();
    set(key, fits ? GgufValue::u32(static_cast<uint32_t>(value)) : GgufValue::u64(value));
  }
  void numbers(const char* key, std::span<const int32_t> list) { set(key, GgufValue::array(list)); }
  void numbers(const char* key, std::span<const uint64_t> list) { set(key, GgufValue::array(list)); }

  void shape() {
    count("block_count", h_.layers + h_.mtp_layers);
    count("context_length", h_.context_length);
    count("embedding_length", h_.hidden);
    count("vocab_size", h_.vocab);
    set("attention.layer_norm_rms_epsilon", GgufValue::f32(h_.rms_eps));
    count("hyper_connection.count", h_.hc_count);
    count("hyper_connection.low_rank", h_.hc_lowrank);
    if (h_.mtp_layers > 0) count("nextn_predict_layers", h_.mtp_layers);
    if (const int32_t interval = full_interval(h_); interval > 0) return count("full_attention_interval", interval);
    std::vector<uint8_t> recurrent;
    for (const LayerKind kind : h_.layer_kind) recurrent.push_back(kind == LayerKind::linear ? 1 : 0);
    recurrent.resize(static_cast<size_t>(h_.layers + h_.mtp_layers), 0);
    set("attention.recurrent_layers", GgufValue::booleans(recurrent));
  }

  void attention() {
    count("attention.head_count", h_.heads);
    count("attention.head_count_kv", h_.kv_heads);
    count("attention.key_length", h_.key_dim);
    count("attention.value_length", h_.value_dim);
    count("attention.indexer.head_count", h_.index_heads);
    count("attention.indexer.key_length", h_.index_dim);
    count("attention.indexer.top_k", h_.index_budget);
    std::vector<int32_t> ratios = h_.compress_ratio;
    ratios.resize(static_cast<size_t>(h_.layers + h_.mtp_layers), 0);
    numbers("attention.compress_ratios", ratios);
    count("rope.dimension_count", h_.rope_dims);
    set("rope.freq_base", GgufValue::f32(static_cast<float>(h_.rope_theta)));
    numbers("rope.dimension_sections", h_.rope_sections);
  }

  void rest() {
    count("ssm.conv_kernel", h_.conv_kernel);
    count("ssm.state_size", h_.linear_key_dim);
    count("ssm.group_count", h_.linear_key_heads);
    count("ssm.time_step_rank", h_.linear_value_heads);
    count("ssm.inner_size", int64_t{h_.linear_value_heads} * h_.linear_value_dim);
    count("expert_count", h_.experts);
    count("expert_used_count", h_.experts_used);
    count("expert_feed_forward_length", h_.expert_ff);
    count("expert_shared_feed_forward_length", h_.shared_ff);
  }

  void ple() {
    std::vector<int32_t> layers;
    std::vector<uint64_t> multipliers, offsets, sizes;
    for (const format::PleLayer& p : h_.ple) {
      layers.push_back(p.layer);
      multipliers.insert(multipliers.end(), p.multipliers.begin(), p.multipliers.end());
      offsets.insert(offsets.end(), p.head_offset.begin(), p.head_offset.end());
      sizes.insert(sizes.end(), p.head_vocab.begin(), p.head_vocab.end());
    }
    numbers("ple.layers", layers);
    count("ple.ngram_size", h_.ngram_size);
    count("ple.heads_per_ngram", h_.heads_per_ngram);
    count("ple.conv_kernel", h_.ple_conv_kernel);
    count("ple.eos_token_id", h_.ple_eos);
    count("embedding_length_per_layer_input", h_.ple_row_width);
    numbers("ple.layer_multipliers", multipliers);
    numbers("ple.head_offsets", offsets);
    numbers("ple.head_vocab_sizes", sizes);
  }

  format::GgufWriter& writer_;
  const HyperParams& h_;
};

}  // namespace

Status set_hyper_keys(format::GgufWriter& writer, const HyperParams& hyper, const std::string& path) {
  if (static_cast<double>(static_cast<float>(hyper.rope_theta)) != hyper.rope_theta) {
    return Error{Code::unsupported, cat(path, ": rope_theta is ", hyper.rope_theta,
                                        ", which the 32-bit float of a GGUF file cannot hold exactly")};
  }
  HyperKeys(writer, hyper).run();
  return {};
}

void set_text_keys(format::GgufWriter& writer, const format::TextAssets& text) {
  const auto id = [&](const char* key, int64_t token) {
    if (token >= 0) writer.set(key, GgufValue::u32(static_cast<uint32_t>(token)));
  };
  if (!text.tokens.empty()) {
    writer.set("tokenizer.ggml.model", GgufValue::string(text.model));
    writer.set("tokenizer.ggml.pre", GgufValue::string(text.pre));
    writer.set("tokenizer.ggml.tokens", GgufValue::array(text.tokens));
    writer.set("tokenizer.ggml.token_type", GgufValue::array(std::span<const int32_t>(text.token_types)));
    writer.set("tokenizer.ggml.merges", GgufValue::array(text.merges));
    writer.set("tokenizer.ggml.add_bos_token", GgufValue::boolean(false));
    if (text.nfc == false) writer.set("evros.tokenizer.nfc", GgufValue::boolean(false));
  }
  if (!text.eos_ids.empty()) id("tokenizer.ggml.eos_token_id", text.eos_ids[0]);
  if (text.eos_ids.size() > 1) {
    const std::vector<int32_t> ids(text.eos_ids.begin(), text.eos_ids.end());
    writer.set("evros.eos_token_ids", GgufValue::array(std::span<const int32_t>(ids)));
  }
  id("tokenizer.ggml.bos_token_id", text.bos_id);
  id("tokenizer.ggml.padding_token_id", text.pad_id);
  if (!text.chat_template.empty()) writer.set("tokenizer.chat_template", GgufValue::string(text.chat_template));
}

void set_sampling_keys(format::GgufWriter& writer, const format::SamplingDefaults& sampling) {
  if (sampling.top_k) writer.set("general.sampling.top_k", GgufValue::i32(*sampling.top_k));
  if (sampling.top_p) writer.set("general.sampling.top_p", GgufValue::f32(*sampling.top_p));
  if (sampling.temperature) writer.set("general.sampling.temp", GgufValue::f32(*sampling.temperature));
}

}  // namespace evros::ops
