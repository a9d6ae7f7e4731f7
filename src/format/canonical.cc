#include "format/canonical.h"

#include <algorithm>
#include <unordered_map>

#include "base/str.h"
#include "format/checkpoint_names.h"
#include "format/expected_tensors.h"
#include "format/stored_model.h"

namespace evros::format {
namespace {

using Shape = std::vector<uint64_t>;

/// Builds each GGUF tensor from the checkpoint's. Sizes are unsigned here, as shapes of files are.
class Canonicaliser {
 public:
  Canonicaliser(const SafeTensors& stored, const HyperParams& hyper) : h_(hyper), names_(stored) {
    for (const TensorShape& shape : expected_tensors(hyper)) expected_.emplace(shape.name, shape);
  }

  Result<std::vector<Tensor>> run(const std::string& path) {
    const std::string& p = names_.prefix();
    plain("token_embd.weight", p + "embed_tokens.weight", {vocab_, hidden_});
    if (!h_.tied_embeddings)
      plain("output.weight", names_.has("lm_head.weight") ? "lm_head.weight" : "language_model.lm_head.weight",
            {vocab_, hidden_});
    read_gate("output_hc_", p + "hyper_connection_mixer.");
    for (int32_t i = 0; i < h_.layers; ++i) trunk_block(i);
    table();
    if (h_.mtp_layers > 0) mtp();
    names_.refuse_unused(h_.mtp_layers > 0, h_.tied_embeddings);
    if (!names_.problems().empty()) return names_.problems().error(Code::bad_file, path);
    return std::move(out_);
  }

 private:
  static uint64_t u(int64_t n) { return static_cast<uint64_t>(n); }

  /// A new canonical tensor of the stored tensor's type, without pieces yet.
  Tensor& start(const std::string& name, const SafeTensor& first, Derive derive) {
    const TensorShape& shape = expected_.at(name);
    Tensor& tensor = out_.emplace_back();
    tensor.name = name;
    tensor.type = *first.type();
    tensor.ne = shape.ne;
    tensor.dims = shape.dims;
    tensor.derive = derive;
    tensor.stored_name = first.name;
    return tensor;
  }
  static void append(Tensor& tensor, const SafeTensor& from, uint64_t offset, uint64_t bytes) {
    append_piece(tensor.pieces, {from.file, from.offset + offset, bytes});
  }
  /// Tensors that become one must be of one type.
  bool same_type(const SafeTensor& a, const SafeTensor& b) {
    if (a.dtype == b.dtype) return true;
    names_.problems().add(
        cat("tensor ", quoted(b.name), " is ", b.dtype, "; wanted ", a.dtype, " as ", quoted(a.name), " is"));
    return false;
  }

  void plain(const std::string& name, const std::string& stored_name, const Shape& shape,
             Derive derive = Derive::none) {
    const SafeTensor* stored = names_.need(stored_name, shape);
    if (stored == nullptr) return;
    append(start(name, *stored, derive), *stored, 0, stored->bytes);
  }
  void gain(const std::string& name, const std::string& stored_name, uint64_t n) {
    plain(name, stored_name, {n}, Derive::plus_one);
  }

  /// `fixed` leading rows, then value heads of `rows_per_head` rows from the checkpoint's grouped order (head g * r + i
  /// belongs to key head g) to GGUF's tiled order (head i * key_heads + g): docs/model.md 2.5.
  void value_heads(const std::string& name, const std::string& stored_name, const Shape& shape, uint64_t fixed,
                   uint64_t rows_per_head, Derive derive = Derive::none) {
    const SafeTensor* stored = names_.need(stored_name, shape);
    if (stored == nullptr) return;
    Tensor& tensor = start(name, *stored, derive);
    const uint64_t row = stored->bytes / shape[0], head = row * rows_per_head;
    if (fixed > 0) append(tensor, *stored, 0, fixed * row);
    const uint64_t key_heads = u(h_.linear_key_heads), repeat = u(h_.linear_value_heads) / key_heads;
    for (uint64_t i = 0; i < repeat; ++i) {
      for (uint64_t g = 0; g < key_heads; ++g) append(tensor, *stored, fixed * row + (g * repeat + i) * head, head);
    }
  }

  void read_gate(const std::string& name, const std::string& stored) {
    gain(name + "norm.weight", stored + "hc_norm.weight", wide_);
    plain(name + "down.weight", stored + "input_mix_weight_down.weight", {lowrank_, wide_});
    plain(name + "up.weight", stored + "input_mix_weight_up.weight", {wide_, lowrank_});
  }
  void hyper_connection(const std::string& name, const std::string& stored) {
    read_gate(name, stored);
    plain(name + "inject.weight", stored + "block_inject_weight.weight", {u(h_.hc_count), wide_});
  }

