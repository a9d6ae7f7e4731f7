#include "model/numerics.h"

#include "base/str.h"

namespace evros::model {

std::string Numerics::id() const {
  const char* cache = kv == kernels::CacheType::f32 ? "f32" : kv == kernels::CacheType::f16 ? "f16" : "bf16";
  return cat(float_activations ? "N1-f32" : "N1", "/kv=", cache, ",ix=f32");
}

Result<kernels::CacheType> parse_cache_type(std::string_view name) {
  if (name == "f32") return kernels::CacheType::f32;
  if (name == "f16") return kernels::CacheType::f16;
  if (name == "bf16") return kernels::CacheType::bf16;
  return Error{Code::invalid_argument, cat("the K/V cache type is \"", name, "\"; it can be f32, f16 or bf16")};
}

Result<bool> parse_float_activations(std::string_view name) {
  if (name == "N1") return false;
  if (name == "N1-f32") return true;
  return Error{Code::invalid_argument, cat("the numerics are \"", name, "\"; they can be N1 or N1-f32")};
}

}  // namespace evros::model
