// Where quantised blocks keep their scales, for those who make blocks of types that Evros only reads: random bytes are weights of
// every such type, but scales among them would be NaN, or of no sensible size. Layouts: docs/model.md 6.4.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "format/tensor_type.h"
#include "kernels/codec/float16.h"

namespace evros::kernels {

/// Where a block of a quantised type keeps its half precision scales. IQ1_M has one in four pieces, MXFP4 and NVFP4 have bytes.
inline std::vector<int64_t> half_scales_of(format::TensorType type) {
  using enum format::TensorType;
  switch (type) {
    case q4_1:
    case q5_1:
    case q4_k:
    case q5_k:
      return {0, 2};
    case q2_k:
      return {80, 82};
    case q3_k:
      return {108};
    case q6_k:
      return {208};
    case tq1_0:
      return {52};
    case tq2_0:
      return {64};
    case iq1_m:
    case mxfp4:
    case nvfp4:
      return {};
    default:
      return {0};
  }
}

/// Gives a block of a quantised type the scale `half()`, asked again for a second one. A byte for a scale stays near 1.
template <typename Half>
void set_scales(format::TensorType type, std::byte* block, const Half& half) {
  for (const int64_t at : half_scales_of(type)) {
    const uint16_t scale = half();
    std::memcpy(block + at, &scale, sizeof scale);
  }
  if (type == format::TensorType::iq1_m) {
    const uint16_t scale = half();
    for (int i = 0; i < 4; ++i) {
      std::byte& high = block[49 + 2 * i];
      high = (high & std::byte{0x0f}) | static_cast<std::byte>((scale >> (4 * i) & 15) << 4);
    }
  }
  if (type == format::TensorType::mxfp4) block[0] = static_cast<std::byte>(118 + half() % 8);
  if (type == format::TensorType::nvfp4) {
    for (int i = 0; i < 4; ++i) block[i] &= std::byte{0x3f};
  }
}

/// Gives a block of a type that Evros only reads the scale `scale`, above 0, or the nearest that the type can hold, and with it
/// what moves random weights of Q4_1 and Q2_K about 0.
inline void set_scale(format::TensorType type, float scale, std::byte* block) {
  const float middle =
      type == format::TensorType::q4_1 ? -7.5f : 1.5f;  // of 0 ... 15, added, and of 0 ... 3, subtracted
  bool first = true;
  set_scales(type, block, [&] { return f32_to_f16(std::exchange(first, false) ? scale : middle * scale); });
  const int power = std::ilogb(scale);
  if (type == format::TensorType::mxfp4) block[0] = static_cast<std::byte>(std::clamp(128 + power, 1, 254));
  if (type == format::TensorType::nvfp4) {  // half of E4M3: above 2^-7 powers of two, below it multiples of 2^-10
    const int code = power < -7 ? std::clamp(static_cast<int>(scale * 1024.0f), 1, 7) : std::min(8 + power, 15) << 3;
    std::fill_n(block, 4, static_cast<std::byte>(code));
  }
}

}  // namespace evros::kernels
