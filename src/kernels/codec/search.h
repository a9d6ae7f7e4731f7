// What the quantisers of formats with scales of scales share: fits of least weighted squared error to one group. An element
// weighs its group's root mean square plus its own magnitude (large weights matter more, small ones not nothing), times what
// its column weighs, where an importance matrix says that.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/float16.h"
#include "kernels/math.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// The nearest integer in [low, high]; low for a NaN.
EVROS_INLINE int32_t round_between(float x, int32_t low, int32_t high) {
  const float bottom = static_cast<float>(low), top = static_cast<float>(high);
  return static_cast<int32_t>(round_even(x > bottom ? (x < top ? x : top) : bottom));
}

/// x ~ scale * q - minimum, q in [0, kTop]; scale and minimum are not negative.
struct AffineFit {
  float scale, minimum;
};

constexpr int kAffineGroup = 32, kSignedGroup = 16;

/// q in [0, kTop] of which scale * q - minimum is nearest to x; inverse = 1 / scale, or 0 for a scale of 0.
template <int32_t kTop>
EVROS_INLINE int32_t nearest_level(float x, float inverse, float minimum) {
  return round_between((x + minimum) * inverse, 0, kTop);
}

EVROS_INLINE float inverse_or_zero(float scale) { return scale > 0.0f ? 1.0f / scale : 0.0f; }

template <int kGroup>
struct ElementWeights {
  float w[kGroup];
  /// `columns`: what the column of each element weighs, or null.
  explicit ElementWeights(const float* x, const float* columns = nullptr) {
    float squares = 0.0f;
    for (int i = 0; i < kGroup; ++i) squares += x[i] * x[i];
    const float mean = sqrt(squares / static_cast<float>(kGroup));
    for (int i = 0; i < kGroup; ++i) w[i] = mean + abs(x[i]);
    for (int i = 0; i < kGroup && columns != nullptr; ++i) w[i] *= columns[i];
  }
};

/// Weighted squared error of a group of 32 under this scale and minimum.
template <int32_t kTop>
inline float affine_error(const float* x, const float* w, float scale, float minimum) {
  const float inverse = inverse_or_zero(scale);
  float error = 0.0f;
  for (int i = 0; i < kAffineGroup; ++i) {
    const float miss = scale * static_cast<float>(nearest_level<kTop>(x[i], inverse, minimum)) - minimum - x[i];
    error += w[i] * (miss * miss);
  }
  return error;
}

/// For levels q fixed, the scale and the minimum (held at zero where it would be negative) of least weighted squares.
inline AffineFit solve_affine(const float* x, const float* w, const int32_t* q) {
  float sw = 0.0f, swq = 0.0f, swqq = 0.0f, swx = 0.0f, swqx = 0.0f;
  for (int i = 0; i < kAffineGroup; ++i) {
    const float level = static_cast<float>(q[i]);
    sw += w[i];
    swq += w[i] * level;
    swqq += w[i] * (level * level);
    swx += w[i] * x[i];
    swqx += w[i] * (level * x[i]);
  }
  const float determinant = sw * swqq - swq * swq;
  if (determinant > 0.0f) {
    const AffineFit fit{(sw * swqx - swq * swx) / determinant, (swq * swqx - swqq * swx) / determinant};
    if (fit.minimum >= 0.0f) return fit;
  }
  return {swqq > 0.0f ? swqx / swqq : 0.0f, 0.0f};
}

