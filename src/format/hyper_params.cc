#include "format/hyper_params.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "base/str.h"

namespace evros::format {
namespace {

constexpr int64_t kMaxLayers = 1024, kMaxColumns = 1 << 20, kMaxVocab = 1 << 28, kMaxContext = int64_t{1} << 40;
constexpr int64_t kMaxStreams = 64, kMaxHeads = 4096, kMaxHeadDim = 1 << 16, kMaxExperts = 1 << 16;
constexpr int64_t kMinKernel = 2, kMaxKernel = 64, kMinNgram = 2, kMaxNgram = 8, kMaxNgramHeads = 4096;
constexpr int64_t kMaxRatio = 1 << 16, kMaxRatioMultiple = 1 << 20, kMaxBudget = 1 << 30;
/// Longest row or widest activation anywhere: fits int32 with room for sums.
constexpr int64_t kMaxWidth = 1 << 28;
constexpr uint64_t kMaxTableRows = uint64_t{1} << 40;

/// One check after the other; the first failure stays.
class Validator {
 public:
  Validator(const HyperParams& hyper, std::string_view file, KeyStyle style) : h_(hyper), file_(file), style_(style) {}

  Status run() {
    shape();
    attention();
    index();
    linear();
    experts();
    ple();
    return std::move(status_);
  }

 private:
  template <typename Seen>
  void fail(std::string_view key, Seen seen, std::string_view wanted) {
    if (status_.ok()) status_ = Error{Code::bad_file, cat(file_, ": key ", key, " is ", seen, "; wanted ", wanted)};
  }
  std::string key(std::string_view gguf, std::string_view config) const {
    return style_ == KeyStyle::gguf ? cat("qwen4exp.", gguf) : std::string(config);
  }
  void range(int64_t value, int64_t least, int64_t most, std::string_view gguf, std::string_view config) {
    if (value < least || value > most) fail(key(gguf, config), value, cat(least, " to ", most));
  }
  void multiple(int64_t value, int64_t of, std::string_view gguf, std::string_view config, std::string_view of_gguf,
                std::string_view of_config) {
    if (status_.ok() && value % of != 0)
      fail(key(gguf, config), value, cat("a multiple of ", key(of_gguf, of_config), ", ", of));
  }
  /// A width formed from several dimensions.
  void width(int64_t value, std::string_view gguf, std::string_view config) {
    if (value > kMaxWidth) fail(key(gguf, config), value, cat("a width of at most ", kMaxWidth));
  }
  /// A real number that must be finite and in (0, most].
  void real(double value, double most, std::string_view gguf, std::string_view config) {
    if (!(std::isfinite(value) && value > 0 && value <= most))
      fail(key(gguf, config), value, cat("a number above 0, at most ", most));
  }

