// Vector kernels: causal convolutions of Gated DeltaNet and PLE, and the PLE gate. Lanes are channels.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/for_ranges.h"
#include "kernels/ref/history.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

constexpr int kMostTaps = 8;      // convolutions longer than this take the reference kernel
constexpr int64_t kStrip = 1024;  // channels of one unit of work: four kilobytes of every row

/// A tile's weights, from [channel][tap] to [tap][channel].
struct Taps {
  float w[kMostTaps][kStrip];

  Taps(const float* weights, int64_t channels, int64_t kernel) {
    int64_t c = 0;
    for (; kernel == 4 && c + kWidth <= channels; c += kWidth) {
      const float* from = weights + c * 4;
      Vec even0, odd0, even1, odd1, tap[4];
      deinterleave(load(from), load(from + kWidth), even0, odd0);
      deinterleave(load(from + 2 * kWidth), load(from + 3 * kWidth), even1, odd1);
      deinterleave(even0, even1, tap[0], tap[2]);
      deinterleave(odd0, odd1, tap[1], tap[3]);
      for (int t = 0; t < 4; ++t) store(w[t] + c, tap[t]);
    }
    for (; c < channels; ++c) {
      for (int64_t t = 0; t < kernel; ++t) w[t][c] = weights[c * kernel + t];
    }
  }
};

/// The chain of one tile over `kernel` rows of input, then silu.
template <typename Lanes>
EVROS_INLINE Vec convolve(const Taps& taps, const float* const* in, int64_t kernel, int64_t c, Lanes lanes) {
  Vec acc = splat(0.0f);
  for (int64_t t = 0; t < kernel; ++t) acc = fma(load(taps.w[t] + c, lanes), load(in[t] + c, lanes), acc);
  return silu(acc);
}

/// dot_chain() of chains.h: the segments' chains side by side, because one alone waits for its own last step.
float segmented_dot(const float* a, const float* b, int64_t n) {
  constexpr int kChains = 8;
  float y = 0.0f;
  int64_t begin = 0;
  for (; begin + kChains * kSegment <= n; begin += kChains * kSegment) {
    float acc[kChains] = {};
    for (int64_t k = begin; k < begin + kSegment; ++k) {
      for (int c = 0; c < kChains; ++c) acc[c] = kernels::fma(a[k + c * kSegment], b[k + c * kSegment], acc[c]);
    }
    for (int c = 0; c < kChains; ++c) y = begin == 0 && c == 0 ? acc[0] : y + acc[c];
  }
  for (; begin < n; begin += kSegment) {
    const float acc = dot_chain(a + begin, b + begin, smaller(kSegment, n - begin));
    y = begin == 0 ? acc : y + acc;
  }
  return y;
}

}  // namespace

void gdn_conv(device::Queue& queue, const Batch& batch, const GdnConvArgs& a) {
  if (a.kernel > kMostTaps) return kernels::gdn_conv(queue, batch, a);
  for_each(queue, (a.channels + kStrip - 1) / kStrip, kStrip * 4 * batch.rows, [&](int64_t tile) {
    const int64_t c0 = tile * kStrip, columns = smaller(kStrip, a.channels - c0), last = a.kernel - 1;
    const Taps taps(a.w + c0 * a.kernel, columns, a.kernel);
    for (int64_t s = 0; s < batch.sequences; ++s) {
      const SequenceRows& sequence = batch.sequence[s];
      const RowsWithHistory x(sequence, a.x, a.x_stride, a.bank_offset, last, a.channels);
      for (int64_t t = 0; t < sequence.rows; ++t) {
        const float* in[kMostTaps];
        for (int64_t tap = 0; tap < a.kernel; ++tap) in[tap] = x.row(t - last + tap) + c0;
        float* y = a.y + (sequence.first_row + t) * a.y_stride + c0;
        for_lanes(columns, [&](int64_t c, auto lanes) { store(y + c, convolve(taps, in, a.kernel, c, lanes), lanes); });
      }
      x.keep(sequence, a.bank_offset, c0, c0 + columns);
    }
  });
}

void ple_gate(device::Queue& queue, const Batch& batch, const PleGateArgs& a) {
  const float root = kernels::sqrt(static_cast<float>(a.hidden));
  for_each(queue, int64_t{batch.rows} * a.hc, 2 * a.hidden, [&](int64_t unit) {
    const int64_t r = unit / a.hc, first = unit % a.hc * a.hidden;
    const float s = segmented_dot(a.key + r * a.stride + first, a.query + r * a.stride + first, a.hidden) / root;
    check_row(batch, r, &s, 1);
    const float size = kernels::abs(s), magnitude = kernels::sqrt(size > 1e-6f ? size : 1e-6f);
    const Vec w = splat(s == 0.0f ? 0.5f : sigmoid(s < 0.0f ? -magnitude : magnitude));
    const float* value = a.value + r * a.value_stride;
    float* gv = a.gv + r * a.gv_stride + first;
    for_lanes(a.hidden, [&](int64_t i, auto lanes) { store(gv + i, w * load(value + i, lanes), lanes); });
  });
}

void ple_conv(device::Queue& queue, const Batch& batch, const PleConvArgs& a) {
  if (a.kernel > kMostTaps) return kernels::ple_conv(queue, batch, a);
  const int64_t reach = int64_t{a.kernel - 1} * a.dilation;
  for_each(queue, (a.channels + kStrip - 1) / kStrip, kStrip * 4 * batch.rows, [&](int64_t tile) {
    const int64_t c0 = tile * kStrip, columns = smaller(kStrip, a.channels - c0);
    const Taps taps(a.w + c0 * a.kernel, columns, a.kernel);
    for (int64_t s = 0; s < batch.sequences; ++s) {
      const SequenceRows& sequence = batch.sequence[s];
      const RowsWithHistory normed(sequence, a.normed, a.stride, a.bank_offset, reach, a.channels);
      for (int64_t t = 0; t < sequence.rows; ++t) {
        const int64_t r = sequence.first_row + t;
        const float* in[kMostTaps];
        for (int64_t tap = 0; tap < a.kernel; ++tap) in[tap] = normed.row(t - reach + tap * a.dilation) + c0;
        const float* gv = a.gv + r * a.stride + c0;
        float* x = a.x + r * a.x_stride + c0;
        float* added = a.added != nullptr ? a.added + r * a.added_stride + c0 : nullptr;
        for_lanes(columns, [&](int64_t c, auto lanes) {
          const Vec sum = load(gv + c, lanes) + convolve(taps, in, a.kernel, c, lanes);
          store(x + c, load(x + c, lanes) + sum, lanes);
          if (added != nullptr) store(added + c, sum, lanes);
        });
      }
      normed.keep(sequence, a.bank_offset, c0, c0 + columns);
    }
  });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
