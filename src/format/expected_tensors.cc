#include "format/expected_tensors.h"

#include <algorithm>
#include <unordered_map>

#include "base/str.h"
#include "format/message.h"

namespace evros::format {
namespace {

class Lister {
 public:
  explicit Lister(const HyperParams& hyper) : h_(hyper) {}

  std::vector<TensorShape> run() {
    big("token_embd.weight", h_.hidden, h_.vocab);
    if (!h_.tied_embeddings) big("output.weight", h_.hidden, h_.vocab);
    read_gate("output_hc_");
    for (int32_t layer = 0; layer < h_.layers; ++layer) block(layer);
    if (h_.mtp_layers > 0) mtp();
    return std::move(list_);
  }

 private:
  TensorShape& add(std::string name, int64_t ne0, int64_t ne1, int64_t ne2, int dims) {
    const auto n = [](int64_t v) { return static_cast<uint64_t>(v); };
    list_.push_back({std::move(name), {n(ne0), n(ne1), n(ne2), 1}, dims, false, false});
    return list_.back();
  }
  TensorShape& big(std::string name, int64_t in, int64_t out) { return add(std::move(name), in, out, 1, 2); }
  void experts(std::string name, int64_t in, int64_t out) { add(std::move(name), in, out, h_.experts, 3); }
  TensorShape& small(std::string name, int64_t in, int64_t out) {
    TensorShape& shape = big(std::move(name), in, out);
    shape.small = true;
    return shape;
  }
  TensorShape& vector(std::string name, int64_t n) {
    TensorShape& shape = add(std::move(name), n, 1, 1, 1);
    shape.small = true;
    return shape;
  }

  /// The part of a hyper-connection that reads the streams.
  void read_gate(const std::string& prefix) {
    vector(prefix + "norm.weight", h_.wide());
    big(prefix + "down.weight", h_.wide(), h_.hc_lowrank);
    big(prefix + "up.weight", h_.hc_lowrank, h_.wide());
  }
  void hyper_connection(const std::string& prefix) {
    read_gate(prefix);
    small(prefix + "inject.weight", h_.wide(), h_.hc_count);
  }

  void block(int32_t layer) {
    const std::string b = cat("blk.", layer, '.');
    const auto i = static_cast<size_t>(layer);
    hyper_connection(b + "hc_attn_");
    hyper_connection(b + "hc_ffn_");
    if (h_.layer_kind[i] == LayerKind::linear) {
      linear(b);
    } else {
      full(b, h_.compress_ratio[i] == 0);
    }
    moe(b);
    const auto found = std::find_if(h_.ple.begin(), h_.ple.end(), [&](const PleLayer& p) { return p.layer == layer; });
    if (found == h_.ple.end()) return;
    ple(b);
    if (found == h_.ple.begin())
      big("per_layer_token_embd.weight", h_.ple_row_width, static_cast<int64_t>(h_.ple_table_rows));
  }

  void linear(const std::string& b) {
    const int64_t inner = int64_t{h_.linear_value_heads} * h_.linear_value_dim;
    big(b + "attn_qkv.weight", h_.hidden, h_.conv_channels());
    big(b + "attn_gate.weight", h_.hidden, inner);
    small(b + "ssm_conv1d.weight", h_.conv_kernel, h_.conv_channels());
    vector(b + "ssm_dt.bias", h_.linear_value_heads);
    vector(b + "ssm_a", h_.linear_value_heads);
    big(b + "ssm_beta.weight", h_.hidden, h_.linear_value_heads);
    big(b + "ssm_alpha.weight", h_.hidden, h_.linear_value_heads);
    vector(b + "ssm_norm.weight", h_.linear_value_dim);
    big(b + "ssm_out.weight", inner, h_.hidden);
  }