  void trunk_block(int32_t layer) {
    const std::string b = cat("blk.", layer, '.'), s = cat(names_.prefix(), "layers.", layer, '.');
    hyper_connection(b + "hc_attn_", s + "attn_hyper_connection.");
    hyper_connection(b + "hc_ffn_", s + "mlp_hyper_connection.");
    if (h_.layer_kind[static_cast<size_t>(layer)] == LayerKind::linear) {
      linear(b, s + "linear_attn.");
    } else {
      full(b, s + "self_attn.");
    }
    moe(b, s + "mlp.");
    const bool has_ple = std::any_of(h_.ple.begin(), h_.ple.end(), [&](const PleLayer& p) { return p.layer == layer; });
    if (has_ple) ple(b, s + "ple.");
  }

  void linear(const std::string& b, const std::string& s) {
    const uint64_t value_heads_n = u(h_.linear_value_heads), value_dim = u(h_.linear_value_dim),
                   inner = value_heads_n * value_dim;
    const uint64_t channels = u(h_.conv_channels()), fixed = channels - inner;
    value_heads(b + "attn_qkv.weight", s + "in_proj_qkv.weight", {channels, hidden_}, fixed, value_dim);
    value_heads(b + "attn_gate.weight", s + "in_proj_z.weight", {inner, hidden_}, 0, value_dim);
    value_heads(b + "ssm_conv1d.weight", s + "conv1d.weight", {channels, 1, u(h_.conv_kernel)}, fixed, value_dim);
    value_heads(b + "ssm_dt.bias", s + "dt_bias", {value_heads_n}, 0, 1);
    value_heads(b + "ssm_a", s + "A_log", {value_heads_n}, 0, 1, Derive::neg_exp);
    value_heads(b + "ssm_beta.weight", s + "in_proj_b.weight", {value_heads_n, hidden_}, 0, 1);
    value_heads(b + "ssm_alpha.weight", s + "in_proj_a.weight", {value_heads_n, hidden_}, 0, 1);
    plain(b + "ssm_norm.weight", s + "norm.weight", {value_dim});
    const SafeTensor* out = names_.need(s + "out_proj.weight", {hidden_, inner});
    if (out == nullptr) return;
    Tensor& tensor = start(b + "ssm_out.weight", *out, Derive::none);
    append(tensor, *out, 0, out->bytes);
    const auto key_heads = static_cast<uint32_t>(h_.linear_key_heads),
               repeat = static_cast<uint32_t>(h_.linear_value_heads) / key_heads;
    if (repeat > 1 && key_heads > 1) tensor.columns = {key_heads, repeat, static_cast<uint32_t>(value_dim)};
  }

  void full(const std::string& b, const std::string& s) {
    const uint64_t q = u(h_.heads) * u(h_.key_dim), kv = u(h_.kv_heads) * u(h_.key_dim);
    plain(b + "attn_q.weight", s + "q_proj.weight", {2 * q, hidden_});
    plain(b + "attn_k.weight", s + "k_proj.weight", {kv, hidden_});
    plain(b + "attn_v.weight", s + "v_proj.weight", {kv, hidden_});
    plain(b + "attn_output.weight", s + "o_proj.weight", {hidden_, q});
    gain(b + "attn_q_norm.weight", s + "q_norm.weight", u(h_.key_dim));
    gain(b + "attn_k_norm.weight", s + "k_norm.weight", u(h_.key_dim));
    const auto wanted = expected_.find(b + "indexer.q_proj.weight");
    const std::string qk = s + "indexer.index_qk_proj.weight";
    if (wanted == expected_.end() || (wanted->second.optional && !names_.has(qk))) return;
    const uint64_t dim = u(h_.index_dim), query = u(h_.index_heads) * dim;
    if (const SafeTensor* both = names_.need(qk, {query + dim, hidden_})) {
      const uint64_t row = both->bytes / (query + dim);
      append(start(b + "indexer.q_proj.weight", *both, Derive::none), *both, 0, query * row);
      append(start(b + "indexer.k_proj.weight", *both, Derive::none), *both, query * row, dim * row);
    }
    gain(b + "indexer.q_norm.weight", s + "indexer.q_layernorm.weight", dim);
    gain(b + "indexer.k_norm.weight", s + "indexer.k_layernorm.weight", dim);
  }

  void moe(const std::string& b, const std::string& s) {
    const uint64_t ff = u(h_.expert_ff), shared = u(h_.shared_ff);
    plain(b + "ffn_gate_inp.weight", s + "gate.weight", {u(h_.experts), hidden_});
    if (names_.has(s + "experts.gate_up_proj")) {
      fused_experts(b, s);
    } else {
      single_experts(b + "ffn_gate_exps.weight", s, ".gate_proj.weight", {ff, hidden_});
      single_experts(b + "ffn_up_exps.weight", s, ".up_proj.weight", {ff, hidden_});
      single_experts(b + "ffn_down_exps.weight", s, ".down_proj.weight", {hidden_, ff});
    }
    plain(b + "ffn_gate_inp_shexp.weight", s + "shared_expert_gate.weight", {1, hidden_});
    plain(b + "ffn_gate_shexp.weight", s + "shared_expert.gate_proj.weight", {shared, hidden_});
    plain(b + "ffn_up_shexp.weight", s + "shared_expert.up_proj.weight", {shared, hidden_});
    plain(b + "ffn_down_shexp.weight", s + "shared_expert.down_proj.weight", {hidden_, shared});
  }

