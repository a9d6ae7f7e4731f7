// Hyper-connections: docs/model.md 2.4.
#include "model/stages.h"

namespace evros::model {

Products::Products(const Pass& pass, const kernels::Batch& rows, device::Queue& queue, const float* x, int64_t cols)
    : pass_(pass), rows_(rows), queue_(queue), x_(x), cols_(cols) {}

kernels::QuantRows Products::quantised(const Matrix& w) {
  if (!format::type_info(w.type).quantised || pass_.model->numerics.float_activations) return {};
  if (!done_) pass_.model->kernels->quantize(queue_, rows_, {x_, cols_, cols_, pass_.scratch->xq});
  done_ = true;
  return pass_.scratch->xq;
}

void Products::operator()(const Matrix& w, float* y, int64_t y_stride) {
  CHECK(w.cols == cols_);
  const kernels::QuantRows xq = quantised(w);
  pass_.model->kernels->matmul(queue_, rows_, {w, x_, cols_, xq, y, y_stride > 0 ? y_stride : w.rows});
}

void hyper_read(const Pass& pass, const kernels::Batch& rows, device::Queue& queue, const HyperConnection& hc,
                const float* x) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const auto& k = *pass.model->kernels;
  const int64_t wide = h.wide();
  k.rms_norm(queue, rows,
             {x, wide, h.hidden, hc.norm, h.hidden, h.hc_count, h.hidden, h.rms_eps, s.normed, wide, h.hidden});
  {
    Products product(pass, rows, queue, s.normed, wide);
    product(hc.down, s.lo);
    if (hc.inject.data != nullptr) product(hc.inject, s.inject);
  }
  k.hc_low(queue, rows, {s.lo, h.hc_lowrank, h.hc_lowrank, h.hc_count});
  Products(pass, rows, queue, s.lo, h.hc_lowrank)(hc.up, s.up);
  k.hc_mix(queue, rows, {s.up, s.normed, wide, h.hc_count, h.hidden, s.u, h.hidden});
}

void hyper_write(const Pass& pass, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  pass.model->kernels->hc_write(queue, pass.batch, {s.inject, s.y, h.hidden, h.hc_count, h.hidden, s.x, h.wide()});
}

namespace {

void read_outputs(const Pass& pass, int32_t, StageOutputs& outputs) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  outputs.add(s.normed, pass.batch.rows, h.wide());
  outputs.add(s.lo, pass.batch.rows, h.hc_lowrank);
  outputs.add(s.up, pass.batch.rows, h.wide());
  outputs.add(s.inject, pass.batch.rows, h.hc_count);
  outputs.add(s.u, pass.batch.rows, h.hidden);
}

void write_outputs(const Pass& pass, int32_t, StageOutputs& outputs) {
  outputs.add(pass.scratch->x, pass.batch.rows, pass.model->hyper.wide());
}

}  // namespace

const StageFunctions kAttnRead{"attn_read",
                               [](const Pass& pass, int32_t layer, device::Queue& queue) {
                                 hyper_read(pass, pass.batch, queue, layer_weights(pass, layer).attn, pass.scratch->x);
                               },
                               read_outputs};
const StageFunctions kAttnWrite{
    "attn_write", [](const Pass& pass, int32_t, device::Queue& queue) { hyper_write(pass, queue); }, write_outputs};
const StageFunctions kFfnRead{"ffn_read",
                              [](const Pass& pass, int32_t layer, device::Queue& queue) {
                                hyper_read(pass, pass.batch, queue, layer_weights(pass, layer).ffn, pass.scratch->x);
                              },
                              read_outputs};
const StageFunctions kFfnWrite{
    "ffn_write", [](const Pass& pass, int32_t, device::Queue& queue) { hyper_write(pass, queue); }, write_outputs};

}  // namespace evros::model
