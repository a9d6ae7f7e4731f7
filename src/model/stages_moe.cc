// Mixture of experts: docs/model.md 2.9.
#include "model/stages.h"

namespace evros::model {

void moe_router(const Pass& pass, device::Queue& queue, const MoeWeights& moe) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  Products(pass, pass.batch, queue, s.u, h.hidden)(moe.router, s.router);
  pass.model->kernels->router(
      queue, pass.batch,
      {s.router, h.experts, h.experts, h.experts_used, h.norm_topk_prob, s.expert_ids, s.expert_weights});
}

void moe_experts(const Pass& pass, device::Queue& queue, const MoeWeights& moe) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  Products product(pass, pass.batch, queue, s.u, h.hidden);
  kernels::QuantRows xq = product.quantised(moe.gate.matrix);
  if (xq.empty()) xq = product.quantised(moe.up.matrix);
  pass.model->kernels->experts(queue, pass.batch,
                               {moe.gate.matrix,
                                moe.up.matrix,
                                moe.down.matrix,
                                moe.gate.expert_bytes,
                                moe.up.expert_bytes,
                                moe.down.expert_bytes,
                                s.u,
                                h.hidden,
                                xq,
                                s.expert_ids,
                                s.expert_weights,
                                h.experts_used,
                                s.expert_hidden,
                                pass.model->numerics.float_activations ? kernels::QuantRows{} : s.expert_q,
                                s.expert_out,
                                h.experts,
                                s.expert_order,
                                s.expert_first,
                                s.y,
                                h.hidden});
}

void moe_shared(const Pass& pass, device::Queue& queue, const MoeWeights& moe) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const auto& k = *pass.model->kernels;
  {
    Products product(pass, pass.batch, queue, s.u, h.hidden);
    product(moe.shared_gate, s.shared_gate);
    product(moe.shared_up, s.shared_up);
    product(moe.shared_router, s.shared_router);
  }
  const int64_t ff = h.shared_ff;
  k.swiglu(queue, pass.batch, {s.shared_gate, s.shared_up, ff, ff, ff, s.shared_gate, ff});
  Products(pass, pass.batch, queue, s.shared_gate, ff)(moe.shared_down, s.shared);
  k.shared_add(queue, pass.batch, {s.shared_router, s.shared, h.hidden, h.hidden, s.y, h.hidden});
}

namespace {

void run_router(const Pass& pass, int32_t layer, device::Queue& queue) {
  moe_router(pass, queue, layer_weights(pass, layer).moe);
  pass.model->kernels->keep_routes(
      queue, pass.batch, {pass.scratch->expert_ids, pass.model->hyper.experts_used, layer_state(pass, layer).routes});
}

void y_output(const Pass& pass, int32_t, StageOutputs& outputs) {
  outputs.add(pass.scratch->y, pass.batch.rows, pass.model->hyper.hidden);
}

}  // namespace

const StageFunctions kRouter{"router", run_router, [](const Pass& pass, int32_t, StageOutputs& outputs) {
                               const auto& h = pass.model->hyper;
                               outputs.add(pass.scratch->router, pass.batch.rows, h.experts);
                               outputs.add(pass.scratch->expert_weights, pass.batch.rows, h.experts_used);
                             }};
const StageFunctions kExperts{"experts",
                              [](const Pass& pass, int32_t layer, device::Queue& queue) {
                                moe_experts(pass, queue, layer_weights(pass, layer).moe);
                              },
                              y_output};
const StageFunctions kShared{"shared",
                             [](const Pass& pass, int32_t layer, device::Queue& queue) {
                               moe_shared(pass, queue, layer_weights(pass, layer).moe);
                             },
                             [](const Pass& pass, int32_t layer, StageOutputs& outputs) {
                               y_output(pass, layer, outputs);
                               // The gate's sigmoid has made a finite number of whatever came in.
                               outputs.add(pass.scratch->shared_router, pass.batch.rows, 1);
                             }};

}  // namespace evros::model