  /// gate_up_proj holds, expert by expert, the gate's rows and then the up rows.
  void fused_experts(const std::string& b, const std::string& s) {
    const uint64_t experts = u(h_.experts), ff = u(h_.expert_ff);
    if (const SafeTensor* both = names_.need(s + "experts.gate_up_proj", {experts, 2 * ff, hidden_})) {
      const uint64_t half = both->bytes / experts / 2;
      for (const uint64_t which : {0, 1}) {
        Tensor& tensor = start(b + (which == 0 ? "ffn_gate_exps.weight" : "ffn_up_exps.weight"), *both, Derive::none);
        for (uint64_t e = 0; e < experts; ++e) append(tensor, *both, (2 * e + which) * half, half);
      }
    }
    plain(b + "ffn_down_exps.weight", s + "experts.down_proj", {experts, hidden_, ff});
  }

  void single_experts(const std::string& name, const std::string& s, const char* end, const Shape& shape) {
    std::vector<const SafeTensor*> parts;
    for (int32_t e = 0; e < h_.experts; ++e) {
      const SafeTensor* part = names_.need(cat(s, "experts.", e, end), shape);
      if (part != nullptr && (parts.empty() || same_type(*parts[0], *part))) parts.push_back(part);
    }
    concatenate(name, parts, static_cast<size_t>(h_.experts));
  }

  /// The parts one after the other, if all `wanted` are there.
  void concatenate(const std::string& name, const std::vector<const SafeTensor*>& parts, size_t wanted) {
    if (parts.size() != wanted || parts.empty()) return;
    Tensor& tensor = start(name, *parts[0], Derive::none);
    for (const SafeTensor* part : parts) append(tensor, *part, 0, part->bytes);
  }

  void ple(const std::string& b, const std::string& s) {
    for (const char* buffer : {"layer_multipliers", "ngram_heads_vocab_sizes", "ngram_heads_offsets"})
      names_.take(cat(s, "ple_embedding.", buffer));
    const uint64_t embed = u(h_.ple_embed_dim());
    plain(b + "ple_key.weight", s + "key_proj.weight", {wide_, embed});
    plain(b + "ple_value.weight", s + "value_proj.weight", {hidden_, embed});
    gain(b + "ple_norm_key.weight", s + "norm_key.weight", wide_);
    gain(b + "ple_norm_query.weight", s + "norm_query.weight", wide_);
    gain(b + "ple_norm_conv.weight", s + "norm_conv.weight", wide_);
    plain(b + "ple_conv1d.weight", s + "conv1d.weight", {wide_, 1, u(h_.ple_conv_kernel)});
  }

  void table() {
    std::vector<const SafeTensor*> parts;
    size_t wanted = 0;
    for (const PleLayer& layer : h_.ple) {
      for (const SafeTensor* shard : names_.table_shards(cat(names_.prefix(), "layers.", layer.layer, ".ple."))) {
        ++wanted;
        const SafeTensor* part = names_.need(shard->name, {shard->shape[0], u(h_.ple_row_width)});
        if (part != nullptr && (parts.empty() || same_type(*parts[0], *part))) parts.push_back(part);
      }
    }
    if (wanted > 0) concatenate("per_layer_token_embd.weight", parts, wanted);
  }

  void mtp() {
    const std::string b = cat("blk.", h_.layers, '.');
    const SafeTensor* embedding = names_.need("mtp.fc_embedding.weight", {hidden_, hidden_});
    const SafeTensor* state = names_.need("mtp.fc_hidden.weight", {hidden_, hidden_});
    if (embedding != nullptr && state != nullptr && same_type(*embedding, *state)) {
      Tensor& tensor = start(b + "nextn.eh_proj.weight", *embedding, Derive::none);
      const uint64_t row = embedding->bytes / hidden_;
      for (uint64_t i = 0; i < hidden_; ++i) {
        append(tensor, *embedding, i * row, row);
        append(tensor, *state, i * row, row);
      }
    }
    gain(b + "nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight", hidden_);
    gain(b + "nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight", wide_);
    read_gate(b + "nextn.hc_head_", "mtp.hyper_connection_mixer.");
    hyper_connection(b + "hc_attn_", "mtp.layers.0.attn_hyper_connection.");
    hyper_connection(b + "hc_ffn_", "mtp.layers.0.mlp_hyper_connection.");
    full(b, "mtp.layers.0.self_attn.");
    moe(b, "mtp.layers.0.mlp.");
  }

  const HyperParams& h_;
  CheckpointNames names_;
  std::unordered_map<std::string, TensorShape> expected_;
  std::vector<Tensor> out_;
  const uint64_t hidden_ = u(h_.hidden), vocab_ = u(h_.vocab), wide_ = u(h_.wide()), lowrank_ = u(h_.hc_lowrank);
};

}  // namespace

Result<std::vector<Tensor>> canonical_tensors(const SafeTensors& stored, const HyperParams& hyper,
                                              const std::string& path) {
  return Canonicaliser(stored, hyper).run(path);
}

}  // namespace evros::format
