// Every weight format that the kernels multiply with. A codec names its block (kBlock elements in kBytes bytes) and gives
// decode, finite, encode where Evros writes the format, and, when kQuantised, decode_groups: weight integers and, per group of kGroup elements, scales and
// (kMinimum) minima for the integer chain.
#pragma once

#include "format/tensor_type.h"
#include "kernels/codec/bf16.h"
#include "kernels/codec/f16.h"
#include "kernels/codec/f32.h"
#include "kernels/codec/fp4.h"
#include "kernels/codec/iq1.h"
#include "kernels/codec/iq2.h"
#include "kernels/codec/iq3.h"
#include "kernels/codec/iq4.h"
#include "kernels/codec/q2_k.h"
#include "kernels/codec/q4_0.h"
#include "kernels/codec/q4_1.h"
#include "kernels/codec/q4_k.h"
#include "kernels/codec/q5_k.h"
#include "kernels/codec/q6_k.h"
#include "kernels/codec/q8_0.h"
#include "kernels/codec/tq.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Calls use.operator()<Codec>() for the codec of a type: the one place that knows all formats. False for a type without one.
/// Host code only.
template <typename Use>
inline __attribute__((always_inline)) bool find_codec(format::TensorType type, const Use& use) {
  using enum format::TensorType;
  // clang-format off
  switch (type) {
    case f32: use.template operator()<F32>(); return true;
    case f16: use.template operator()<F16>(); return true;
    case bf16: use.template operator()<Bf16>(); return true;
    case q8_0: use.template operator()<Q8_0>(); return true;
    case q4_0: use.template operator()<Q4_0>(); return true;
    case q4_1: use.template operator()<Q4_1>(); return true;
    case q5_0: use.template operator()<Q5_0>(); return true;
    case q5_1: use.template operator()<Q5_1>(); return true;
    case q2_k: use.template operator()<Q2_K>(); return true;
    case q3_k: use.template operator()<Q3_K>(); return true;
    case q4_k: use.template operator()<Q4_K>(); return true;
    case q5_k: use.template operator()<Q5_K>(); return true;
    case q6_k: use.template operator()<Q6_K>(); return true;
    case iq4_nl: use.template operator()<IQ4_NL>(); return true;
    case iq4_xs: use.template operator()<IQ4_XS>(); return true;
    case iq3_xxs: use.template operator()<IQ3_XXS>(); return true;
    case iq3_s: use.template operator()<IQ3_S>(); return true;
    case iq2_xxs: use.template operator()<IQ2_XXS>(); return true;
    case iq2_xs: use.template operator()<IQ2_XS>(); return true;
    case iq2_s: use.template operator()<IQ2_S>(); return true;
    case iq1_s: use.template operator()<IQ1_S>(); return true;
    case iq1_m: use.template operator()<IQ1_M>(); return true;
    case tq1_0: use.template operator()<TQ1_0>(); return true;
    case tq2_0: use.template operator()<TQ2_0>(); return true;
    case mxfp4: use.template operator()<MXFP4>(); return true;
    case nvfp4: use.template operator()<NVFP4>(); return true;
    default: return false;
  }
  // clang-format on
}

/// The same for a type that can_multiply(), which the caller has asked.
template <typename Use>
inline __attribute__((always_inline)) void with_codec(format::TensorType type, const Use& use) {
  if (!find_codec(type, use)) __builtin_trap();
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
