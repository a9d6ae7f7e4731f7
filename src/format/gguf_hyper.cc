#include "format/gguf_hyper.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/bytes.h"
#include "base/str.h"
#include "format/message.h"

namespace evros::format {
namespace {

constexpr std::string_view kPrefix = "qwen4exp.";
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

/// Typed look-ups that name the file, the key and what was seen. After the first failure the status holds it and every
/// later look-up returns a zero.
class Reader {
 public:
  Reader(const GgufMetadata& metadata, std::span<const GgufTensor> tensors, const std::string& path)
      : metadata_(metadata), path_(path) {
    for (const GgufTensor& tensor : tensors) tensors_.emplace(tensor.name, &tensor);
  }

  Result<HyperParams> run() {
    architecture();
    shape();
    attention();
    linear();
    experts();
    layer_kinds();
    compress_ratios();
    ple();
    if (!status_.ok()) return status_.error();
    EVROS_TRY(validate(h_, path_, KeyStyle::gguf));
    return std::move(h_);
  }

 private:
  void fail(std::string_view key, std::string_view seen, std::string_view wanted, Code code = Code::bad_file) {
    if (status_.ok()) status_ = Error{code, cat(path_, ": key ", key, " is ", seen, "; wanted ", wanted)};
  }
  const GgufValue* find(std::string_view name) const { return metadata_.find(cat(kPrefix, name)); }
  const GgufTensor* tensor(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : found->second;
  }

  int32_t as_int32(std::string_view name, const GgufValue& value, uint64_t i) {
    const auto number = value.integer(i);
    if (!number || *number < -kMaxInt32 || *number > kMaxInt32) {
      fail(cat(kPrefix, name), value.short_text(), "a 32-bit integer");
      return 0;
    }
    return static_cast<int32_t>(*number);
  }
  int32_t optional_integer(std::string_view name, int32_t absent) {
    const GgufValue* value = find(name);
    if (value == nullptr) return absent;
    if (value->is_array()) fail(cat(kPrefix, name), value->short_text(), "one integer");
    return as_int32(name, *value, 0);
  }
  int32_t integer(std::string_view name) {
    if (find(name) == nullptr) fail(cat(kPrefix, name), "absent", "an integer");
    return optional_integer(name, 0);
  }
  double real(std::string_view name) {
    const GgufValue* value = find(name);
    const auto number = value == nullptr || value->is_array() ? std::nullopt : value->number();
    if (!number) fail(cat(kPrefix, name), value == nullptr ? "absent" : value->short_text(), "a number");
    return number.value_or(0);
  }
  /// An array of exactly `size` integers of any width.
  std::vector<uint64_t> unsigned_array(std::string_view name, uint64_t size) {
    const GgufValue* value = find(name);
    if (value == nullptr || !value->is_array() || value->size() != size) {
      fail(cat(kPrefix, name), value == nullptr ? "absent" : cat("an array of ", value->size()),
           cat("an array of ", size, " integers"));
      return {};
    }
    std::vector<uint64_t> out;
    for (uint64_t i = 0; i < size && status_.ok(); ++i) {
      const auto number = value->unsigned_integer(i);
      if (!number) fail(cat(kPrefix, name), value->short_text(), "an array of non-negative integers");
      out.push_back(number.value_or(0));
    }
    return out;
  }

  void architecture() {
    const GgufValue* value = metadata_.find("general.architecture");
    const std::string* text = value == nullptr ? nullptr : value->text();
    if (text == nullptr || *text != "qwen4exp") {
      fail("general.architecture", value == nullptr ? "absent" : value->short_text(), "\"qwen4exp\"",
           Code::unsupported);
    }
  }

