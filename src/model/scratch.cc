#include "model/scratch.h"

#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "model/state_layout.h"

namespace evros::model {
namespace {

using format::HyperParams;
using format::LayerKind;

class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <typename T>
  void operator()(T*& pointer, int64_t rows, int64_t width = 1) {
    const uint64_t bytes = uint64_t(rows) * uint64_t(width) * sizeof(T);
    pointer = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ = align_up(used_ + bytes, 64);
  }
  uint64_t used() const { return used_; }

 private:
  std::byte* base_;
  uint64_t used_ = 0;
};

// The widest input of any matrix: what the quantised copy of activations must hold.
int64_t widest_input(const HyperParams& h) {
  return std::max({int64_t{h.wide()}, int64_t{h.hc_lowrank}, 2 * int64_t{h.hidden},
                   int64_t{h.linear_value_heads} * h.linear_value_dim, int64_t{h.heads} * h.value_dim,
                   int64_t{h.shared_ff}, int64_t{h.ple_embed_dim()}});
}

void carve_inputs(Carver& carve, Scratch& s, const HyperParams& h, const PassLimits& limits, int64_t ple_row_bytes) {
  const int64_t R = limits.rows, S = limits.sequences;
  carve(s.ids, R);
  carve(s.row_sequence, R);
  carve(s.row_position, R);
  carve(s.sequence, S);
  carve(s.last_sequence, S);
  carve(s.pages, S, limits.context / page_tokens(h) + 1);
  carve(s.last_row_sequence, S);
  carve(s.last_position, S);
  carve(s.status, S);
  carve(s.rope, R, h.rope_dims);
  std::map<int32_t, float*> by_ratio;
  for (const int32_t ratio : h.compress_ratio) {
    if (ratio > 0 && !by_ratio.contains(ratio)) carve(by_ratio[ratio], R, h.rope_dims);
    s.block_rope.push_back(ratio > 0 ? by_ratio[ratio] : nullptr);
  }
  carve(s.history, S, std::max(h.ngram_size - 1, 0));
  carve(s.position, S, 3);
  s.ple_encoded.resize(h.ple.size());
  for (auto& encoded : s.ple_encoded) carve(encoded, R, h.ple_heads() * ple_row_bytes);
}

void carve_linear(Carver& carve, Scratch& s, const HyperParams& h, int64_t R) {
  carve(s.qkv, R, h.conv_channels());
  carve(s.conv, R, h.conv_channels());
  carve(s.z, R, int64_t{h.linear_value_heads} * h.linear_value_dim);
  carve(s.o, R, int64_t{h.linear_value_heads} * h.linear_value_dim);
  carve(s.alpha, R, h.linear_value_heads);
  carve(s.beta, R, h.linear_value_heads);
}

void carve_attention(Carver& carve, Scratch& s, const HyperParams& h, const PassLimits& limits) {
  const int64_t R = limits.rows;
  int64_t visible = 0, blocks = 0;
  int32_t keep = 0;
  for (int32_t layer = 0; layer < h.layers; ++layer) {
    if (h.layer_kind[static_cast<size_t>(layer)] != LayerKind::full) continue;
    visible = std::max(visible, visible_positions(h, layer, limits.context));
    keep = std::max(keep, kept_blocks(h, layer));
    const int32_t ratio = h.compress_ratio[static_cast<size_t>(layer)];
    if (ratio > 0) blocks = std::max(blocks, limits.context / ratio + 1);
  }
  carve(s.q_gate, R, int64_t{h.heads} * (h.key_dim + h.value_dim));
  carve(s.q, R, int64_t{h.heads} * h.key_dim);
  carve(s.k, R, int64_t{h.kv_heads} * h.key_dim);
  carve(s.v, R, int64_t{h.kv_heads} * h.value_dim);
  carve(s.index_q, R, int64_t{h.index_heads} * h.index_dim);
  carve(s.index_k, R, h.index_dim);
  s.index_score_stride = blocks;
  carve(s.index_scores, R, blocks);
  carve(s.selected, R, keep);
  s.score_stride = visible;
  carve(s.scores, R * h.heads, visible);
  carve(s.attended, R, int64_t{h.heads} * h.value_dim);
}

void carve_experts(Carver& carve, Scratch& s, const HyperParams& h, int64_t R) {
  const int64_t chosen = R * h.experts_used;
  carve(s.router, R, h.experts);
  carve(s.expert_ids, chosen);
  carve(s.expert_weights, chosen);
  carve(s.expert_hidden, 2 * chosen, h.expert_ff);
  carve(s.expert_q.segments, chosen, kernels::quant_segments(h.expert_ff));
  carve(s.expert_out, chosen, h.hidden);
  carve(s.expert_order, chosen);
  carve(s.expert_first, h.experts + 1);
  carve(s.shared_gate, R, h.shared_ff);
  carve(s.shared_up, R, h.shared_ff);
  carve(s.shared, R, h.hidden);
  carve(s.shared_router, R);
}

void carve_ple(Carver& carve, Scratch& s, const HyperParams& h, const PassLimits& limits) {
  const int64_t R = h.ple.empty() ? 0 : limits.rows;
  carve(s.ple_embedding, R, h.ple_embed_dim());
  carve(s.ple_key, R, h.wide());
  carve(s.ple_query, R, h.wide());
  carve(s.ple_gv, R, h.wide());
  carve(s.ple_value, R, h.hidden);
  s.ple_added = nullptr;
  if (limits.trace) carve(s.ple_added, R * static_cast<int64_t>(h.ple.size()), h.wide());
}

}  // namespace

int32_t kept_blocks(const HyperParams& hyper, int32_t layer) {
  const int32_t ratio = hyper.compress_ratio[static_cast<size_t>(layer)];
  return ratio > 0 ? hyper.index_budget / ratio : 0;
}

int64_t visible_positions(const HyperParams& hyper, int32_t layer, int64_t context) {
  const int32_t ratio = hyper.compress_ratio[static_cast<size_t>(layer)];
  if (ratio == 0) return context;
  return std::min(context, int64_t{kept_blocks(hyper, layer)} * ratio + ratio - 1);
}

Scratch carve_scratch(const HyperParams& h, const PassLimits& limits, int64_t ple_row_bytes, std::byte* base) {
  Scratch s{};
  Carver carve(base);
  const int64_t R = limits.rows;
  carve_inputs(carve, s, h, limits, ple_row_bytes);
  for (float** wide : {&s.x, &s.normed, &s.up}) carve(*wide, R, h.wide());
  carve(s.lo, R, h.hc_lowrank);
  carve(s.inject, R, h.hc_count);
  carve(s.u, R, h.hidden);
  carve(s.y, R, h.hidden);
  carve(s.xq.segments, R, kernels::quant_segments(widest_input(h)));
  carve_linear(carve, s, h, R);
  carve_attention(carve, s, h, limits);
  carve_experts(carve, s, h, R);
  carve_ple(carve, s, h, limits);
  carve(s.last_x, limits.sequences, h.wide());
  carve(s.logits, limits.logit_rows, h.vocab);
  s.bytes = carve.used();
  return s;
}

}  // namespace evros::model
