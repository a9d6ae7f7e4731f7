// Vector kernels whose outputs depend on few inputs each: activations, gates, hyper-connections, quantisation, checks.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/for_ranges.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

// Columns that one unit of work takes, so that the threads share even a single row.
constexpr int64_t kSpan = 1024;

/// body(row, first column, columns) over rows of `width` in spans; cost is that of one column.
template <typename Body>
void for_spans(device::Queue& queue, int64_t rows, int64_t width, int64_t cost, const Body& body) {
  const int64_t spans = (width + kSpan - 1) / kSpan;
  for_each(queue, rows * spans, smaller(width, kSpan) * cost, [&](int64_t unit) {
    const int64_t begin = unit % spans * kSpan;
    body(unit / spans, begin, smaller(kSpan, width - begin));
  });
}

/// The sum of 16 bytes. The instruction for it takes unsigned ones: 128 more each.
EVROS_INLINE int16_t sum_16(const int8_t* q) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
  const __m128i sums = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return static_cast<int16_t>(_mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128);
}

/// A group of 32 values as integers in [-127, 127].
EVROS_INLINE void quantize_group(const float* x, float inverse, int8_t* q) {
  const Vec factor = splat(inverse), shift = splat(12582912.0f);
  for (int i = 0; i < 32; i += static_cast<int>(kWidth)) {
    store_i8(q + i, truncate((load(x + i) * factor + shift) - shift));  // round_even()
  }
}

}  // namespace

bool quantize_row(const float* x, int64_t n, QuantSegment* out) {
  bool finite = true;
  for (int64_t g = 0; g < n / 32; ++g, x += 32) {
    QuantSegment& segment = out[g / 8];
    const int64_t place = g % 8;
    int8_t* q = segment.q + 32 * place;
    Vec amax = splat(0.0f);
    Mask bad = not_finite(load(x));
    for (int i = 0; i < 32; i += static_cast<int>(kWidth)) {
      const Vec part = load(x + i);
      amax = larger(abs(part), amax);
      bad = bad | not_finite(part);
    }
    const float extreme = largest(amax);
    const bool clean = !any(bad), zero = !clean || extreme < 0x1p-100f;
    finite = finite && clean;
    segment.d[place] = zero ? 0.0f : extreme / 127.0f;
    if (zero) {
      for (int i = 0; i < 32; ++i) q[i] = 0;
    } else {
      quantize_group(x, 127.0f / extreme, q);
    }
    segment.sum[2 * place] = sum_16(q);
    segment.sum[2 * place + 1] = sum_16(q + 16);
  }
  return finite;
}

void quantize(device::Queue& queue, const Batch& batch, const QuantizeArgs& a) {
  for_spans(queue, batch.rows, a.cols, 1, [&](int64_t r, int64_t begin, int64_t n) {
    if (!quantize_row(a.x + r * a.x_stride + begin, n,
                      a.out.segments + r * quant_segments(a.cols) + begin / kSegment)) {
      set_status(batch, r, kNonFinite);
    }
  });
}

void swiglu(device::Queue& queue, const Batch& batch, const SwigluArgs& a) {
  for_spans(queue, batch.rows, a.width, 2, [&](int64_t r, int64_t begin, int64_t n) {
    const float *gate = a.gate + r * a.gate_stride + begin, *up = a.up + r * a.up_stride + begin;
    float* y = a.y + r * a.y_stride + begin;
    for_lanes(n,
              [&](int64_t i, auto lanes) { store(y + i, silu(load(gate + i, lanes)) * load(up + i, lanes), lanes); });
  });
}

void check_finite(device::Queue& queue, const Batch& batch, const CheckFiniteArgs& a) {
  for_each(queue, batch.rows, a.width / 8, [&](int64_t r) { vec_check_row(batch, r, a.x + r * a.x_stride, a.width); });
}

void hc_low(device::Queue& queue, const Batch& batch, const HcLowArgs& a) {
  const Vec ih = splat(1.0f / static_cast<float>(a.hc));
  for_each(queue, batch.rows, 2 * a.rank, [&](int64_t r) {
    float* lo = a.lo + r * a.stride;
    for_lanes(a.rank, [&](int64_t i, auto lanes) { store(lo + i, silu(load(lo + i, lanes) * ih), lanes); });
  });
}

void hc_mix(device::Queue& queue, const Batch& batch, const HcMixArgs& a) {
  const Vec ih = splat(1.0f / static_cast<float>(a.hc));
  for_spans(queue, batch.rows, a.hidden, 2 * a.hc, [&](int64_t r, int64_t begin, int64_t n) {
    const float *up = a.up + r * a.stride + begin, *normed = a.normed + r * a.stride + begin;
    float* u = a.u + r * a.u_stride + begin;
    for_lanes(n, [&](int64_t i, auto lanes) {
      Vec acc = splat(0.0f);
      for (int64_t s = 0; s < a.hc; ++s) {
        const int64_t at = s * a.hidden + i;
        acc = fma(sigmoid(load(up + at, lanes)), load(normed + at, lanes), acc);
      }
      store(u + i, acc * ih, lanes);
    });
  });
}

void hc_write(device::Queue& queue, const Batch& batch, const HcWriteArgs& a) {
  const float ih = 1.0f / static_cast<float>(a.hc);
  for_each(queue, int64_t{batch.rows} * a.hc, a.hidden / 4, [&](int64_t unit) {
    const int64_t r = unit / a.hc, s = unit % a.hc;
    const float* y = a.y + r * a.y_stride;
    float* x = a.x + r * a.x_stride + s * a.hidden;
    const Vec amount = splat(2.0f * sigmoid(a.inject[r * a.hc + s] * ih));
    for_lanes(a.hidden,
              [&](int64_t i, auto lanes) { store(x + i, fma(amount, load(y + i, lanes), load(x + i, lanes)), lanes); });
  });
}

void gdn_gates(device::Queue& queue, const Batch& batch, const GdnGatesArgs& a) {
  for_each(queue, batch.rows, 4 * a.value_heads, [&](int64_t r) {
    float *alpha = a.alpha + r * a.stride, *beta = a.beta + r * a.stride;
    for_lanes(a.value_heads, [&](int64_t h, auto lanes) {
      store(alpha + h, exp(load(a.a + h, lanes) * softplus(load(alpha + h, lanes) + load(a.dt + h, lanes))), lanes);
      store(beta + h, sigmoid(load(beta + h, lanes)), lanes);
    });
  });
}

void head_gate(device::Queue& queue, const Batch& batch, const HeadGateArgs& a) {
  for_each(queue, int64_t{batch.rows} * a.heads, 2 * a.width, [&](int64_t unit) {
    const int64_t r = unit / a.heads, head = unit % a.heads;
    float* out = a.out + r * a.out_stride + head * a.width;
    const float* gate = a.gate + r * a.gate_stride + head * a.gate_head_stride;
    for_lanes(a.width, [&](int64_t i, auto lanes) {
      store(out + i, load(out + i, lanes) * sigmoid(load(gate + i, lanes)), lanes);
    });
  });
}

void shared_add(device::Queue& queue, const Batch& batch, const SharedAddArgs& a) {
  for_each(queue, batch.rows, a.width / 4, [&](int64_t r) {
    const Vec gate = splat(sigmoid(a.gate[r]));
    const float* shared = a.shared + r * a.shared_stride;
    float* y = a.y + r * a.y_stride;
    for_lanes(a.width, [&](int64_t i, auto lanes) {
      store(y + i, fma(gate, load(shared + i, lanes), load(y + i, lanes)), lanes);
    });
  });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