  void full(const std::string& b, bool dense) {
    big(b + "attn_q.weight", h_.hidden, int64_t{2} * h_.heads * h_.key_dim);
    big(b + "attn_k.weight", h_.hidden, int64_t{h_.kv_heads} * h_.key_dim);
    big(b + "attn_v.weight", h_.hidden, int64_t{h_.kv_heads} * h_.value_dim);
    big(b + "attn_output.weight", int64_t{h_.heads} * h_.value_dim, h_.hidden);
    vector(b + "attn_q_norm.weight", h_.key_dim);
    vector(b + "attn_k_norm.weight", h_.key_dim);
    if (h_.index_heads == 0 || h_.index_dim == 0) return;
    big(b + "indexer.q_proj.weight", h_.hidden, int64_t{h_.index_heads} * h_.index_dim).optional = dense;
    big(b + "indexer.k_proj.weight", h_.hidden, h_.index_dim).optional = dense;
    vector(b + "indexer.q_norm.weight", h_.index_dim).optional = dense;
    vector(b + "indexer.k_norm.weight", h_.index_dim).optional = dense;
  }

  void moe(const std::string& b) {
    big(b + "ffn_gate_inp.weight", h_.hidden, h_.experts).small = true;
    experts(b + "ffn_gate_exps.weight", h_.hidden, h_.expert_ff);
    experts(b + "ffn_up_exps.weight", h_.hidden, h_.expert_ff);
    experts(b + "ffn_down_exps.weight", h_.expert_ff, h_.hidden);
    vector(b + "ffn_gate_inp_shexp.weight", h_.hidden);
    big(b + "ffn_gate_shexp.weight", h_.hidden, h_.shared_ff);
    big(b + "ffn_up_shexp.weight", h_.hidden, h_.shared_ff);
    big(b + "ffn_down_shexp.weight", h_.shared_ff, h_.hidden);
  }

  void ple(const std::string& b) {
    big(b + "ple_key.weight", h_.ple_embed_dim(), h_.wide());
    big(b + "ple_value.weight", h_.ple_embed_dim(), h_.hidden);
    vector(b + "ple_norm_key.weight", h_.wide());
    vector(b + "ple_norm_query.weight", h_.wide());
    vector(b + "ple_norm_conv.weight", h_.wide());
    small(b + "ple_conv1d.weight", h_.ple_conv_kernel, h_.wide());
  }

  void mtp() {
    const std::string b = cat("blk.", h_.layers, '.');
    big(b + "nextn.eh_proj.weight", int64_t{2} * h_.hidden, h_.hidden);
    vector(b + "nextn.enorm.weight", h_.hidden);
    vector(b + "nextn.hnorm.weight", h_.wide());
    read_gate(b + "nextn.hc_head_");
    hyper_connection(b + "hc_attn_");
    hyper_connection(b + "hc_ffn_");
    full(b, true);
    moe(b);
  }

