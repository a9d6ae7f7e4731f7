// The dimensions of a Qwen4-Exp model, read from GGUF metadata or config.json and validated; nothing in Evros assumes
// one. Names follow docs/model.md. Plain data: whoever holds a HyperParams from a reader may rely on every rule written
// here.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evros::format {

enum class LayerKind : uint8_t { linear, full };  // Gated DeltaNet, or gated attention with QSA
enum class GateActivation : uint8_t { sigmoid, silu };

/// The n-gram embedding (PLE) in front of one layer. Multipliers, primes and offsets belong to each PLE layer.
struct PleLayer {
  int32_t layer = 0;                  // runtime layer index, zero-based; a linear layer; ascending in the list
  std::vector<uint64_t> multipliers;  // [ngram_size], multiplier of the current token first; each below 2^63 / vocab
  std::vector<uint64_t> head_vocab;   // [heads] primes, head = (order - 2) * heads_per_ngram + i
  /// [heads] first row of each head in the (concatenated) table; every head's range lies inside it.
  std::vector<uint64_t> head_offset;
};

struct HyperParams {
  int32_t layers = 0;  // trunk layers, without the MTP block
  int32_t hidden = 0;
  int32_t vocab = 0;
  int64_t context_length = 0;  // positions the model was made for
  float rms_eps = 0;
  std::vector<LayerKind> layer_kind;     // [layers]
  bool tied_embeddings = false;          // logits = token_embd . u
  int32_t hc_count = 0, hc_lowrank = 0;  // residual streams (>= 1), rank of the gate

  // Full layers.
  int32_t heads = 0, kv_heads = 0;  // heads is a multiple of kv_heads
  /// Per head, equal: attn_q gives each head key_dim of query, then as much of output gate.
  int32_t key_dim = 0, value_dim = 0;
  int32_t rope_dims = 0;  // even, <= key_dim and <= index_dim
  double rope_theta = 0;
  std::array<int32_t, 4> rope_sections{};
  int32_t index_heads = 0, index_dim = 0;
  int32_t index_budget = 0;  // tokens
  /// [layers] tokens per index block; 0 on linear layers and on dense full layers. The MTP block is dense.
  std::vector<int32_t> compress_ratio;

  // Linear layers.
  int32_t linear_key_heads = 0, linear_value_heads = 0;  // value heads are a multiple of key heads
  int32_t linear_key_dim = 0, linear_value_dim = 0;
  int32_t conv_kernel = 0;
  GateActivation output_gate = GateActivation::sigmoid;

  // Mixture of experts, every layer.
  int32_t experts = 0, experts_used = 0, expert_ff = 0, shared_ff = 0;
  bool norm_topk_prob = true;

  // PLE. With no PLE layer all of these are 0.
  std::vector<PleLayer> ple;
  int32_t ngram_size = 0, heads_per_ngram = 0, ple_conv_kernel = 0;
  int32_t ple_row_width = 0;    // columns of the table; the embedding has ple_heads() * ple_row_width
  int64_t ple_eos = 0;          // cuts the n-gram window (model.md 2.8); not the chat's end of turn
  uint64_t ple_table_rows = 0;  // rows of the (concatenated) table

  // MTP draft head: 0, or 1 when the file carries it as block `layers`.
  int32_t mtp_layers = 0;

  int32_t ple_heads() const { return (ngram_size - 1) * heads_per_ngram; }
  int32_t ple_embed_dim() const { return ple_heads() * ple_row_width; }
  int32_t wide() const { return hc_count * hidden; }
  /// Channels of the linear layers' convolution: q | k | v.
  int32_t conv_channels() const {
    return 2 * linear_key_heads * linear_key_dim + linear_value_heads * linear_value_dim;
  }
};

/// How a container spells the keys, for messages: "qwen4exp.embedding_length" or "hidden_size".
enum class KeyStyle : uint8_t { gguf, config };

/// Checks every rule of this header, and bounds each dimension so that no product of dimensions that Evros forms can
/// leave 63 bits (and no row length, head count or channel count 31 bits). The one gate through which both readers go.
/// The error names `file`, the key in the container's spelling, the value seen and the value wanted.
///
/// Bounds beyond the meaning: 1,024 layers, 2^20 columns, 2^28 tokens, 64 streams, 65,536 experts, n-grams of 2 to 8
/// tokens, 4,096 n-gram heads over all layers, convolutions of 2 to 64 taps. One stream (hc_count 1) is valid.
Status validate(const HyperParams& hyper, std::string_view file, KeyStyle style);

}  // namespace evros::format
