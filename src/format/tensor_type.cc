#include "format/tensor_type.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/check.h"

namespace evros::format {
namespace {

using enum TensorType;

// In id order; ids that are missing (4, 5, 31-33, 36-38) are retired.
constexpr std::array kTypes = {
    TypeInfo{f32, "F32", 1, 4, false},
    TypeInfo{f16, "F16", 1, 2, false},
    TypeInfo{q4_0, "Q4_0", 32, 18, true},
    TypeInfo{q4_1, "Q4_1", 32, 20, true},
    TypeInfo{q5_0, "Q5_0", 32, 22, true},
    TypeInfo{q5_1, "Q5_1", 32, 24, true},
    TypeInfo{q8_0, "Q8_0", 32, 34, true},
    TypeInfo{q8_1, "Q8_1", 32, 36, true},
    TypeInfo{q2_k, "Q2_K", 256, 84, true},
    TypeInfo{q3_k, "Q3_K", 256, 110, true},
    TypeInfo{q4_k, "Q4_K", 256, 144, true},
    TypeInfo{q5_k, "Q5_K", 256, 176, true},
    TypeInfo{q6_k, "Q6_K", 256, 210, true},
    TypeInfo{q8_k, "Q8_K", 256, 292, true},
    TypeInfo{iq2_xxs, "IQ2_XXS", 256, 66, true},
    TypeInfo{iq2_xs, "IQ2_XS", 256, 74, true},
    TypeInfo{iq3_xxs, "IQ3_XXS", 256, 98, true},
    TypeInfo{iq1_s, "IQ1_S", 256, 50, true},
    TypeInfo{iq4_nl, "IQ4_NL", 32, 18, true},
    TypeInfo{iq3_s, "IQ3_S", 256, 110, true},
    TypeInfo{iq2_s, "IQ2_S", 256, 82, true},
    TypeInfo{iq4_xs, "IQ4_XS", 256, 136, true},
    TypeInfo{i8, "I8", 1, 1, false},
    TypeInfo{i16, "I16", 1, 2, false},
    TypeInfo{i32, "I32", 1, 4, false},
    TypeInfo{i64, "I64", 1, 8, false},
    TypeInfo{f64, "F64", 1, 8, false},
    TypeInfo{iq1_m, "IQ1_M", 256, 56, true},
    TypeInfo{bf16, "BF16", 1, 2, false},
    TypeInfo{tq1_0, "TQ1_0", 256, 54, true},
    TypeInfo{tq2_0, "TQ2_0", 256, 66, true},
    TypeInfo{mxfp4, "MXFP4", 32, 17, true},
    TypeInfo{nvfp4, "NVFP4", 64, 36, true},
    TypeInfo{q1_0, "Q1_0", 128, 18, true},
    TypeInfo{q2_0, "Q2_0", 64, 18, true},
};

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) == std::toupper(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::optional<TypeInfo> type_info(uint32_t id) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const TypeInfo& t) { return static_cast<uint32_t>(t.type) == id; });
  if (found == kTypes.end()) return std::nullopt;
  return *found;
}

const TypeInfo& type_info(TensorType type) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeInfo& t) { return t.type == type; });
  CHECK(found != kTypes.end());
  return *found;
}

std::optional<TensorType> type_by_name(std::string_view name) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeInfo& t) { return same_name(t.name, name); });
  if (found == kTypes.end()) return std::nullopt;
  return found->type;
}

bool can_run(TensorType type) {
  switch (type) {
    case f32:
    case f16:
    case bf16:
      return true;
    case q8_1:
    case q8_k:  // of activations only
    case q1_0:
    case q2_0:
      return false;
    default:
      return type_info(type).quantised;
  }
}

std::string runnable_types() {
  std::string without;
  const auto add = [&](std::string_view name, bool last) {
    without += without.empty() ? "" : last ? " and " : ", ";
    without += name;
  };
  std::vector<std::string_view> names;
  for (const TypeInfo& info : kTypes) {
    if (info.quantised && !can_run(info.type)) names.push_back(info.name);
  }
  for (const std::string_view name : names) add(name, name == names.back());
  return "F32, F16, BF16 and every quantised type but " + without;
}

uint64_t row_bytes(TensorType type, uint64_t elements) {
  const TypeInfo& info = type_info(type);
  CHECK(elements % info.block_elements == 0);
  return elements / info.block_elements * info.block_bytes;
}

}  // namespace evros::format
