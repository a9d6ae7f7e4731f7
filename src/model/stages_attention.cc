// Gated attention and the QSA indexer: docs/model.md 2.6 and 2.7.
#include "model/stages.h"

namespace evros::model {
namespace {

AttentionLayer trunk_layer(const Pass& pass, int32_t layer) {
  const LayerState& state = layer_state(pass, layer);
  const auto& h = pass.model->hyper;
  return {&layer_weights(pass, layer).attention,
          state.k,
          state.v,
          state.index,
          state.index_tail,
          h.compress_ratio[static_cast<size_t>(layer)],
          kept_blocks(h, layer),
          pass.scratch->block_rope[static_cast<size_t>(layer)]};
}

int64_t head_block(const format::HyperParams& h) { return h.key_dim + h.value_dim; }

void index_store(const Pass& pass, device::Queue& queue, const AttentionLayer& layer) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const auto& k = *pass.model->kernels;
  const int64_t width = int64_t{h.index_heads} * h.index_dim;
  k.rms_norm(queue, pass.batch,
             {s.index_q, width, h.index_dim, layer.weights->index_q_norm, 0, h.index_heads, h.index_dim, h.rms_eps,
              s.index_q, width, h.index_dim});
  k.rope(queue, pass.batch, {s.index_q, width, h.index_dim, h.index_heads, h.rope_dims, s.rope});
  k.index_store(queue, pass.batch,
                {s.index_k, h.index_dim, h.index_dim, layer.ratio, h.rope_dims, layer.weights->index_k_norm, h.rms_eps,
                 layer.block_rope, layer.index_tail, layer.index});
}

void project_outputs(const Pass& pass, int32_t layer, StageOutputs& outputs) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const int64_t rows = pass.batch.rows;
  outputs.add(s.q_gate, rows, h.heads * head_block(h));
  outputs.add(s.k, rows, int64_t{h.kv_heads} * h.key_dim);
  outputs.add(s.v, rows, int64_t{h.kv_heads} * h.value_dim);
  if (h.compress_ratio[static_cast<size_t>(layer)] == 0) return;
  outputs.add(s.index_q, rows, int64_t{h.index_heads} * h.index_dim);
  outputs.add(s.index_k, rows, h.index_dim);
}

void store_outputs(const Pass& pass, int32_t layer, StageOutputs& outputs) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const int64_t rows = pass.batch.rows;
  outputs.add(s.q, rows, int64_t{h.heads} * h.key_dim);
  outputs.add(s.k, rows, int64_t{h.kv_heads} * h.key_dim);
  if (h.compress_ratio[static_cast<size_t>(layer)] > 0)
    outputs.add(s.index_q, rows, int64_t{h.index_heads} * h.index_dim);
}

void select(const Pass& pass, int32_t layer, device::Queue& queue) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const AttentionLayer a = trunk_layer(pass, layer);
  pass.model->kernels->qsa_select(queue, pass.batch,
                                  {s.index_q, int64_t{h.index_heads} * h.index_dim, h.index_heads, h.index_dim, a.ratio,
                                   a.keep, a.index, s.index_scores, s.index_score_stride, s.selected});
}

}  // namespace

void attention_project(const Pass& pass, device::Queue& queue, const AttentionLayer& layer) {
  const auto& s = *pass.scratch;
  Products product(pass, pass.batch, queue, s.u, pass.model->hyper.hidden);
  product(layer.weights->q, s.q_gate);
  product(layer.weights->k, s.k);
  product(layer.weights->v, s.v);
  if (layer.ratio == 0) return;
  product(layer.weights->index_q, s.index_q);
  product(layer.weights->index_k, s.index_k);
}

void attention_store(const Pass& pass, device::Queue& queue, const AttentionLayer& layer) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const auto& k = *pass.model->kernels;
  const int64_t q_width = int64_t{h.heads} * h.key_dim, k_width = int64_t{h.kv_heads} * h.key_dim;
  k.rms_norm(queue, pass.batch,
             {s.q_gate, h.heads * head_block(h), head_block(h), layer.weights->q_norm, 0, h.heads, h.key_dim, h.rms_eps,
              s.q, q_width, h.key_dim});
  k.rope(queue, pass.batch, {s.q, q_width, h.key_dim, h.heads, h.rope_dims, s.rope});
  k.rms_norm(
      queue, pass.batch,
      {s.k, k_width, h.key_dim, layer.weights->k_norm, 0, h.kv_heads, h.key_dim, h.rms_eps, s.k, k_width, h.key_dim});
  k.rope(queue, pass.batch, {s.k, k_width, h.key_dim, h.kv_heads, h.rope_dims, s.rope});
  k.store_rows(queue, pass.batch, {s.k, k_width, k_width, pass.model->numerics.kv, layer.k});
  const int64_t v_width = int64_t{h.kv_heads} * h.value_dim;
  k.store_rows(queue, pass.batch, {s.v, v_width, v_width, pass.model->numerics.kv, layer.v});
  if (layer.ratio > 0) index_store(pass, queue, layer);
}

void attention_attend(const Pass& pass, device::Queue& queue, const AttentionLayer& layer) {
  const auto& h = pass.model->hyper;
  const auto& s = *pass.scratch;
  const auto& k = *pass.model->kernels;
  const int64_t width = int64_t{h.heads} * h.value_dim;
  k.attention(queue, pass.batch,
              {s.q, int64_t{h.heads} * h.key_dim, h.heads, h.kv_heads, h.key_dim, h.value_dim, pass.model->numerics.kv,
               layer.k, layer.v, layer.ratio, layer.keep, s.selected, s.scores, s.score_stride, s.attended, width});
  k.head_gate(queue, pass.batch,
              {s.attended, width, s.q_gate + h.key_dim, h.heads * head_block(h), head_block(h), h.heads, h.value_dim});
}

void attention_out(const Pass& pass, device::Queue& queue, const AttentionLayer& layer) {
  const auto& h = pass.model->hyper;
  Products(pass, pass.batch, queue, pass.scratch->attended, int64_t{h.heads} * h.value_dim)(layer.weights->out,
                                                                                            pass.scratch->y);
}

const StageFunctions kAttnProject{"attn_project",
                                  [](const Pass& pass, int32_t layer, device::Queue& queue) {
                                    attention_project(pass, queue, trunk_layer(pass, layer));
                                  },
                                  project_outputs};
const StageFunctions kAttnStore{"attn_store",
                                [](const Pass& pass, int32_t layer, device::Queue& queue) {
                                  attention_store(pass, queue, trunk_layer(pass, layer));
                                },
                                store_outputs};
const StageFunctions kQsaSelect{"qsa_select", select, [](const Pass&, int32_t, StageOutputs&) {}};
const StageFunctions kAttention{"attention",
                                [](const Pass& pass, int32_t layer, device::Queue& queue) {
                                  attention_attend(pass, queue, trunk_layer(pass, layer));
                                },
                                [](const Pass& pass, int32_t, StageOutputs& outputs) {
                                  const auto& h = pass.model->hyper;
                                  outputs.add(pass.scratch->attended, pass.batch.rows, int64_t{h.heads} * h.value_dim);
                                }};
const StageFunctions kAttnOut{
    "attn_out",
    [](const Pass& pass, int32_t layer, device::Queue& queue) { attention_out(pass, queue, trunk_layer(pass, layer)); },
    [](const Pass& pass, int32_t, StageOutputs& outputs) {
      outputs.add(pass.scratch->y, pass.batch.rows, pass.model->hyper.hidden);
    }};

}  // namespace evros::model
