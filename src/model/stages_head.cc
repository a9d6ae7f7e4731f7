// The two ends of the model: embedding, and the final mixer with the output product (docs/model.md 2.2, 2.3).
#include "model/stages.h"

namespace evros::model {
namespace {

// Two floats' room for one 64-bit id: keep_last moves bytes.
constexpr int64_t kFloatsPerId = sizeof(int64_t) / sizeof(float);

void embed(const Pass& pass, int32_t, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  pass.model->kernels->embed(queue, pass.batch, {pass.model->weights.embed, s.ids, s.x, h.wide(), h.hc_count});
}

void keep_ids(const Pass& pass, device::Queue& queue, const int64_t* ids, int64_t count, uint64_t offset) {
  if (count == 0) return;
  pass.model->kernels->keep_last(
      queue, pass.last, {reinterpret_cast<const float*>(ids), count * kFloatsPerId, count * kFloatsPerId, offset});
}

void keep_state(const Pass& pass, int32_t, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const StateLayout& state = pass.model->state;
  pass.model->kernels->keep_last(queue, pass.batch, {s.x, h.wide(), h.wide(), state.residual});
  pass.model->kernels->gather_last(queue, pass.batch, {s.x, h.wide(), h.wide(), s.last_x, h.wide()});
  keep_ids(pass, queue, s.history, h.ple.empty() ? 0 : h.ngram_size - 1, state.ple_history);
  keep_ids(pass, queue, s.position, 3, state.position);
}

const kernels::Batch& head_rows(const Pass& pass) { return pass.all_logits ? pass.batch : pass.last; }

void head_read(const Pass& pass, int32_t, device::Queue& queue) {
  const auto& s = *pass.scratch;
  hyper_read(pass, head_rows(pass), queue, pass.model->weights.head, pass.all_logits ? s.x : s.last_x);
}

void logits(const Pass& pass, int32_t, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  Products(pass, head_rows(pass), queue, s.u, h.hidden)(pass.model->weights.output, s.logits);
  pass.model->kernels->keep_last(queue, head_rows(pass), {s.logits, h.vocab, h.vocab, pass.model->state.logits});
}

}  // namespace

const StageFunctions kEmbed{"embed", embed, [](const Pass& pass, int32_t, StageOutputs& outputs) {
                              outputs.add(pass.scratch->x, pass.batch.rows, pass.model->hyper.wide());
                            }};
const StageFunctions kKeepState{"keep_state", keep_state, [](const Pass&, int32_t, StageOutputs&) {}};
const StageFunctions kHeadRead{"head_read", head_read, [](const Pass& pass, int32_t, StageOutputs& outputs) {
                                 const auto& h = pass.model->hyper;
                                 const auto& s = *pass.scratch;
                                 outputs.add(s.normed, head_rows(pass).rows, h.wide());
                                 outputs.add(s.lo, head_rows(pass).rows, h.hc_lowrank);
                                 outputs.add(s.up, head_rows(pass).rows, h.wide());
                                 outputs.add(s.u, head_rows(pass).rows, h.hidden);
                               }};
const StageFunctions kLogits{"logits", logits, [](const Pass& pass, int32_t, StageOutputs& outputs) {
                               outputs.add(pass.scratch->logits, head_rows(pass).rows, pass.model->hyper.vocab);
                             }};

}  // namespace evros::model
