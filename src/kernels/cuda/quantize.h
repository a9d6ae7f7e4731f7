// Quantisation of activations by warps, a lane per element of a group of 32.
#pragma once

#include "kernels/cuda/grid.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Group `group` of a row whose segments begin at `segments`; x is this lane's element of it. All lanes of the warp call it;
/// they get false when an element is not finite (the group is then zero).
__device__ inline bool quantize_group(float x, QuantSegment* segments, int64_t group) {
  const int lane = lane_index();
  QuantSegment& out = segments[group / 8];
  const int64_t place = group % 8;
  const bool clean = __ballot_sync(kAllLanes, !is_finite(x)) == 0;
  float amax = abs(x);
  for (int h = kWarp / 2; h >= 1; h /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, amax, h);
    amax = other > amax ? other : amax;
  }
  const bool zero = !clean || amax < 0x1p-100f;
  const float inverse = zero ? 0.0f : 127.0f / amax;
  const int32_t q = zero ? 0 : static_cast<int32_t>(round_even(x * inverse));
  out.q[32 * place + lane] = static_cast<int8_t>(q);
  int32_t sum = q;
  for (int h = 8; h >= 1; h /= 2) sum += __shfl_xor_sync(kAllLanes, sum, h);
  if (lane % 16 == 0) out.sum[2 * place + lane / 16] = static_cast<int16_t>(sum);
  if (lane == 0) out.d[place] = zero ? 0.0f : amax / 127.0f;
  return clean;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
