// Vector kernel: the router's softmax and ranking.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/for_ranges.h"
#include "kernels/ref/ranking.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

float largest_logit(const float* logits, int64_t n) {
  Vec m = splat(logits[0]);
  int64_t e = 0;
  for (; e + kWidth <= n; e += kWidth) m = larger(load(logits + e), m);
  float most = largest(m);
  for (; e < n; ++e) most = logits[e] > most ? logits[e] : most;
  return most;
}

/// The sum of exp(logit - m) over strided partials; a lane beyond the end keeps its partial.
float exponential_sum(const float* logits, int64_t n, Vec m) {
  StridedSum sum;
  for (int64_t i = 0; i < n; i += kStrides) {
    for (int j = 0; j < StridedSum::kParts && i + j * kWidth < n; ++j) {
      const int64_t at = i + j * kWidth, left = n - at;
      if (left >= kWidth) {
        sum.part[j] = sum.part[j] + exp(load(logits + at) - m);
      } else {
        float tail[kWidth] = {};
        store(tail, exp(load(logits + at, Part(left)) - m), Part(left));
        sum.part[j] = sum.part[j] + load(tail);
      }
    }
  }
  return sum.total();
}

void route(const RouterArgs& a, const float* logits, int32_t* ids, float* weights) {
  const Vec m = splat(largest_logit(logits, a.experts));
  const Vec sum = splat(exponential_sum(logits, a.experts, m));
  for_lanes(a.experts, [&](int64_t e, auto lanes) {
    float p[kWidth];
    store(p, exp(load(logits + e, lanes) - m) / sum);
    for (int64_t i = 0; i < smaller(kWidth, a.experts - e); ++i) {
      rank_expert(static_cast<int32_t>(e + i), p[i], a.used, ids, weights);
    }
  });
  if (a.normalise) share_weights(a.used, weights);
}

}  // namespace

void router(device::Queue& queue, const Batch& batch, const RouterArgs& a) {
  for_each(queue, batch.rows, 4 * a.experts, [&](int64_t r) {
    const float* logits = a.logits + r * a.stride;
    int32_t* ids = a.ids + r * a.used;
    float* weights = a.weights + r * a.used;
    if (vec_all_finite(logits, a.experts)) return route(a, logits, ids, weights);
    set_status(batch, r, kNonFinite);
    rank_nothing(a.used, ids, weights);
  });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