  void shape() {
    range(h_.layers, 1, kMaxLayers, "block_count", "num_hidden_layers");
    range(h_.hidden, 1, kMaxColumns, "embedding_length", "hidden_size");
    range(h_.vocab, 1, kMaxVocab, "vocab_size", "vocab_size");
    range(h_.context_length, 1, kMaxContext, "context_length", "max_position_embeddings");
    real(static_cast<double>(h_.rms_eps), 1.0, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
    range(h_.hc_count, 1, kMaxStreams, "hyper_connection.count", "hc_count");
    range(h_.hc_lowrank, 1, kMaxColumns, "hyper_connection.low_rank", "hc_lowrank");
    range(h_.mtp_layers, 0, 1, "nextn_predict_layers", "mtp_num_hidden_layers");
    if (!status_.ok()) return;
    if (h_.layer_kind.size() != static_cast<size_t>(h_.layers)) {
      fail(key("attention.recurrent_layers", "layer_types"), cat(h_.layer_kind.size(), " entries"),
           cat("one entry for each of ", h_.layers, " layers"));
    }
    if (h_.compress_ratio.size() != static_cast<size_t>(h_.layers)) {
      fail(key("attention.compress_ratios", "indexer_compress_ratio"), cat(h_.compress_ratio.size(), " entries"),
           cat("one entry for each of ", h_.layers, " layers"));
    }
  }

  void attention() {
    range(h_.heads, 1, kMaxHeads, "attention.head_count", "num_attention_heads");
    range(h_.kv_heads, 1, kMaxHeads, "attention.head_count_kv", "num_key_value_heads");
    range(h_.key_dim, 1, kMaxHeadDim, "attention.key_length", "head_dim");
    if (!status_.ok()) return;
    multiple(h_.heads, h_.kv_heads, "attention.head_count", "num_attention_heads", "attention.head_count_kv",
             "num_key_value_heads");
    if (h_.value_dim != h_.key_dim) {
      fail(key("attention.value_length", "head_dim"), h_.value_dim,
           cat(key("attention.key_length", "head_dim"), ", ", h_.key_dim, ", as the output gate has that width"));
    }
    width(int64_t{2} * h_.heads * h_.key_dim, "attention.head_count times twice qwen4exp.attention.key_length",
          "num_attention_heads times twice head_dim");
    const std::string rope =
        key("rope.dimension_count", "rope_parameters.partial_rotary_factor (in dimensions of a head)");
    if (h_.rope_dims < 2 || h_.rope_dims % 2 != 0 || h_.rope_dims > h_.key_dim) {
      fail(rope, h_.rope_dims, cat("an even number from 2 to the head size, ", h_.key_dim));
    }
    real(h_.rope_theta, 1e30, "rope.freq_base", "rope_parameters.rope_theta");
    for (const int32_t section : h_.rope_sections) {
      range(section, 0, kMaxHeadDim, "rope.dimension_sections", "rope_parameters.mrope_section");
    }
  }

  void index() {
    if (!status_.ok()) return;
    bool used = false;
    int64_t together = 1;  // a page of the state holds whole blocks of every layer
    for (size_t i = 0; i < h_.compress_ratio.size(); ++i) {
      const int32_t ratio = h_.compress_ratio[i];
      range(ratio, 0, kMaxRatio, "attention.compress_ratios", "indexer_compress_ratio");
      if (h_.layer_kind[i] == LayerKind::linear && ratio != 0) {
        fail(key("attention.compress_ratios", "indexer_compress_ratio"), cat(ratio, " at layer ", i),
             "0 at a linear layer");
      }
      if (ratio > h_.index_budget && status_.ok()) {
        fail(key("attention.indexer.top_k", "indexer_budget"), h_.index_budget,
             cat("at least one block of ", ratio, " tokens"));
      }
      used = used || ratio > 0;
      if (ratio > 0 && together <= kMaxRatioMultiple) together = std::lcm(together, int64_t{ratio});
    }
    if (together > kMaxRatioMultiple && status_.ok()) {
      fail(key("attention.compress_ratios", "indexer_compress_ratio"),
           cat("values with the common multiple ", together), cat("a common multiple of at most ", kMaxRatioMultiple));
    }
    const int64_t least = used ? 1 : 0;
    range(h_.index_heads, least, kMaxHeads, "attention.indexer.head_count", "indexer_n_heads");
    range(h_.index_dim, least, kMaxHeadDim, "attention.indexer.key_length", "indexer_head_dim");
    range(h_.index_budget, least, kMaxBudget, "attention.indexer.top_k", "indexer_budget");
    width(int64_t{h_.index_heads} * h_.index_dim, "attention.indexer.head_count times key_length",
          "indexer_n_heads times indexer_head_dim");
    if (used && h_.index_dim < h_.rope_dims) {
      fail(key("attention.indexer.key_length", "indexer_head_dim"), h_.index_dim,
           cat("at least the ", h_.rope_dims, " rotary dimensions"));
    }
  }

  void linear() {
    range(h_.linear_key_heads, 1, kMaxHeads, "ssm.group_count", "linear_num_key_heads");
    range(h_.linear_value_heads, 1, kMaxHeads, "ssm.time_step_rank", "linear_num_value_heads");
    range(h_.linear_key_dim, 1, kMaxHeadDim, "ssm.state_size", "linear_key_head_dim");
    range(h_.linear_value_dim, 1, kMaxHeadDim, "ssm.inner_size (per value head)", "linear_value_head_dim");
    range(h_.conv_kernel, kMinKernel, kMaxKernel, "ssm.conv_kernel", "linear_conv_kernel_dim");
    if (!status_.ok()) return;
    multiple(h_.linear_value_heads, h_.linear_key_heads, "ssm.time_step_rank", "linear_num_value_heads",
             "ssm.group_count", "linear_num_key_heads");
    width(int64_t{2} * h_.linear_key_heads * h_.linear_key_dim + int64_t{h_.linear_value_heads} * h_.linear_value_dim,
          "ssm.* convolution width", "linear_* convolution width");
    width(int64_t{h_.linear_key_dim} * h_.linear_value_dim, "ssm.state_size times value head size",
          "linear_key_head_dim times linear_value_head_dim");
  }

  void experts() {
    range(h_.experts, 1, kMaxExperts, "expert_count", "num_experts");
    range(h_.experts_used, 1, h_.experts, "expert_used_count", "num_experts_per_tok");
    range(h_.expert_ff, 1, kMaxColumns, "expert_feed_forward_length", "moe_intermediate_size");
    range(h_.shared_ff, 1, kMaxColumns, "expert_shared_feed_forward_length", "shared_expert_intermediate_size");
  }

  void ple() {
    if (h_.ple.empty() || !status_.ok()) return;
    range(h_.ngram_size, kMinNgram, kMaxNgram, "ple.ngram_size", "ngram_size");
    range(h_.heads_per_ngram, 1, kMaxNgramHeads, "ple.heads_per_ngram", "heads_per_ngram");
    range(h_.ple_conv_kernel, kMinKernel, kMaxKernel, "ple.conv_kernel", "ple_conv_kernel_size");
    range(h_.ple_row_width, 1, kMaxColumns, "embedding_length_per_layer_input", "ple_embed_dim (per head)");
    range(h_.ple_eos, 0, h_.vocab - 1, "ple.eos_token_id", "eos_token_id");
    if (!status_.ok()) return;
    const int64_t heads = int64_t{h_.ngram_size - 1} * h_.heads_per_ngram;
    if (heads * static_cast<int64_t>(h_.ple.size()) > kMaxNgramHeads) {
      fail(key("ple.heads_per_ngram", "heads_per_ngram"), h_.heads_per_ngram,
           cat("at most ", kMaxNgramHeads, " n-gram heads over all layers"));
    }
    width(heads * h_.ple_row_width, "embedding_length_per_layer_input times n-gram heads", "ple_embed_dim");
    if (h_.ple_table_rows < 1 || h_.ple_table_rows > kMaxTableRows) {
      fail("the n-gram table (per_layer_token_embd.weight)", cat(h_.ple_table_rows, " rows long"),
           cat("1 to ", kMaxTableRows, " rows"));
    }
    int32_t previous = -1;
    for (const PleLayer& layer : h_.ple) {
      ple_layer(layer, previous, static_cast<size_t>(heads));
      previous = layer.layer;
    }
  }

  void ple_layer(const PleLayer& p, int32_t previous, size_t heads) {
    if (!status_.ok()) return;
    const std::string layers = key("ple.layers", "ple_layer_ids");
    // config.json counts from one.
    const int32_t shown = p.layer + (style_ == KeyStyle::config ? 1 : 0), first = style_ == KeyStyle::config ? 1 : 0;
    if (p.layer < 0 || p.layer >= h_.layers)
      return fail(layers, shown, cat("layers from ", first, " to ", h_.layers - 1 + first));
    if (p.layer <= previous) return fail(layers, shown, "ascending layers, each once");
    if (h_.layer_kind[static_cast<size_t>(p.layer)] != LayerKind::linear)
      return fail(layers, shown, "linear-attention layers");
    const std::string multipliers = key("ple.layer_multipliers", "ple_embedding.layer_multipliers");
    const std::string vocab = key("ple.head_vocab_sizes", "ple_embedding.ngram_heads_vocab_sizes");
    const std::string offsets = key("ple.head_offsets", "ple_embedding.ngram_heads_offsets");
    if (p.multipliers.size() != static_cast<size_t>(h_.ngram_size))
      return fail(multipliers, cat(p.multipliers.size(), " entries"), cat(h_.ngram_size, " for each PLE layer"));
    if (p.head_vocab.size() != heads)
      return fail(vocab, cat(p.head_vocab.size(), " entries"), cat(heads, " for each PLE layer"));
    if (p.head_offset.size() != heads)
      return fail(offsets, cat(p.head_offset.size(), " entries"), cat(heads, " for each PLE layer"));
    // Products of a multiplier and a token id stay below 2^63, so that signed and unsigned remainders agree.
    const uint64_t most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / static_cast<uint64_t>(h_.vocab);
    for (const uint64_t m : p.multipliers) {
      if (m < 1 || m > most) return fail(multipliers, m, cat("1 to ", most, " (2^63 divided by the vocabulary)"));
    }
    for (size_t i = 0; i < heads; ++i) {
      const uint64_t size = p.head_vocab[i], offset = p.head_offset[i];
      if (size < 1 || size > h_.ple_table_rows)
        return fail(vocab, cat(size, " at head ", i), cat("1 to the table's ", h_.ple_table_rows, " rows"));
      if (offset > h_.ple_table_rows - size) {
        return fail(offsets, cat(offset, " at head ", i),
                    cat("at most ", h_.ple_table_rows - size, ": the head has ", size, " rows and the table ",
                        h_.ple_table_rows));
      }
    }
  }

  const HyperParams& h_;
  std::string_view file_;
  KeyStyle style_;
  Status status_;
};

}  // namespace

Status validate(const HyperParams& hyper, std::string_view file, KeyStyle style) {
  return Validator(hyper, file, style).run();
}

}  // namespace evros::format
