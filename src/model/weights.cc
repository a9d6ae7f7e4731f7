#include "model/weights.h"

#include "base/str.h"
#include "format/expected_tensors.h"

namespace evros::model {
namespace {

using format::HyperParams;
using format::LayerKind;

// Collects the first error so that a list of bindings reads as a list.
class Binder {
 public:
  explicit Binder(TensorSource& source) : source_(source) {}

  void operator()(Matrix& matrix, const std::string& name) {
    if (!status_.ok()) return;
    auto found = source_.matrix(name);
    if (found.ok())
      matrix = *found;
    else
      status_ = found.error();
    const std::string scale = format::outer_scale_name(name);
    if (source_.has(scale)) (*this)(matrix.scale, scale);
  }
  void operator()(const float*& vector, const std::string& name) {
    if (!status_.ok()) return;
    auto found = source_.vector(name);
    if (found.ok())
      vector = *found;
    else
      status_ = found.error();
  }
  void operator()(Experts& experts, int32_t count, const std::string& name) {
    (*this)(experts.matrix, name);
    if (!status_.ok()) return;
    CHECK(experts.matrix.rows % count == 0);
    experts.matrix.rows /= count;
    experts.expert_bytes = experts.matrix.rows * experts.matrix.row_bytes;
  }
  const Status& status() const { return status_; }

 private:
  TensorSource& source_;
  Status status_;
};

void bind_hyper_connection(Binder& bind, HyperConnection& hc, const std::string& prefix, bool inject) {
  bind(hc.norm, prefix + "_norm.weight");
  bind(hc.down, prefix + "_down.weight");
  bind(hc.up, prefix + "_up.weight");
  if (inject) bind(hc.inject, prefix + "_inject.weight");
}

void bind_gdn(Binder& bind, GdnWeights& gdn, const std::string& blk) {
  bind(gdn.qkv, blk + "attn_qkv.weight");
  bind(gdn.z, blk + "attn_gate.weight");
  bind(gdn.beta, blk + "ssm_beta.weight");
  bind(gdn.alpha, blk + "ssm_alpha.weight");
  bind(gdn.out, blk + "ssm_out.weight");
  bind(gdn.conv, blk + "ssm_conv1d.weight");
  bind(gdn.a, blk + "ssm_a");
  bind(gdn.dt, blk + "ssm_dt.bias");
  bind(gdn.norm, blk + "ssm_norm.weight");
}

void bind_attention(Binder& bind, AttentionWeights& attention, const std::string& blk, bool indexer) {
  bind(attention.q, blk + "attn_q.weight");
  bind(attention.k, blk + "attn_k.weight");
  bind(attention.v, blk + "attn_v.weight");
  bind(attention.out, blk + "attn_output.weight");
  bind(attention.q_norm, blk + "attn_q_norm.weight");
  bind(attention.k_norm, blk + "attn_k_norm.weight");
  if (!indexer) return;
  bind(attention.index_q, blk + "indexer.q_proj.weight");
  bind(attention.index_k, blk + "indexer.k_proj.weight");
  bind(attention.index_q_norm, blk + "indexer.q_norm.weight");
  bind(attention.index_k_norm, blk + "indexer.k_norm.weight");
}

void bind_moe(Binder& bind, MoeWeights& moe, int32_t experts, const std::string& blk) {
  bind(moe.router, blk + "ffn_gate_inp.weight");
  bind(moe.gate, experts, blk + "ffn_gate_exps.weight");
  bind(moe.up, experts, blk + "ffn_up_exps.weight");
  bind(moe.down, experts, blk + "ffn_down_exps.weight");
  bind(moe.shared_router, blk + "ffn_gate_inp_shexp.weight");
  bind(moe.shared_gate, blk + "ffn_gate_shexp.weight");
  bind(moe.shared_up, blk + "ffn_up_shexp.weight");
  bind(moe.shared_down, blk + "ffn_down_shexp.weight");
}

void bind_layer(Binder& bind, LayerWeights& layer, const HyperParams& hyper, LayerKind kind, bool indexer,
                const std::string& blk) {
  bind_hyper_connection(bind, layer.attn, blk + "hc_attn", true);
  bind_hyper_connection(bind, layer.ffn, blk + "hc_ffn", true);
  if (kind == LayerKind::linear)
    bind_gdn(bind, layer.gdn, blk);
  else
    bind_attention(bind, layer.attention, blk, indexer);
  bind_moe(bind, layer.moe, hyper.experts, blk);
}

void bind_ple(Binder& bind, PleWeights& ple, const std::string& blk) {
  bind(ple.key, blk + "ple_key.weight");
  bind(ple.value, blk + "ple_value.weight");
  bind(ple.norm_key, blk + "ple_norm_key.weight");
  bind(ple.norm_query, blk + "ple_norm_query.weight");
  bind(ple.norm_conv, blk + "ple_norm_conv.weight");
  bind(ple.conv, blk + "ple_conv1d.weight");
}

// The head attends densely (docs/model.md section 3), so its indexer is left on disk.
void bind_mtp(Binder& bind, MtpWeights& mtp, const HyperParams& hyper) {
  const std::string blk = cat("blk.", hyper.layers, ".");
  bind(mtp.embed_norm, blk + "nextn.enorm.weight");
  bind(mtp.hidden_norm, blk + "nextn.hnorm.weight");
  bind(mtp.eh_proj, blk + "nextn.eh_proj.weight");
  bind_layer(bind, mtp.layer, hyper, LayerKind::full, false, blk);
  bind_hyper_connection(bind, mtp.head, blk + "nextn.hc_head", false);
}

}  // namespace

Result<Weights> bind(const HyperParams& hyper, bool draft_head, TensorSource& source) {
  Weights weights;
  Binder bind(source);
  bind(weights.embed, "token_embd.weight");
  if (hyper.tied_embeddings)
    weights.output = weights.embed;
  else
    bind(weights.output, "output.weight");
  bind_hyper_connection(bind, weights.head, "output_hc", false);
  weights.layers.resize(static_cast<size_t>(hyper.layers));
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    bind_layer(bind, weights.layers[i], hyper, hyper.layer_kind[i], hyper.compress_ratio[i] > 0, cat("blk.", i, "."));
  }
  weights.ple.resize(hyper.ple.size());
  for (size_t i = 0; i < hyper.ple.size(); ++i) bind_ple(bind, weights.ple[i], cat("blk.", hyper.ple[i].layer, "."));
  if (draft_head && hyper.mtp_layers > 0) bind_mtp(bind, weights.mtp.emplace(), hyper);
  if (!bind.status().ok()) return bind.status().error();
  return weights;
}

}  // namespace evros::model