  void shape() {
    h_.mtp_layers = optional_integer("nextn_predict_layers", 0);
    if (h_.mtp_layers < 0 || h_.mtp_layers > 1)
      fail("qwen4exp.nextn_predict_layers", std::to_string(h_.mtp_layers), "0 or 1", Code::unsupported);
    const int32_t blocks = integer("block_count");
    if (blocks - h_.mtp_layers < 1 || blocks > 4096)
      fail("qwen4exp.block_count", std::to_string(blocks), "1 to 1024 blocks beside the MTP block");
    h_.layers = blocks - h_.mtp_layers;
    h_.hidden = integer("embedding_length");
    h_.context_length = integer("context_length");
    h_.rms_eps = static_cast<float>(real("attention.layer_norm_rms_epsilon"));
    h_.hc_count = integer("hyper_connection.count");
    h_.hc_lowrank = integer("hyper_connection.low_rank");
    h_.tied_embeddings = tensor("output.weight") == nullptr;
    vocabulary();
  }

  /// The embedding's rows are the vocabulary; the key, which not every writer sets, must not contradict.
  void vocabulary() {
    const GgufTensor* embedding = tensor("token_embd.weight");
    // Without an embedding the head or the key must do, so that check_tensors() can name it beside whatever else is missing.
    if (embedding == nullptr && (embedding = tensor("output.weight")) == nullptr) {
      if (h_.vocab = optional_integer("vocab_size", 0); h_.vocab != 0) return;
      if (status_.ok())
        status_ = Error{
            Code::bad_file,
            cat(path_,
                ": tensor \"token_embd.weight\" is missing; a file that only holds a draft head cannot run alone")};
      return;
    }
    if (embedding->ne[1] > static_cast<uint64_t>(kMaxInt32)) {
      if (status_.ok())
        status_ = Error{Code::bad_file, cat(path_, ": tensor ", quoted(embedding->name), " has ", embedding->ne[1],
                                            " rows; wanted at most ", kMaxInt32)};
      return;
    }
    h_.vocab = static_cast<int32_t>(embedding->ne[1]);
    const int32_t said = optional_integer("vocab_size", h_.vocab);
    if (said != h_.vocab)
      fail("qwen4exp.vocab_size", std::to_string(said), cat(h_.vocab, ", the rows of ", embedding->name));
  }

  void attention() {
    h_.heads = integer("attention.head_count");
    h_.kv_heads = integer("attention.head_count_kv");
    h_.key_dim = integer("attention.key_length");
    h_.value_dim = integer("attention.value_length");
    h_.rope_dims = integer("rope.dimension_count");
    h_.rope_theta = real("rope.freq_base");
    h_.index_heads = optional_integer("attention.indexer.head_count", 0);
    h_.index_dim = optional_integer("attention.indexer.key_length", 0);
    h_.index_budget = optional_integer("attention.indexer.top_k", 0);
    const GgufValue* sections = find("rope.dimension_sections");
    if (sections == nullptr || !sections->is_array() || sections->size() < 3 ||
        sections->size() > h_.rope_sections.size()) {
      return fail("qwen4exp.rope.dimension_sections", sections == nullptr ? "absent" : sections->short_text(),
                  "an array of 4 integers");
    }
    for (uint64_t i = 0; i < sections->size(); ++i)
      h_.rope_sections[i] = as_int32("rope.dimension_sections", *sections, i);
  }

  void linear() {
    h_.conv_kernel = integer("ssm.conv_kernel");
    h_.linear_key_dim = integer("ssm.state_size");
    h_.linear_key_heads = integer("ssm.group_count");
    h_.linear_value_heads = integer("ssm.time_step_rank");
    const int32_t inner = integer("ssm.inner_size");
    if (h_.linear_value_heads < 1 || inner % h_.linear_value_heads != 0) {
      fail("qwen4exp.ssm.inner_size", std::to_string(inner),
           cat("a multiple of ssm.time_step_rank, ", h_.linear_value_heads));
    } else {
      h_.linear_value_dim = inner / h_.linear_value_heads;
    }
    const GgufValue* gate = metadata_.find("evros.output_gate_type");
    if (gate == nullptr) return;
    const std::string* text = gate->text();
    if (text == nullptr || (*text != "sigmoid" && *text != "silu"))
      return fail("evros.output_gate_type", gate->short_text(), "\"sigmoid\" or \"silu\"");
    h_.output_gate = *text == "silu" ? GateActivation::silu : GateActivation::sigmoid;
  }

