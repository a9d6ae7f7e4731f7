// Reference kernels: router, experts, shared expert.
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/dot_rows.h"
#include "kernels/ref/ranking.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

void route(const RouterArgs& a, const float* logits, int32_t* ids, float* weights) {
  float m = logits[0];
  for (int64_t e = 1; e < a.experts; ++e) m = logits[e] > m ? logits[e] : m;
  float p[kStrides] = {};
  for (int64_t e = 0; e < a.experts; ++e) p[e % kStrides] += exp(logits[e] - m);
  const float sum = fold_strides(p);
  for (int32_t e = 0; e < a.experts; ++e) rank_expert(e, exp(logits[e] - m) / sum, a.used, ids, weights);
  if (a.normalise) share_weights(a.used, weights);
}

/// One of the three products of the experts, over all (row, rank) pairs.
struct ExpertProduct {
  const Matrix& w;
  int64_t expert_bytes;
  const float* x;  // pair i reads x + (i / pairs_per_x) * x_stride, or that row of xq
  int64_t x_stride, pairs_per_x;
  QuantRows xq;  // empty: the float chain
  float* y;      // [pairs][w.rows]
};

/// y of one tile of output rows of expert e, for the pairs that chose it.
void expert_tile(const ExpertProduct& product, const int32_t* ids, int64_t pairs, int64_t e, int64_t n0) {
  Matrix w = product.w;
  w.data += e * product.expert_bytes;
  DotRows work;
  work.type = w.type;
  work.k = w.cols;
  work.integers = !product.xq.empty();
  work.scale = w.scale != nullptr ? w.scale + e : nullptr;
  work.lanes = static_cast<int>(smaller(kLanes, w.rows - n0));
  work.columns = 0;
  work.strip = strip_of(w, n0 / kStripRows);
  work.first_lane = static_cast<int32_t>(n0 % kStripRows);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    if (ids[pair] != e) continue;
    const int64_t source = pair / product.pairs_per_x;
    const int c = work.columns++;
    work.x[c] = product.x + source * product.x_stride;
    if (work.integers) work.q[c] = product.xq.segments + source * quant_segments(w.cols);
    work.y[c] = product.y + pair * w.rows + n0;
    if (work.columns < kColumns) continue;
    dot_rows(work);
    work.columns = 0;
  }
  if (work.columns > 0) dot_rows(work);
}

/// Expert by expert, so that an expert's weights are decoded once for all the rows that chose it.
void multiply_experts(device::Queue& queue, const ExpertProduct& product, const int32_t* ids, int64_t pairs) {
  int64_t experts = 0;
  for (int64_t i = 0; i < pairs; ++i) experts = ids[i] >= experts ? ids[i] + 1 : experts;
  const int64_t tiles = (product.w.rows + kLanes - 1) / kLanes;
  for_each(queue, experts * tiles, kLanes * product.w.cols * pairs / experts,
           [&](int64_t unit) { expert_tile(product, ids, pairs, unit / tiles, unit % tiles * kLanes); });
}

}  // namespace

void router(device::Queue& queue, const Batch& batch, const RouterArgs& a) {
  for_each(queue, batch.rows, 8 * a.experts, [&](int64_t r) {
    const float* logits = a.logits + r * a.stride;
    int32_t* ids = a.ids + r * a.used;
    float* weights = a.weights + r * a.used;
    if (all_finite(logits, a.experts)) return route(a, logits, ids, weights);
    set_status(batch, r, kNonFinite);
    rank_nothing(a.used, ids, weights);
  });
}

void experts(device::Queue& queue, const Batch& batch, const ExpertsArgs& a) {
  const int64_t pairs = int64_t{batch.rows} * a.used, ff = a.gate.rows, hidden = a.down.rows;
  float *gate = a.hidden, *up = a.hidden + pairs * ff;
  const QuantRows down_q = !a.xq.empty() && is_quantised(a.down.type) ? a.hidden_q : QuantRows{};
  multiply_experts(queue, {a.gate, a.gate_expert_bytes, a.x, a.x_stride, a.used, a.xq, gate}, a.ids, pairs);
  multiply_experts(queue, {a.up, a.up_expert_bytes, a.x, a.x_stride, a.used, a.xq, up}, a.ids, pairs);
  for_each(queue, pairs, 8 * ff, [&](int64_t pair) {
    float* h = gate + pair * ff;
    for (int64_t i = 0; i < ff; ++i) h[i] = silu(h[i]) * up[pair * ff + i];
    check_row(batch, pair / a.used, h, ff);
    if (!down_q.empty()) quantize_row(h, ff, down_q.segments + pair * quant_segments(ff));
  });
  multiply_experts(queue, {a.down, a.down_expert_bytes, gate, ff, 1, down_q, a.expert_out}, a.ids, pairs);
  for_each(queue, batch.rows, hidden * a.used, [&](int64_t r) {
    float* y = a.y + r * a.y_stride;
    for (int64_t i = 0; i < hidden; ++i) {
      float acc = 0.0f;
      for (int64_t rank = 0; rank < a.used; ++rank) {
        const int64_t pair = r * a.used + rank;
        acc = fma(a.weights[pair], a.expert_out[pair * hidden + i], acc);
      }
      y[i] = acc;
    }
  });
}

void shared_add(device::Queue& queue, const Batch& batch, const SharedAddArgs& a) {
  for_each(queue, batch.rows, a.width, [&](int64_t r) {
    const float gate = sigmoid(a.gate[r]);
    const float* shared = a.shared + r * a.shared_stride;
    float* y = a.y + r * a.y_stride;
    for (int64_t i = 0; i < a.width; ++i) y[i] = fma(gate, shared[i], y[i]);
  });
}

void keep_routes(device::Queue& queue, const Batch& batch, const KeepRoutesArgs& a) {
  for_each(queue, batch.sequences, a.used, [&](int64_t s) {
    const SequenceRows& sequence = batch.sequence[s];
    if (sequence.rows == 0) return;
    const int64_t last = sequence.first_row + sequence.rows - 1;
    __builtin_memcpy(sequence.bank_out + a.bank_offset, a.ids + last * a.used,
                     static_cast<size_t>(a.used) * sizeof(int32_t));
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
