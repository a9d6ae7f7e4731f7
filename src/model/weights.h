// The weights of a model, bound by name to the tensors of docs/model.md 4.1. Views only: the memory belongs to whoever
// loaded it (engine/weight_loader). Vectors are float32 with their derivations applied (1 + w, -exp); matrices are as stored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/hyper_params.h"
#include "kernels/kernels.h"

namespace evros::model {

using kernels::Matrix;

/// Gated residual of one place (attn, ffn, head). The head's mixer has no inject.
struct HyperConnection {
  const float* norm = nullptr;  // [hc*hidden]
  Matrix down, up, inject;      // [rank][wide], [wide][rank], [hc][wide]
};

struct GdnWeights {
  Matrix qkv, z, beta, alpha, out;
  const float *conv = nullptr, *a = nullptr, *dt = nullptr, *norm = nullptr;  // [channels][kernel], [nv], [nv], [vd]
};

struct AttentionWeights {
  Matrix q, k, v, out;  // q rows: per head key_dim of query, then value_dim of gate
  const float *q_norm = nullptr, *k_norm = nullptr;
  Matrix index_q, index_k;  // unset on a dense layer without an indexer
  const float *index_q_norm = nullptr, *index_k_norm = nullptr;
};

/// The matrices of all experts of a layer: expert e starts at matrix.data + e * expert_bytes, and has scale e.
struct Experts {
  Matrix matrix;
  int64_t expert_bytes = 0;
};

struct MoeWeights {
  Matrix router;
  Experts gate, up, down;
  Matrix shared_router, shared_gate, shared_up, shared_down;
};

struct PleWeights {
  Matrix key, value;
  const float *norm_key = nullptr, *norm_query = nullptr, *norm_conv = nullptr, *conv = nullptr;
};

struct LayerWeights {
  HyperConnection attn, ffn;
  GdnWeights gdn;              // linear layers
  AttentionWeights attention;  // full layers
  MoeWeights moe;
};

/// The draft head (docs/model.md section 3).
struct MtpWeights {
  const float *embed_norm = nullptr, *hidden_norm = nullptr;  // [hidden], [wide]
  Matrix eh_proj;                                             // [hidden][2*hidden]: embedding half first
  LayerWeights layer;
  HyperConnection head;
};

struct Weights {
  Matrix embed, output;  // output is embed when embeddings are tied
  HyperConnection head;
  std::vector<LayerWeights> layers;
  std::vector<PleWeights> ple;  // in HyperParams::ple order
  std::optional<MtpWeights> mtp;
};

/// Where bind() finds tensors. Each call makes one tensor resident.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// The tensor as rows of ne0 columns, all higher dimensions folded into rows.
  virtual Result<Matrix> matrix(const std::string& name) = 0;
  /// The tensor dequantised to float32, derivation applied.
  virtual Result<const float*> vector(const std::string& name) = 0;
  /// Is there a tensor of this name? Asked for what a model may have and mostly has not.
  virtual bool has(const std::string& name) const = 0;
};

/// Binds every tensor that the hyper-parameters ask for, those of the draft head only when it is wanted; the n-gram table
/// is not among them (pages/row_store).
Result<Weights> bind(const format::HyperParams& hyper, bool draft_head, TensorSource& source);

}  // namespace evros::model