  void experts() {
    h_.experts = integer("expert_count");
    h_.experts_used = integer("expert_used_count");
    h_.shared_ff = integer("expert_shared_feed_forward_length");
    const GgufValue* width = find("expert_feed_forward_length");
    if (width != nullptr && width->is_array() && width->size() > 0) {
      h_.expert_ff = as_int32("expert_feed_forward_length", *width, 0);
      for (uint64_t i = 1; i < width->size(); ++i) {
        if (as_int32("expert_feed_forward_length", *width, i) == h_.expert_ff) continue;
        fail("qwen4exp.expert_feed_forward_length", width->short_text(), "the same width for every layer",
             Code::unsupported);
      }
    } else {
      h_.expert_ff = integer("expert_feed_forward_length");
    }
    const GgufValue* norm = metadata_.find("evros.norm_topk_prob");
    if (norm == nullptr) return;
    if (!norm->truth()) return fail("evros.norm_topk_prob", norm->short_text(), "a bool");
    h_.norm_topk_prob = *norm->truth();
  }

  /// A layer is linear iff blk.i.ssm_a exists; the keys that say it too must agree.
  void layer_kinds() {
    if (!status_.ok()) return;
    for (int32_t i = 0; i < h_.layers; ++i) h_.layer_kind.push_back(kind_of(i));
    if (const GgufValue* flags = find("attention.recurrent_layers")) return recurrent_layers(*flags);
    const int32_t interval = optional_integer("full_attention_interval", 0);
    if (interval < 0) return fail("qwen4exp.full_attention_interval", std::to_string(interval), "a positive integer");
    for (int32_t i = 0; interval > 0 && i < h_.layers; ++i) {
      expect_linear(i, (i + 1) % interval != 0, "qwen4exp.full_attention_interval", std::to_string(interval));
    }
  }
  /// Tensors that layers of one kind alone have.
  static constexpr std::string_view kOnlyLinear[] = {"ssm_a",           "ssm_dt.bias",      "ssm_conv1d.weight",
                                                     "ssm_beta.weight", "ssm_alpha.weight", "ssm_norm.weight",
                                                     "ssm_out.weight",  "attn_qkv.weight",  "attn_gate.weight"};
  static constexpr std::string_view kOnlyFull[] = {"attn_q.weight",      "attn_k.weight",      "attn_v.weight",
                                                   "attn_output.weight", "attn_q_norm.weight", "attn_k_norm.weight"};
  bool has_any(int32_t layer, std::span<const std::string_view> names) const {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return tensor(cat("blk.", layer, '.', name)) != nullptr; });
  }
  /// Where ssm_a is missing from a layer that is linear by all its other tensors, check_tensors() names it with whatever else is.
  LayerKind kind_of(int32_t layer) const {
    const bool is_linear =
        tensor(cat("blk.", layer, ".ssm_a")) != nullptr || (has_any(layer, kOnlyLinear) && !has_any(layer, kOnlyFull));
    return is_linear ? LayerKind::linear : LayerKind::full;
  }
  void recurrent_layers(const GgufValue& flags) {
    const bool known = flags.is_array() && (flags.type() == GgufType::boolean || flags.integer(0));
    if (!known || (flags.size() != static_cast<size_t>(h_.layers) &&
                   flags.size() != static_cast<size_t>(h_.layers + h_.mtp_layers))) {
      return fail("qwen4exp.attention.recurrent_layers", cat(flags.type_text(), " of ", flags.size()),
                  cat("an array with one flag for each of ", h_.layers + h_.mtp_layers, " blocks"));
    }
    for (int32_t i = 0; i < h_.layers; ++i)
      expect_linear(i, flags.flag(static_cast<uint64_t>(i)), "qwen4exp.attention.recurrent_layers", flags.short_text());
  }
  void expect_linear(int32_t layer, bool said, std::string_view key, std::string_view seen) {
    const bool is_linear = h_.layer_kind[static_cast<size_t>(layer)] == LayerKind::linear;
    if (said == is_linear) return;
    if (!is_linear && !has_any(layer, kOnlyFull)) {  // none of its tensors says what it is, so the key does
      h_.layer_kind[static_cast<size_t>(layer)] = LayerKind::linear;
      return;
    }
    fail(key, seen,
         cat("layer ", layer, " to be ", is_linear ? "linear, as blk." : "full attention, as no blk.", layer,
             ".ssm_a exists"));
  }