  const HyperParams& h_;
  std::vector<TensorShape> list_;
};

bool is_plain_float(TensorType type) {
  return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16;
}

/// Types that hold weights: floats and every block format but the two that only carry activations.
bool is_weight_type(TensorType type) {
  return is_plain_float(type) || (type_info(type).quantised && type != TensorType::q8_1 && type != TensorType::q8_k);
}

/// A trailing "1 x" may be written or left out: what counts is the padded shape.
bool same_shape(const TensorShape& wanted, const Tensor& seen) { return wanted.ne == seen.ne; }

bool is_known_extra(const HyperParams& hyper, std::string_view name) {
  const std::string b = cat("blk.", hyper.layers, ".nextn.");
  if (hyper.mtp_layers == 0) return false;
  return name == b + "embed_tokens.weight" || name == b + "shared_head_head.weight";
}

const std::string& stored_name(const Tensor& tensor) {
  return tensor.stored_name.empty() ? tensor.name : tensor.stored_name;
}

void check_one(const TensorShape& wanted, const Tensor& seen, Problems& problems) {
  const auto dims = [](const auto& t) { return std::span(t.ne).first(static_cast<size_t>(t.dims)); };
  const std::string which = stored_name(seen) == seen.name
                                ? quoted(seen.name)
                                : cat(quoted(seen.name), " (stored as ", quoted(seen.stored_name), ")");
  if (!same_shape(wanted, seen)) {
    problems.add(cat("tensor ", which, " has shape ", shape_text(dims(seen)), "; wanted ", shape_text(dims(wanted))));
  }
  if (!is_weight_type(seen.type) || (wanted.small && !is_plain_float(seen.type)))
    problems.add_type(stored_name(seen), seen.type);
}

/// `name` with `ending` in place of "weight", back to the weight's name; empty when it ends otherwise.
std::string weight_of(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return {};
  return cat(name.substr(0, name.size() - ending.size()), ".weight");
}

/// Of a tensor that is not expected: is it a scale of a matrix, one number or one for each expert? Tables have none.
class Scales {
 public:
  explicit Scales(std::span<const TensorShape> expected) {
    for (const TensorShape& shape : expected) {
      const bool is_table = shape.name.ends_with("token_embd.weight");
      if (shape.dims > 1 && !shape.small && !is_table) of_matrix_[shape.name] = shape.dims == 3 ? shape.ne[2] : 1;
    }
  }
  bool is_scale(const Tensor& tensor) const {
    for (const char* ending : {".scale", ".input_scale"}) {
      const auto found = of_matrix_.find(weight_of(tensor.name, ending));
      if (found == of_matrix_.end()) continue;
      return tensor.ne == std::array<uint64_t, 4>{found->second, 1, 1, 1} && is_plain_float(tensor.type);
    }
    return false;
  }

 private:
  std::unordered_map<std::string, uint64_t> of_matrix_;  // how many scales
};

}  // namespace

std::string outer_scale_name(std::string_view weight) {
  constexpr std::string_view kEnding = "weight";
  if (!weight.ends_with(kEnding)) return {};
  return cat(weight.substr(0, weight.size() - kEnding.size()), "scale");
}

std::vector<TensorShape> expected_tensors(const HyperParams& hyper) { return Lister(hyper).run(); }

Status check_tensors(const HyperParams& hyper, std::span<const Tensor> tensors, std::string_view path,
                     Problems problems) {
  std::unordered_map<std::string_view, const Tensor*> unclaimed;
  for (const Tensor& tensor : tensors) {
    if (unclaimed.emplace(tensor.name, &tensor).second) continue;
    problems.add(cat("tensor ", quoted(tensor.name), " is there twice (a fused tensor beside its parts?)"));
  }
  const std::vector<TensorShape> expected = expected_tensors(hyper);
  for (const TensorShape& wanted : expected) {
    const auto found = unclaimed.find(wanted.name);
    if (found == unclaimed.end()) {
      if (!wanted.optional) problems.add_tensor(wanted.name, "is missing", "are missing");
      continue;
    }
    check_one(wanted, *found->second, problems);
    unclaimed.erase(found);
  }
  const Scales scales(expected);
  for (const Tensor& tensor : tensors) {
    if (!unclaimed.contains(tensor.name) || is_known_extra(hyper, tensor.name) || scales.is_scale(tensor)) continue;
    const bool is_scale = tensor.name.ends_with("scale");
    problems.add(
        cat("tensor ", quoted(tensor.name),
            is_scale ? " is not one plain number for a matrix, or for each of its experts, that this build multiplies"
                     : " is unknown to this build and cannot be left out"));
  }
  if (problems.empty()) return {};
  // Weights without a kernel are only refused when the model is run; whoever mends the file wants to know of them now.
  for (const Tensor& tensor : tensors) {
    if (is_weight_type(tensor.type) && !can_run(tensor.type)) problems.add_type(stored_name(tensor), tensor.type);
  }
  return problems.error(Code::bad_file, path);
}

}  // namespace evros::format
