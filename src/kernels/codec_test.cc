#include "kernels/codec/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "kernels/codec/float16.h"
#include "kernels/derive.h"
#include "kernels/test_support.h"

namespace evros::kernels {
namespace {

/// One record of what PyPI gguf makes of blocks, as tools/gen_codec_golden.py writes it beside the test program.
struct Golden {
  format::TensorType type;
  bool quantise;
  std::vector<std::byte> encoded;
  std::vector<float> floats;
};

std::vector<Golden> read_goldens() {
  std::ifstream in(EVROS_BINARY_DIR "/generated/codec_golden.bin", std::ios::binary);
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
          << format::type_info(golden.type).name << " element " << i;
    }
  }
  EXPECT_EQ(seen, 25);  // every type but F32
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
  EXPECT_EQ(seen, 5);
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

/// The integers, scales and minima of the integer chain must give back exactly what decode gives: q * sw - mw.
template <typename Codec>
void groups_agree_with_floats(format::TensorType type) {
  std::byte block[Codec::kBytes];
  for (uint32_t seed = 0; seed < 500; ++seed) {
    for (int i = 0; i < Codec::kBytes; ++i) block[i] = static_cast<std::byte>((seed * 2654435761u + i * 40503u) >> 7);
    set_scales(type, block, [&] { return static_cast<uint16_t>((seed * 40503u) & 0xbbffu); });  // finite
    constexpr int kGroups = Codec::kBlock / Codec::kGroup;
    float floats[Codec::kBlock], scale[kGroups], minimum[kGroups] = {};
    int8_t q[Codec::kBlock];
    Codec::decode(block, floats);
    if constexpr (Codec::kMinimum) {
      Codec::decode_groups(block, q, scale, minimum);
    } else {
      Codec::decode_groups(block, q, scale);
    }
    for (int i = 0; i < Codec::kBlock; ++i) {
      const int g = i / Codec::kGroup;
      ASSERT_EQ(static_cast<float>(q[i]) * scale[g] - minimum[g], floats[i]) << i;
    }
  }
}

TEST(Codec, IntegersAndScalesAreTheFloats) {
  for (const auto type : weight_types(true)) {
    with_codec(type, [&]<typename Codec>() {
      if constexpr (Codec::kQuantised) groups_agree_with_floats<Codec>(type);
    });
    ASSERT_FALSE(HasFailure()) << format::type_info(type).name;
  }
}

/// Root mean square error of quantising and back, as a share of the values' own.
double relative_error(format::TensorType type, const std::vector<float>& x) {
  std::vector<std::byte> encoded(x.size() * 4);
  std::vector<float> back(x.size());
  quantize_weights(type, x, encoded.data());
  dequantize(type, encoded.data(), back);
  double error = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(back[i]) - x[i], 2);
    size += std::pow(static_cast<double>(x[i]), 2);
  }
  return std::sqrt(error / size);
}

// An ideal 16-level quantiser of normal values (Max 1960) leaves 0.107 of their size, a 64-level one about 0.031; groups
// with scales of their own do better than one scale for all.
TEST(Codec, SuperBlocksFitNormalWeightsBetterThanTheirPlainCousins) {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> x(256 * 64);
  for (float& value : x) value = normal(engine);
  const double q4_0 = relative_error(format::TensorType::q4_0, x), q4_k = relative_error(format::TensorType::q4_k, x),
               q6_k = relative_error(format::TensorType::q6_k, x), q8_0 = relative_error(format::TensorType::q8_0, x),
               q5_k = relative_error(format::TensorType::q5_k, x), q5_1 = relative_error(format::TensorType::q5_1, x),
               iq4_nl = relative_error(format::TensorType::iq4_nl, x);
  EXPECT_LT(q4_k, 0.078);
  EXPECT_LT(q4_k, 0.9 * q4_0);
  EXPECT_LT(q6_k, 0.0185);
  EXPECT_LT(q8_0, q6_k);
  EXPECT_LT(q5_k, 0.039);
  EXPECT_LT(q5_k, 0.95 * q5_1);
  EXPECT_LT(iq4_nl, 0.9 * q4_0);
  EXPECT_LT(q4_k, iq4_nl);
}

TEST(Codec, TypesThatAreForReadingOnlySaySo) {
  for (const auto type : weight_types()) {
    const std::string_view name = format::type_info(type).name;
    const bool is_written = name.starts_with("F") || name == "BF16" || name == "Q4_0" || name == "Q5_1" ||
                            name == "Q8_0" || name == "Q4_K" || name == "Q5_K" || name == "Q6_K" || name == "IQ4_NL";
    EXPECT_EQ(can_quantize(type), is_written) << name;
  }
  EXPECT_FALSE(can_quantize(format::TensorType::q2_0));
}

