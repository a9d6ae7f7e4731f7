// Experts: the (row, rank) pairs are sorted by expert, so that an expert's weights are read once for all its rows.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/dot_rows.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

/// Fills order with the pairs by ascending expert and, of one expert, by ascending pair, and first with where each expert's
/// pairs begin, experts without pairs left out. Returns the number of experts that have any.
int64_t sort_pairs(const ExpertsArgs& a, int64_t pairs) {
  for (int64_t e = 0; e <= a.experts; ++e) a.first[e] = 0;
  for (int64_t i = 0; i < pairs; ++i) ++a.first[a.ids[i] + 1];
  for (int64_t e = 0; e < a.experts; ++e) a.first[e + 1] += a.first[e];
  for (int64_t i = 0; i < pairs; ++i) a.order[a.first[a.ids[i]]++] = static_cast<int32_t>(i);
  int64_t active = 0;  // first[e] is now where e's pairs end
  int32_t begin = 0;
  for (int64_t e = 0; e < a.experts; ++e) {
    const int32_t end = a.first[e];
    if (end > begin) a.first[active++] = begin;
    begin = end;
  }
  a.first[active] = static_cast<int32_t>(pairs);
  return active;
}

/// One product over all pairs.
struct Product {
  const Matrix& w;
  int64_t expert_bytes;
  const float* x;  // pair i reads row i / pairs_per_x
  int64_t x_stride, pairs_per_x;
  QuantRows xq;  // empty: the float chain
  float* y;      // [pairs][w.rows]
};

/// Strips [index, last), at most strips_at_once(), of the expert whose pairs are order[begin, end).
void expert_strip(const Product& product, const ExpertsArgs& a, int64_t begin, int64_t end, int64_t index,
                  int64_t last) {
  Matrix w = product.w;
  const int32_t expert = a.ids[a.order[begin]];
  w.data += expert * product.expert_bytes;
  if (w.scale != nullptr) w.scale += expert;
  const int64_t segments = quant_segments(w.cols), pairs = end - begin;
  const int64_t at_once = columns_at_once(pairs);
  StripWork work;
  work.type = w.type;
  work.k = w.cols;
  work.integers = !product.xq.empty();
  for (int64_t p0 = 0; p0 < pairs; p0 += at_once) {
    const int64_t p1 = smaller(p0 + at_once, pairs);
    work.columns = static_cast<int>(p1 - p0);
    take_strips(w, index, last, work);
    for (int64_t p = p0; p < p1; ++p) {
      const int64_t pair = a.order[begin + p], row = pair / product.pairs_per_x;
      work.x[p - p0] = product.x + row * product.x_stride;
      work.q[p - p0] = product.xq.segments + row * segments;
      work.y[p - p0] = product.y + pair * w.rows + index * kStripRows;
    }
    multiply_strip(work);
  }
}

/// One or two products of the same shape. Threads share each expert's strips, because experts have unequal shares of the
/// pairs; only where there are too few strips for that, the experts.
void multiply_experts(device::Queue& queue, const ExpertsArgs& a, int64_t active, int64_t pairs, const Product& product,
                      const Product* second) {
  const int64_t strips = (product.w.rows + kStripRows - 1) / kStripRows;
  const int64_t threads = queue.pool != nullptr ? queue.pool->threads() : 1;
  const int64_t cost = strip_cost(product.w.cols, pairs) * (second != nullptr ? 2 : 1);
  // One matrix after the other: memory is fastest where a thread goes straight on.
  const auto each = [&](int64_t expert, int64_t begin, int64_t end) {
    for (const Product* p = &product; p != nullptr; p = p == second ? nullptr : second) {
      const int64_t first = a.first[expert], next = a.first[expert + 1];
      const int64_t at_once = strips_at_once(next - first, !p->xq.empty());
      for (int64_t i = begin; i < end; i += at_once) expert_strip(*p, a, first, next, i, smaller(i + at_once, end));
    }
  };
  if (strips % threads == 0 || strips >= 4 * threads) {
    for_each_range(queue, strips, cost, [&](int64_t begin, int64_t end) {
      for (int64_t expert = 0; expert < active; ++expert) each(expert, begin, end);
    });
  } else {
    for_each(queue, active * strips, cost / active,
             [&](int64_t unit) { each(unit / strips, unit % strips, unit % strips + 1); });
  }
}

/// y = sum of the experts' outputs by rank.
void add_ranks(const ExpertsArgs& a, int64_t row, int64_t hidden) {
  float* y = a.y + row * a.y_stride;
  const float* outputs = a.expert_out + row * a.used * hidden;
  const float* weights = a.weights + row * a.used;
  for_lanes(hidden, [&](int64_t i, auto lanes) {
    Vec acc = splat(0.0f);
    for (int64_t rank = 0; rank < a.used; ++rank) {
      acc = fma(splat(weights[rank]), load(outputs + rank * hidden + i, lanes), acc);
    }
    store(y + i, acc, lanes);
  });
}

}  // namespace

void experts(device::Queue& queue, const Batch& batch, const ExpertsArgs& a) {
  const int64_t pairs = int64_t{batch.rows} * a.used, ff = a.gate.rows, hidden = a.down.rows;
  float *gate = a.hidden, *up = a.hidden + pairs * ff;
  const QuantRows down_q = !a.xq.empty() && is_quantised(a.down.type) ? a.hidden_q : QuantRows{};
  const int64_t active = sort_pairs(a, pairs);
  const Product up_product{a.up, a.up_expert_bytes, a.x, a.x_stride, a.used, a.xq, up};
  multiply_experts(queue, a, active, pairs, {a.gate, a.gate_expert_bytes, a.x, a.x_stride, a.used, a.xq, gate},
                   &up_product);
  for_each(queue, pairs, 2 * ff, [&](int64_t pair) {
    float* h = gate + pair * ff;
    const float* u = up + pair * ff;
    for_lanes(ff, [&](int64_t i, auto lanes) { store(h + i, silu(load(h + i, lanes)) * load(u + i, lanes), lanes); });
    vec_check_row(batch, pair / a.used, h, ff);
    if (!down_q.empty()) simd::quantize_row(h, ff, down_q.segments + pair * quant_segments(ff));
  });
  multiply_experts(queue, a, active, pairs, {a.down, a.down_expert_bytes, gate, ff, 1, down_q, a.expert_out}, nullptr);
  for_each(queue, batch.rows, hidden * a.used / 4, [&](int64_t row) { add_ranks(a, row, hidden); });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
