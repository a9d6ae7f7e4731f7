// The numerics id: everything that changes bits, besides the weight file and the tokens (docs/numerics.md).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/kernels.h"

namespace evros::model {

struct Numerics {
  kernels::CacheType kv = kernels::CacheType::f16;
  bool float_activations = false;  // N1-f32: quantised weights are dequantised and multiplied by the float rule

  /// "N1/kv=f16,ix=f32".
  std::string id() const;
};

/// "f32", "f16", "bf16"; anything else is an error that says so.
Result<kernels::CacheType> parse_cache_type(std::string_view name);
/// "N1" or "N1-f32".
Result<bool> parse_float_activations(std::string_view name);

}  // namespace evros::model
