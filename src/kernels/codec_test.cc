#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "kernels/codec/float16.h"
#include "kernels/codec/q4_0.h"
#include "kernels/codec/q8_0.h"
#include "kernels/derive.h"

namespace evros::kernels {
namespace {

/// One record of tests/data/codec_golden.bin (tools/gen_codec_golden.py): what PyPI gguf makes of it.
struct Golden {
  format::TensorType type;
  bool quantise;
  std::vector<std::byte> encoded;
  std::vector<float> floats;
};

std::vector<Golden> read_goldens() {
  std::ifstream in(EVROS_SOURCE_DIR "/tests/data/codec_golden.bin", std::ios::binary);
  std::vector<Golden> out;
  uint32_t head[4];
  while (in.read(reinterpret_cast<char*>(head), sizeof head)) {
    Golden golden{static_cast<format::TensorType>(head[0]), head[1] == 1, std::vector<std::byte>(head[3]),
                  std::vector<float>(head[2])};
    in.read(reinterpret_cast<char*>(golden.encoded.data()), head[3]);
    in.read(reinterpret_cast<char*>(golden.floats.data()), head[2] * 4);
    EXPECT_TRUE(in.good());
    out.push_back(std::move(golden));
  }
  return out;
}

TEST(Codec, DequantisesBitForBitAsGgufDoes) {
  int seen = 0;
  for (const Golden& golden : read_goldens()) {
    if (golden.quantise) continue;
    ++seen;
    std::vector<float> got(golden.floats.size());
    dequantize(golden.type, golden.encoded.data(), got);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(float_bits(got[i]), float_bits(golden.floats[i]))
          << "type " << static_cast<int>(golden.type) << " element " << i;
    }
  }
  EXPECT_EQ(seen, 4);
}

TEST(Codec, QuantisesBitForBitAsGgufDoes) {
  int seen = 0;
  for (const Golden& golden : read_goldens()) {
    if (!golden.quantise) continue;
    ++seen;
    std::vector<std::byte> got(golden.encoded.size());
    quantize_weights(golden.type, golden.floats, got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], golden.encoded[i]) << "type " << static_cast<int>(golden.type) << " byte " << i;
    }
  }
  EXPECT_EQ(seen, 4);
}

TEST(Float16, EveryHalfIsItsExactValueAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const uint16_t h = static_cast<uint16_t>(bits);
    const float got = f16_to_f32(h);
    const int exponent = (h >> 10) & 31, fraction = h & 1023;
    if (exponent == 31 && fraction != 0) {
      ASSERT_TRUE(std::isnan(got));
      ASSERT_TRUE(std::isnan(f16_to_f32(f32_to_f16(got))));
      continue;
    }
    const double magnitude = exponent == 31  ? INFINITY
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(static_cast<double>(got), h & 0x8000 ? -magnitude : magnitude) << bits;
    ASSERT_EQ(f32_to_f16(got), h) << bits;
  }
}

TEST(Float16, RoundsToTheNearestHalfAndTiesToEven) {
  for (uint16_t h = 0; h < 0x7bff; ++h) {
    const float low = f16_to_f32(h), high = f16_to_f32(static_cast<uint16_t>(h + 1)), middle = (low + high) / 2;
    ASSERT_EQ(f32_to_f16(middle), h % 2 == 0 ? h : h + 1) << h;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), h) << h;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, INFINITY)), h + 1) << h;
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-3.4e38f), 0xfc00);
}

TEST(Float16, EveryBfloatComesBackAndOverflowsOnlyPastTheLastMiddle) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float x = bf16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(x))));
    } else {
      ASSERT_EQ(f32_to_bf16(x), bits);
    }
  }
  EXPECT_EQ(f32_to_bf16(float_from_bits(0x7f7f7fffu)), 0x7f7f);
  EXPECT_EQ(f32_to_bf16(float_from_bits(0x7f7f8000u)), 0x7f80);
  EXPECT_EQ(f32_to_bf16(float_from_bits(0x3f808000u)), 0x3f80);  // tie, down to even
  EXPECT_EQ(f32_to_bf16(float_from_bits(0x3f818000u)), 0x3f82);  // tie, up to even
}

/// The integers and the scale of the integer chain must give back exactly what decode gives: q * d.
template <typename Codec>
void groups_agree_with_floats() {
  std::byte block[Codec::kBytes];
  for (uint32_t seed = 0; seed < 500; ++seed) {
    for (int i = 0; i < Codec::kBytes; ++i) block[i] = static_cast<std::byte>((seed * 2654435761u + i * 40503u) >> 7);
    block[1] = static_cast<std::byte>(static_cast<int>(block[1]) & 0xbb);  // a finite scale
    float floats[Codec::kBlock], scale;
    int8_t q[Codec::kBlock];
    Codec::decode(block, floats);
    Codec::decode_groups(block, q, &scale);
    for (int i = 0; i < Codec::kBlock; ++i) ASSERT_EQ(static_cast<float>(q[i]) * scale, floats[i]);
  }
}

TEST(Codec, IntegersAndScalesAreTheFloats) {
  groups_agree_with_floats<Q8_0>();
  groups_agree_with_floats<Q4_0>();
}

TEST(Derive, FindsTheOneInfiniteOrNanScaleOfAFile) {
  std::vector<float> row(64, 1.5f);
  for (const auto type : {format::TensorType::f32, format::TensorType::f16, format::TensorType::bf16,
                          format::TensorType::q8_0, format::TensorType::q4_0}) {
    std::vector<std::byte> encoded(64 * 4);
    quantize_weights(type, row, encoded.data());
    const size_t bytes = type == format::TensorType::f32    ? 256
                         : type == format::TensorType::q8_0 ? 68
                         : type == format::TensorType::q4_0 ? 36
                                                            : 128;
    encoded.resize(bytes);
    EXPECT_TRUE(scales_finite(type, encoded));
    const bool is_block = type == format::TensorType::q8_0 || type == format::TensorType::q4_0;
    std::byte* scale = encoded.data() + (is_block ? bytes / 2 : 0);
    for (const uint32_t bad : {0x7fc00000u, 0xff800000u}) {  // NaN, -infinity; 16-bit types by their own bits
      if (type == format::TensorType::f32) {
        store(scale, bad);
      } else {
        store(scale,
              type == format::TensorType::bf16 ? static_cast<uint16_t>(bad >> 16) : f32_to_f16(float_from_bits(bad)));
      }
      EXPECT_FALSE(scales_finite(type, encoded)) << static_cast<int>(type);
    }
  }
}

TEST(Derive, GainsAndDecaysAreOneRoundingAndThisExp) {
  std::vector<float> w = {0.0f, 1e-9f, -0.5f, 3.0f};
  plus_one(w);
  EXPECT_EQ(w, (std::vector<float>{1.0f, 1.0f, 0.5f, 4.0f}));
  std::vector<float> a = {0.0f, 1.0f};
  neg_exp(a);
  EXPECT_EQ(a, (std::vector<float>{-1.0f, -0x1.5bf0a8p+1f}));
}

}  // namespace
}  // namespace evros::kernels