  void compress_ratios() {
    if (!status_.ok()) return;
    const GgufValue* ratios = find("attention.compress_ratios");
    const auto blocks = static_cast<uint64_t>(h_.layers + h_.mtp_layers);
    if (ratios == nullptr || !ratios->is_array() ||
        (ratios->size() != blocks && ratios->size() != static_cast<uint64_t>(h_.layers))) {
      return fail("qwen4exp.attention.compress_ratios",
                  ratios == nullptr
                      ? "absent"
                      : cat(ratios->is_array() ? "an array of " : "a single value, size ", ratios->size()),
                  cat("an array with one integer for each of ", blocks, " blocks"));
    }
    for (int32_t i = 0; i < h_.layers; ++i)
      h_.compress_ratio.push_back(as_int32("attention.compress_ratios", *ratios, static_cast<uint64_t>(i)));
  }

  void ple() {
    const GgufValue* layers = find("ple.layers");
    if (!status_.ok() || layers == nullptr || (layers->is_array() && layers->size() == 0)) return;
    if (layers->size() > static_cast<uint64_t>(h_.layers))
      return fail("qwen4exp.ple.layers", cat("an array of ", layers->size()),
                  cat("at most one entry for each of ", h_.layers, " layers"));
    h_.ngram_size = integer("ple.ngram_size");
    h_.heads_per_ngram = integer("ple.heads_per_ngram");
    h_.ple_conv_kernel = integer("ple.conv_kernel");
    h_.ple_eos = integer("ple.eos_token_id");
    h_.ple_row_width = integer("embedding_length_per_layer_input");
    if (h_.ngram_size < 2 || h_.ngram_size > 8)
      return fail("qwen4exp.ple.ngram_size", std::to_string(h_.ngram_size), "2 to 8");
    if (h_.heads_per_ngram < 1 || h_.heads_per_ngram > 4096)
      return fail("qwen4exp.ple.heads_per_ngram", std::to_string(h_.heads_per_ngram), "1 to 4096");
    const uint64_t count = layers->size(), heads = static_cast<uint64_t>(h_.ple_heads()),
                   ngram = static_cast<uint64_t>(h_.ngram_size);
    const std::vector<uint64_t> multipliers = unsigned_array("ple.layer_multipliers", count * ngram);
    const std::vector<uint64_t> sizes = unsigned_array("ple.head_vocab_sizes", count * heads);
    const std::vector<uint64_t> offsets = unsigned_array("ple.head_offsets", count * heads);
    if (!status_.ok()) return;
    const auto slice = [](const std::vector<uint64_t>& all, uint64_t k, uint64_t n) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(k * n);
      return std::vector<uint64_t>(first, first + static_cast<ptrdiff_t>(n));
    };
    for (uint64_t k = 0; k < count; ++k) {
      h_.ple.push_back({as_int32("ple.layers", *layers, k), slice(multipliers, k, ngram), slice(sizes, k, heads),
                        slice(offsets, k, heads)});
    }
    const GgufTensor* table = tensor("per_layer_token_embd.weight");
    // A table that is missing has the rows that its heads need, and check_tensors() names it.
    uint64_t needed = 0;
    for (size_t i = 0; i < sizes.size(); ++i) needed = std::max(needed, checked_add(offsets[i], sizes[i]).value_or(0));
    h_.ple_table_rows = table == nullptr ? needed : table->ne[1];
  }

  const GgufMetadata& metadata_;
  const std::string& path_;
  std::unordered_map<std::string_view, const GgufTensor*> tensors_;
  HyperParams h_;
  Status status_;
};

}  // namespace

Result<HyperParams> hyper_from_gguf(const GgufMetadata& metadata, std::span<const GgufTensor> tensors,
                                    const std::string& path) {
  return Reader(metadata, tensors, path).run();
}

}  // namespace evros::format