/// Searches around the group's range: levels from a slightly narrower or wider grid, then the best scale and minimum for
/// these levels.
template <int32_t kTop>
inline AffineFit fit_affine(const float* x, const float* columns) {
  constexpr int kTries = 16;
  float low = 0.0f, high = x[0];
  for (int i = 0; i < kAffineGroup; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  if (!(high > low)) return {0.0f, -low};
  const ElementWeights<kAffineGroup> weights(x, columns);
  AffineFit best{(high - low) / static_cast<float>(kTop), -low};
  float best_error = affine_error<kTop>(x, weights.w, best.scale, best.minimum);
  for (int t = 0; t < kTries; ++t) {
    const float inverse = (static_cast<float>(kTop) - 1.5f + 0.15f * static_cast<float>(t)) / (high - low);
    int32_t q[kAffineGroup];
    for (int i = 0; i < kAffineGroup; ++i) q[i] = nearest_level<kTop>(x[i], inverse, -low);
    const AffineFit fit = solve_affine(x, weights.w, q);
    const float error = fit.scale > 0.0f ? affine_error<kTop>(x, weights.w, fit.scale, fit.minimum) : best_error;
    if (!(error < best_error)) continue;
    best_error = error;
    best = fit;
  }
  return best;
}

/// 256 elements as Q4_K (kTop 15) and Q5_K (31) hold them: per group of 32 a scale and a minimum of least weighted squared error,
/// rounded to six bits of the block's largest, then moved by one step where that lowers the error again.
template <int32_t kTop>
class AffineBlock {
 public:
  static constexpr int kGroups = 8;

  /// `columns`: what the columns of the 256 elements weigh, or null.
  AffineBlock(const float* in, const float* columns) {
    const auto of_group = [&](int g) { return columns == nullptr ? nullptr : columns + g * kAffineGroup; };
    AffineFit fit[kGroups];
    float top_scale = 0.0f, top_minimum = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      fit[g] = fit_affine<kTop>(in + g * kAffineGroup, of_group(g));
      top_scale = fit[g].scale > top_scale ? fit[g].scale : top_scale;
      top_minimum = fit[g].minimum > top_minimum ? fit[g].minimum : top_minimum;
    }
    d_bits_ = f32_to_f16(top_scale / 63.0f);
    dmin_bits_ = f32_to_f16(top_minimum / 63.0f);
    for (int g = 0; g < kGroups; ++g) quantise(g, in + g * kAffineGroup, of_group(g), fit[g]);
  }

  uint32_t level(int g, int i) const { return level_[g * kAffineGroup + i]; }

  /// d, dmin and the twelve bytes of scales and minima (Q4_K says where), over 16 bytes of zeros.
  void write_head(std::byte* block) const {
    __builtin_memcpy(block, &d_bits_, sizeof d_bits_);
    __builtin_memcpy(block + 2, &dmin_bits_, sizeof dmin_bits_);
    const auto set_bits = [&](int at, uint32_t bits) {
      block[at] = static_cast<std::byte>(static_cast<uint32_t>(block[at]) | bits);
    };
    for (int g = 0; g < kGroups; ++g) {
      const uint32_t scale = scale_[g], minimum = minimum_[g];
      if (g < 4) {
        set_bits(4 + g, scale);
        set_bits(8 + g, minimum);
      } else {
        set_bits(8 + g, (scale & 15u) | ((minimum & 15u) << 4));
        set_bits(g, scale >> 4 << 6);
        set_bits(4 + g, minimum >> 4 << 6);
      }
    }
  }

 private:
  void quantise(int g, const float* in, const float* columns, const AffineFit& fit) {
    const float d = f16_to_f32(d_bits_), dmin = f16_to_f32(dmin_bits_);
    int32_t scale = step_of(fit.scale, d), minimum = step_of(fit.minimum, dmin);
    improve(in, columns, d, dmin, scale, minimum);
    scale_[g] = static_cast<uint8_t>(scale);
    minimum_[g] = static_cast<uint8_t>(minimum);
    const float inverse = inverse_or_zero(d * static_cast<float>(scale)), low = dmin * static_cast<float>(minimum);
    for (int i = 0; i < kAffineGroup; ++i) {
      level_[g * kAffineGroup + i] = static_cast<uint8_t>(nearest_level<kTop>(in[i], inverse, low));
    }
  }

  static EVROS_INLINE int32_t step_of(float value, float unit) {
    return unit > 0.0f ? round_between(value / unit, 0, 63) : 0;
  }

  /// Tries the neighbours of both steps.
  static void improve(const float* in, const float* columns, float d, float dmin, int32_t& scale, int32_t& minimum) {
    const ElementWeights<kAffineGroup> weights(in, columns);
    const int32_t scale_from = scale, minimum_from = minimum;
    float best = affine_error<kTop>(in, weights.w, d * static_cast<float>(scale), dmin * static_cast<float>(minimum));
    for (int32_t s = scale_from - 1; s <= scale_from + 1; ++s) {
      for (int32_t m = minimum_from - 1; m <= minimum_from + 1; ++m) {
        if (s < 0 || s > 63 || m < 0 || m > 63) continue;
        const float error = affine_error<kTop>(in, weights.w, d * static_cast<float>(s), dmin * static_cast<float>(m));
        if (!(error < best)) continue;
        best = error;
        scale = s;
        minimum = m;
      }
    }
  }

  uint16_t d_bits_, dmin_bits_;
  uint8_t scale_[kGroups], minimum_[kGroups];
  uint8_t level_[kGroups * kAffineGroup];
};

/// x ~ scale * q, q in [-32, 31], for a group of 16; 0 for a group of zeros; columns as above. For levels q the best scale leaves the error
/// sum w x x - (sum w q x)^2 / sum w q q, so the largest quotient wins.
inline float fit_signed(const float* x, const float* columns) {
  constexpr int kTries = 17;
  float extreme = 0.0f;
  for (int i = 0; i < kSignedGroup; ++i) extreme = abs(x[i]) > abs(extreme) ? x[i] : extreme;
  if (extreme == 0.0f) return 0.0f;
  const ElementWeights<kSignedGroup> weights(x, columns);
  float best = extreme / -32.0f, best_gain = 0.0f;
  for (int t = 0; t < kTries; ++t) {
    const float inverse = (-31.2f - 0.1f * static_cast<float>(t)) / extreme;
    float swqx = 0.0f, swqq = 0.0f;
    for (int i = 0; i < kSignedGroup; ++i) {
      const float q = static_cast<float>(round_between(x[i] * inverse, -32, 31));
      swqx += weights.w[i] * (q * x[i]);
      swqq += weights.w[i] * (q * q);
    }
    if (!(swqq > 0.0f) || !(swqx * swqx / swqq > best_gain)) continue;
    best_gain = swqx * swqx / swqq;
    best = swqx / swqq;
  }
  return best;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
