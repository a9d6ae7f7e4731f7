// Gated DeltaNet: docs/model.md 2.5.
#include "model/stages.h"

namespace evros::model {
namespace {

int64_t value_width(const format::HyperParams& h) { return int64_t{h.linear_value_heads} * h.linear_value_dim; }

void project(const Pass& pass, int32_t layer, device::Queue& queue) {
  const GdnWeights& w = layer_weights(pass, layer).gdn;
  const auto& s = *pass.scratch;
  Products product(pass, pass.batch, queue, s.u, pass.model->hyper.hidden);
  product(w.qkv, s.qkv);
  product(w.z, s.z);
  product(w.alpha, s.alpha);
  product(w.beta, s.beta);
}

void project_outputs(const Pass& pass, int32_t, StageOutputs& outputs) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  outputs.add(s.qkv, pass.batch.rows, h.conv_channels());
  outputs.add(s.z, pass.batch.rows, value_width(h));
  outputs.add(s.alpha, pass.batch.rows, h.linear_value_heads);
  outputs.add(s.beta, pass.batch.rows, h.linear_value_heads);
}

void convolve(const Pass& pass, int32_t layer, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const auto& k = *pass.model->kernels;
  const GdnWeights& w = layer_weights(pass, layer).gdn;
  const int64_t channels = h.conv_channels();
  k.gdn_conv(
      queue, pass.batch,
      {s.qkv, channels, w.conv, h.conv_channels(), h.conv_kernel, layer_state(pass, layer).gdn_conv, s.conv, channels});
  k.gdn_qk_norm(queue, pass.batch, {s.conv, channels, h.linear_key_heads, h.linear_key_dim});
  k.gdn_gates(queue, pass.batch, {s.alpha, s.beta, h.linear_value_heads, w.a, w.dt, h.linear_value_heads});
}

void convolve_outputs(const Pass& pass, int32_t, StageOutputs& outputs) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  outputs.add(s.conv, pass.batch.rows, h.conv_channels());
  outputs.add(s.alpha, pass.batch.rows, h.linear_value_heads);
  outputs.add(s.beta, pass.batch.rows, h.linear_value_heads);
}

void delta(const Pass& pass, int32_t layer, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  pass.model->kernels->gdn_delta(
      queue, pass.batch,
      {s.conv, h.conv_channels(), s.alpha, s.beta, h.linear_value_heads, h.linear_key_heads, h.linear_value_heads,
       h.linear_key_dim, h.linear_value_dim, layer_state(pass, layer).gdn_state, s.o, value_width(h)});
}

void delta_outputs(const Pass& pass, int32_t, StageOutputs& outputs) {
  outputs.add(pass.scratch->o, pass.batch.rows, value_width(pass.model->hyper));
}

void out(const Pass& pass, int32_t layer, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const GdnWeights& w = layer_weights(pass, layer).gdn;
  const int64_t width = value_width(h);
  pass.model->kernels->gdn_out_norm(queue, pass.batch,
                                    {s.o, s.z, width, width, w.norm, h.linear_value_heads, h.linear_value_dim,
                                     h.rms_eps, h.output_gate == format::GateActivation::silu});
  Products(pass, pass.batch, queue, s.o, width)(w.out, s.y);
}

void out_outputs(const Pass& pass, int32_t, StageOutputs& outputs) {
  outputs.add(pass.scratch->o, pass.batch.rows, value_width(pass.model->hyper));
  outputs.add(pass.scratch->y, pass.batch.rows, pass.model->hyper.hidden);
}

}  // namespace

const StageFunctions kGdnProject{"gdn_project", project, project_outputs};
const StageFunctions kGdnConv{"gdn_conv", convolve, convolve_outputs};
const StageFunctions kGdnDelta{"gdn_delta", delta, delta_outputs};
const StageFunctions kGdnOut{"gdn_out", out, out_outputs};

}  // namespace evros::model
