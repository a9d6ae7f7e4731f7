#include "kernels/derive.h"

#include "base/check.h"
#include "kernels/codec/bf16.h"
#include "kernels/codec/f16.h"
#include "kernels/codec/f32.h"
#include "kernels/codec/q4_0.h"
#include "kernels/codec/q8_0.h"
#include "kernels/kernels.h"

namespace evros::kernels {

namespace {

template <typename Codec>
void decode(const std::byte* data, std::span<float> out) {
  CHECK(out.size() % Codec::kBlock == 0);
  for (size_t i = 0; i < out.size(); i += Codec::kBlock, data += Codec::kBytes) Codec::decode(data, out.data() + i);
}

template <typename Codec>
void encode(std::span<const float> in, std::byte* out) {
  CHECK(in.size() % Codec::kBlock == 0);
  for (size_t i = 0; i < in.size(); i += Codec::kBlock, out += Codec::kBytes) Codec::encode(in.data() + i, out);
}

template <typename Codec>
bool finite(std::span<const std::byte> rows) {
  CHECK(rows.size() % Codec::kBytes == 0);
  for (size_t i = 0; i < rows.size(); i += Codec::kBytes) {
    if (!Codec::finite(&rows[i])) return false;
  }
  return true;
}

/// Calls use.operator()<Codec>() for the codec of a type that can_multiply().
template <typename Use>
void with_codec(format::TensorType type, const Use& use) {
  CHECK(can_multiply(type));
  switch (type) {
    case format::TensorType::f32: return use.template operator()<F32>();
    case format::TensorType::f16: return use.template operator()<F16>();
    case format::TensorType::bf16: return use.template operator()<Bf16>();
    case format::TensorType::q8_0: return use.template operator()<Q8_0>();
    case format::TensorType::q4_0: return use.template operator()<Q4_0>();
    default: return;
  }
}

}  // namespace

void dequantize(format::TensorType type, const std::byte* data, std::span<float> out) {
  with_codec(type, [&]<typename Codec>() { decode<Codec>(data, out); });
}

void quantize_weights(format::TensorType type, std::span<const float> in, std::byte* out) {
  with_codec(type, [&]<typename Codec>() { encode<Codec>(in, out); });
}

bool scales_finite(format::TensorType type, std::span<const std::byte> rows) {
  bool clean = true;
  with_codec(type, [&]<typename Codec>() { clean = finite<Codec>(rows); });
  return clean;
}

void plus_one(std::span<float> w) {
  for (float& x : w) x = 1.0f + x;
}

void neg_exp(std::span<float> w) {
  for (float& x : w) x = -exp(x);
}

}  // namespace evros::kernels
