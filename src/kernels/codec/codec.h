// Every weight format that the kernels multiply with. A codec names its block (kBlock elements in kBytes bytes) and gives
// decode, encode, finite and, when kQuantised, decode_groups: weight integers and, per group of kGroup elements, scales and
// (kMinimum) minima for the integer chain.
#pragma once

#include "format/tensor_type.h"
#include "kernels/codec/bf16.h"
#include "kernels/codec/f16.h"
#include "kernels/codec/f32.h"
#include "kernels/codec/q4_0.h"
#include "kernels/codec/q4_k.h"
#include "kernels/codec/q6_k.h"
#include "kernels/codec/q8_0.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Calls use.operator()<Codec>() for the codec of a type: the one place that knows all formats. The caller has asked
/// can_multiply(). Host code only.
template <typename Use>
inline __attribute__((always_inline)) void with_codec(format::TensorType type, const Use& use) {
  switch (type) {
    case format::TensorType::f32:
      return use.template operator()<F32>();
    case format::TensorType::f16:
      return use.template operator()<F16>();
    case format::TensorType::bf16:
      return use.template operator()<Bf16>();
    case format::TensorType::q8_0:
      return use.template operator()<Q8_0>();
    case format::TensorType::q4_0:
      return use.template operator()<Q4_0>();
    case format::TensorType::q4_k:
      return use.template operator()<Q4_K>();
    case format::TensorType::q6_k:
      return use.template operator()<Q6_K>();
    default:
      __builtin_trap();
  }
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
