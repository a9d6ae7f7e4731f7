// Every tensor type of ggml, known by size; what Evros can multiply with is the kernels' business. Ids, block lengths
// and block bytes: GGUF format document and docs/model.md section 6.4.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evros::format {

enum class TensorType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};

struct TypeInfo {
  TensorType type;
  std::string_view name;    // as ggml spells it: "Q4_K"
  uint32_t block_elements;  // elements of one block along ne0
  uint32_t block_bytes;
  bool quantised;  // integers with scales, as opposed to plain numbers
};

/// Nothing for an id that is unknown or retired.
std::optional<TypeInfo> type_info(uint32_t id);
/// The entry of a type; every enumerator has one.
const TypeInfo& type_info(TensorType type);
/// By ggml's name, any case.
std::optional<TensorType> type_by_name(std::string_view name);

/// Whether this version multiplies with weights of the type: floats, and quantised types but those without a kernel.
bool can_run(TensorType type);
/// "F32, F16, BF16 and every quantised type but Q8_1, ...": the types that can_run(), for messages.
std::string runnable_types();

/// Bytes of one row of `elements`, a multiple of the block (CHECKed).
uint64_t row_bytes(TensorType type, uint64_t elements);

}  // namespace evros::format
