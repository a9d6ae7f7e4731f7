#include "kernels/derive.h"

#include "base/check.h"
#include "kernels/codec/codec.h"
#include "kernels/kernels.h"

namespace evros::kernels {

namespace {

template <typename Codec>
void decode(const std::byte* data, std::span<float> out) {
  CHECK(out.size() % Codec::kBlock == 0);
  for (size_t i = 0; i < out.size(); i += Codec::kBlock, data += Codec::kBytes) Codec::decode(data, out.data() + i);
}

template <typename Codec>
concept Encodes = requires(const float* in, std::byte* out) {
  Codec::encode(in, out);
};

template <Encodes Codec>
void encode(std::span<const float> in, std::byte* out) {
  CHECK(in.size() % Codec::kBlock == 0);
  for (size_t i = 0; i < in.size(); i += Codec::kBlock, out += Codec::kBytes) Codec::encode(in.data() + i, out);
}

template <typename Codec>
concept WeighsColumns = requires(const float* in, std::byte* out) {
  Codec::encode(in, out, in);
};

template <WeighsColumns Codec>
void encode(std::span<const float> rows, std::span<const float> columns, std::byte* out) {
  CHECK(columns.size() % Codec::kBlock == 0 && rows.size() % columns.size() == 0);
  for (size_t i = 0; i < rows.size(); i += Codec::kBlock, out += Codec::kBytes) {
    Codec::encode(rows.data() + i, out, columns.data() + i % columns.size());
  }
}

template <typename Codec>
bool finite(std::span<const std::byte> rows) {
  CHECK(rows.size() % Codec::kBytes == 0);
  for (size_t i = 0; i < rows.size(); i += Codec::kBytes) {
    if (!Codec::finite(&rows[i])) return false;
  }
  return true;
}

}  // namespace

void dequantize(format::TensorType type, const std::byte* data, std::span<float> out) {
  CHECK(can_multiply(type));
  with_codec(type, [&]<typename Codec>() { decode<Codec>(data, out); });
}

bool can_quantize(format::TensorType type) {
  bool can = false;
  find_codec(type, [&]<typename Codec>() { can = Encodes<Codec>; });
  return can;
}

void quantize_weights(format::TensorType type, std::span<const float> in, std::byte* out) {
  CHECK(can_quantize(type));
  with_codec(type, [&]<typename Codec>() {
    if constexpr (Encodes<Codec>) encode<Codec>(in, out);
  });
}

bool weighs_columns(format::TensorType type) {
  bool weighs = false;
  find_codec(type, [&]<typename Codec>() { weighs = WeighsColumns<Codec>; });
  return weighs;
}

void quantize_weights(format::TensorType type, std::span<const float> rows, std::span<const float> columns,
                      std::byte* out) {
  CHECK(weighs_columns(type));
  with_codec(type, [&]<typename Codec>() {
    if constexpr (WeighsColumns<Codec>) encode<Codec>(rows, columns, out);
  });
}

bool scales_finite(format::TensorType type, std::span<const std::byte> rows) {
  bool clean = true;
  CHECK(can_multiply(type));
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