TEST(Codec, UnevenLevelsKeepTheirOwnValues) {
  const float kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                           1,    13,   25,  38,  53,  69,  89,  113};  // docs/model.md 6.4
  for (const float scale : {0.25f, -0.25f, 1.0f}) {
    std::vector<float> x(32);
    for (int i = 0; i < 32; ++i) x[i] = scale * kValues[i * 7 % 16];
    EXPECT_LT(relative_error(format::TensorType::iq4_nl, x), 1e-3);
  }
}

TEST(Codec, SuperBlocksKeepWhatTheyCanHoldExactly) {
  std::vector<float> x(256);
  for (int i = 0; i < 256; ++i) x[i] = static_cast<float>(i % 16) * 0.5f - 2.0f;  // d = 1/126.., 15 levels, one minimum
  EXPECT_LT(relative_error(format::TensorType::q4_k, x), 2e-3);
  EXPECT_LT(relative_error(format::TensorType::q5_k, x), 2e-3);
  for (int i = 0; i < 256; ++i) x[i] = static_cast<float>(i % 16 * 4 - 32);
  EXPECT_LT(relative_error(format::TensorType::q6_k, x), 1e-3);
}

TEST(Codec, SuperBlocksSurviveExtremeWeights) {
  const float kLargest = 3.4e38f;
  std::vector<std::vector<float>> rows(6, std::vector<float>(256));
  rows[1].assign(256, 3.0f);    // no spread
  rows[2].assign(256, -3.0f);   // no spread, all in the minimum
  rows[3].assign(256, 1e-30f);  // scales vanish in half precision
  for (int i = 0; i < 256; ++i) rows[4][i] = i % 2 ? kLargest : -kLargest;
  rows[5][37] = -1.0f;  // one weight among zeros
  using enum format::TensorType;
  for (const auto type : {q4_k, q5_k, q6_k, iq4_nl, q5_1}) {
    for (const auto& row : rows) {
      std::vector<std::byte> encoded(256);
      std::vector<float> back(256);
      quantize_weights(type, row, encoded.data());
      const size_t bytes = format::row_bytes(type, 256);
      if (row[1] == kLargest) {
        EXPECT_FALSE(scales_finite(type, {encoded.data(), bytes}));  // the caller's error, not a crash
        continue;
      }
      EXPECT_TRUE(scales_finite(type, {encoded.data(), bytes}));
      dequantize(type, encoded.data(), back);
      for (int i = 0; i < 256; ++i) EXPECT_NEAR(back[i], row[i], 0.02f) << format::type_info(type).name << ' ' << i;
    }
  }
}

TEST(Derive, FindsTheOneInfiniteOrNanNumberOfAFile) {
  for (const auto type : {format::TensorType::f32, format::TensorType::f16, format::TensorType::bf16}) {
    std::vector<std::byte> encoded(512 * format::type_info(type).block_bytes);
    EXPECT_TRUE(scales_finite(type, encoded));
    std::byte* number = &encoded[37 * format::type_info(type).block_bytes];
    for (const uint32_t bad : {0x7fc00000u, 0xff800000u}) {  // NaN, -infinity; 16-bit types by their own bits
      if (type == format::TensorType::f32) {
        store(number, bad);
      } else {
        store(number,
              type == format::TensorType::bf16 ? static_cast<uint16_t>(bad >> 16) : f32_to_f16(float_from_bits(bad)));
      }
      EXPECT_FALSE(scales_finite(type, encoded)) << format::type_info(type).name;
    }
  }
}

TEST(Derive, FindsTheOneInfiniteOrNanScaleOfAFile) {
  for (const auto type : weight_types(true)) {
    const size_t bytes = format::type_info(type).block_bytes;
    for (const std::byte fill : {std::byte{0}, std::byte{0xff}}) {
      std::vector<std::byte> encoded(3 * bytes, fill);
      for (size_t at = 0; at < encoded.size(); at += bytes) {
        set_scales(type, &encoded[at], [] { return uint16_t{0xfbff}; });  // the largest finite one
      }
      EXPECT_TRUE(scales_finite(type, encoded)) << format::type_info(type).name;
      // In the second block, each scale in turn.
      const auto count = std::max<size_t>(half_scales_of(type).size(), 1);
      for (size_t wrong = 0; wrong < count; ++wrong) {
        for (const uint16_t bad : {uint16_t{0x7e00}, uint16_t{0xfc00}}) {
          std::vector<std::byte> broken = encoded;
          size_t asked = 0;
          set_scales(type, &broken[bytes], [&] { return asked++ == wrong ? bad : uint16_t{0x3c00}; });
          if (type == format::TensorType::mxfp4) broken[bytes] = std::byte{255};
          // A scale of NVFP4 is a number whatever its bits.
          EXPECT_EQ(scales_finite(type, broken), type == format::TensorType::nvfp4) << format::type_info(type).name;
        }
      }
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
