// The n-gram embedding (PLE): docs/model.md 2.8.
#include "model/stages.h"

namespace evros::model {
namespace {

size_t ple_index(const Pass& pass, int32_t layer) {
  const auto& list = pass.model->hyper.ple;
  size_t i = 0;
  while (list[i].layer != layer) ++i;
  return i;
}

void embed(const Pass& pass, int32_t layer, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  pass.model->kernels->ple_rows(queue, pass.batch,
                                {pass.model->ple_type, s.ple_encoded[ple_index(pass, layer)], pass.model->ple_row_bytes,
                                 h.ple_heads(), h.ple_row_width, s.ple_embedding, h.ple_embed_dim()});
}

void grouped_norm(const Pass& pass, device::Queue& queue, const float* x, const float* gain, float* y) {
  const auto& h = pass.model->hyper;
  pass.model->kernels->rms_norm(
      queue, pass.batch,
      {x, h.wide(), h.hidden, gain, h.hidden, h.hc_count, h.hidden, h.rms_eps, y, h.wide(), h.hidden});
}

void gate(const Pass& pass, int32_t layer, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const PleWeights& w = pass.model->weights.ple[ple_index(pass, layer)];
  {
    Products product(pass, pass.batch, queue, s.ple_embedding, h.ple_embed_dim());
    product(w.key, s.ple_key);
    product(w.value, s.ple_value);
  }
  grouped_norm(pass, queue, s.ple_key, w.norm_key, s.ple_key);
  grouped_norm(pass, queue, s.x, w.norm_query, s.ple_query);
  pass.model->kernels->ple_gate(
      queue, pass.batch,
      {s.ple_key, s.ple_query, h.wide(), s.ple_value, h.hidden, h.hc_count, h.hidden, s.ple_gv, h.wide()});
}

void gate_outputs(const Pass& pass, int32_t, StageOutputs& outputs) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  outputs.add(s.ple_key, pass.batch.rows, h.wide());
  outputs.add(s.ple_query, pass.batch.rows, h.wide());
  outputs.add(s.ple_value, pass.batch.rows, h.hidden);
  outputs.add(s.ple_gv, pass.batch.rows, h.wide());
}

// The key's buffer is free by now and takes the normed gated values.
void convolve(const Pass& pass, int32_t layer, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const size_t i = ple_index(pass, layer);
  const PleWeights& w = pass.model->weights.ple[i];
  const int64_t wide = h.wide();
  grouped_norm(pass, queue, s.ple_gv, w.norm_conv, s.ple_key);
  float* added = s.ple_added == nullptr ? nullptr : s.ple_added + static_cast<int64_t>(i) * pass.batch.rows * wide;
  pass.model->kernels->ple_conv(queue, pass.batch,
                                {s.ple_key, s.ple_gv, wide, w.conv, h.wide(), h.ple_conv_kernel, h.ngram_size,
                                 pass.model->state.ple_conv[i], s.x, wide, added, wide});
}

}  // namespace

const StageFunctions kPleEmbed{"ple_embed", embed, [](const Pass& pass, int32_t, StageOutputs& outputs) {
                                 outputs.add(pass.scratch->ple_embedding, pass.batch.rows,
                                             pass.model->hyper.ple_embed_dim());
                               }};
const StageFunctions kPleGate{"ple_gate", gate, gate_outputs};
const StageFunctions kPleConv{"ple_conv", convolve, [](const Pass& pass, int32_t, StageOutputs& outputs) {
                                outputs.add(pass.scratch->ple_key, pass.batch.rows, pass.model->hyper.wide());
                                outputs.add(pass.scratch->x, pass.batch.rows, pass.model->hyper.wide());
                              }};

}  // namespace evros::model
