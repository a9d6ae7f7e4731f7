// The stages themselves: what each computes, from docs/model.md. One file per part of the model: stages_hyper.cc,
// stages_gdn.cc, stages_attention.cc, stages_moe.cc, stages_ple.cc, stages_head.cc.
#pragma once

#include "model/pass.h"

namespace evros::model {

struct StageFunctions {
  const char* name;
  void (*run)(const Pass& pass, int32_t layer, device::Queue& queue);
  void (*outputs)(const Pass& pass, int32_t layer, StageOutputs& outputs);
};

extern const StageFunctions kEmbed;        // 2.2: ids -> x, hc copies
extern const StageFunctions kPleEmbed;     // 2.8: encoded table rows -> embedding
extern const StageFunctions kPleGate;      //      key, value, gate -> gv
extern const StageFunctions kPleConv;      //      dilated convolution, x += gv + conv
extern const StageFunctions kAttnRead;     // 2.4: x -> u, inject, before the mixer
extern const StageFunctions kGdnProject;   // 2.5: u -> qkv, z, alpha, beta
extern const StageFunctions kGdnConv;      //      convolution, norms, gates
extern const StageFunctions kGdnDelta;     //      the delta rule
extern const StageFunctions kGdnOut;       //      gated norm and output product -> y
extern const StageFunctions kAttnProject;  // 2.6: u -> q, gate, k, v, index q, index k
extern const StageFunctions kAttnStore;    //      norms, rope, rows stored
extern const StageFunctions kQsaSelect;    // 2.7: the blocks that each row attends to
extern const StageFunctions kAttention;    //      attention over the stored rows, gate
extern const StageFunctions kAttnOut;      //      output product -> y
extern const StageFunctions kAttnWrite;    // 2.4: x += a * y
extern const StageFunctions kFfnRead;
extern const StageFunctions kRouter;   // 2.9: the experts of each row
extern const StageFunctions kExperts;  //      their sum -> y
extern const StageFunctions kShared;   //      the shared expert, added to y
extern const StageFunctions kFfnWrite;
extern const StageFunctions kKeepState;  // residual, position, n-gram history of the newest token -> private bank
extern const StageFunctions kHeadRead;   // 2.3: final mixer -> u
extern const StageFunctions kLogits;     //      output product -> logits, newest row -> private bank

// ---- shared by several stages, and by the draft head --------------------------------------------------------------------

/// Products of one input with several matrices: quantises it once when any of them wants that.
class Products {
 public:
  Products(const Pass& pass, const kernels::Batch& rows, device::Queue& queue, const float* x, int64_t cols);
  /// y = W x; `y` has W.rows columns, rows y_stride apart (0: packed).
  void operator()(const Matrix& w, float* y, int64_t y_stride = 0);
  /// The quantised input when `w` is multiplied by the integer chain; empty otherwise.
  kernels::QuantRows quantised(const Matrix& w);

 private:
  const Pass& pass_;
  const kernels::Batch& rows_;
  device::Queue& queue_;
  const float* x_;
  int64_t cols_;
  bool done_ = false;
};

/// u (and inject, when the place has one) from x; writes scratch normed, lo, up.
void hyper_read(const Pass& pass, const kernels::Batch& rows, device::Queue& queue, const HyperConnection& hc,
                const float* x);
/// x += a * y.
void hyper_write(const Pass& pass, device::Queue& queue);

/// The full layer's parts, for a trunk layer or the draft head. ratio 0: dense, no index.
struct AttentionLayer {
  const AttentionWeights* weights;
  kernels::PageRows k, v, index;
  uint64_t index_tail;
  int32_t ratio, keep;
  const float* block_rope;
};
void attention_project(const Pass& pass, device::Queue& queue, const AttentionLayer& layer);
void attention_store(const Pass& pass, device::Queue& queue, const AttentionLayer& layer);
void attention_attend(const Pass& pass, device::Queue& queue, const AttentionLayer& layer);
void attention_out(const Pass& pass, device::Queue& queue, const AttentionLayer& layer);

void moe_router(const Pass& pass, device::Queue& queue, const MoeWeights& moe);
void moe_experts(const Pass& pass, device::Queue& queue, const MoeWeights& moe);
void moe_shared(const Pass& pass, device::Queue& queue, const MoeWeights& moe);

inline const LayerWeights& layer_weights(const Pass& pass, int32_t layer) {
  return pass.model->weights.layers[static_cast<size_t>(layer)];
}
inline const LayerState& layer_state(const Pass& pass, int32_t layer) {
  return pass.model->state.layers[static_cast<size_t>(layer)];
}

}  // namespace evros::model
