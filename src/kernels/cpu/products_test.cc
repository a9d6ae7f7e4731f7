// Products on what random numbers would not bring: every byte a weight can be, scales of either zero, subnormal scales, rows
// and vectors around the sizes of strips and blocks. All tables, all thread counts: the reference's bits.
#include <bit>
#include <string>

#include "kernels/test_support.h"

namespace evros::kernels {
namespace {

using format::TensorType;

constexpr TensorType kPlain[] = {TensorType::f32, TensorType::f16, TensorType::bf16};

/// Blocks of random bytes with finite scales, -0, +0 and subnormals among them; every seventh block full of 0x80.
Weights wild_weights(TensorType type, int64_t rows, int64_t cols, Random& random, int64_t parts = 1) {
  constexpr uint16_t kScales[] = {0x8000, 0x0000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xb800, 0x2a31};
  Weights w(type, rows, cols, random, parts);
  const auto bytes = static_cast<int64_t>(format::type_info(type).block_bytes);
  for (int64_t at = 0; at < static_cast<int64_t>(w.bytes.size()); at += bytes) {
    for (int64_t i = 0; i < bytes; ++i) w.bytes[at + i] = static_cast<std::byte>(random.integer(0, 255));
    if (at / bytes % 7 == 3) std::fill_n(&w.bytes[at], bytes, std::byte{0x80});
    set_scales(type, &w.bytes[at], [&] { return kScales[random.integer(0, 7)]; });
  }
  w.pack(type, rows, cols, parts);
  return w;
}

/// Activations that reach both ends of the integers, with groups of zeros and of one tiny value.
Floats wild_activations(int64_t n, Random& random) {
  Floats x = random.normal(n);
  for (int64_t i = 0; i + 32 <= n; i += 32) {
    if (i % 224 == 96) std::fill_n(&x[i], 32, 0.0f);
    if (i % 160 == 64) std::fill_n(&x[i], 32, i % 320 == 64 ? -3.0f : 3.0f);
    if (i % 288 == 32) std::fill_n(&x[i], 31, 0x1p-120f);
  }
  return x;
}

/// y = W x with y's rows one float further apart than W has rows: nothing may be written between them.
Output multiply(const Kernels& table, device::Queue& queue, const Matrix& w, const Floats& x, int64_t tokens,
                bool integers) {
  Rows batch(tokens);
  Quantised xq(table, queue, batch.batch, x, integers ? w.cols : 0);
  Output out{.floats = Floats(tokens * (w.rows + 1), 7.0f), .integers = {}, .bytes = {}, .status = {}};
  table.matmul(queue, batch.batch,
               {.w = w,
                .x = x.data(),
                .x_stride = w.cols,
                .xq = integers ? xq.rows() : QuantRows{},
                .y = out.floats.data(),
                .y_stride = w.rows + 1});
  for (int64_t t = 0; t < tokens; ++t) EXPECT_EQ(out.floats[t * (w.rows + 1) + w.rows], 7.0f);
  return out;
}

TEST(Products, OfEveryBytePatternHaveTheReferencesBits) {
  Random random(301);
  for (const TensorType type : weight_types(true)) {
    const auto block = static_cast<int64_t>(format::type_info(type).block_elements);
    for (int round = 0; round < 8; ++round) {
      const int64_t rows = random.integer(1, 70), cols = block * random.integer(1, 800 / block);
      const int64_t tokens = round == 0 ? 131 : round < 4 ? 1 : random.integer(2, 70);
      const Weights w = wild_weights(type, rows, cols, random);
      const Floats x = wild_activations(tokens * cols, random);
      for (const bool integers : {true, false}) {
        everywhere([&](const Kernels& table, device::Queue& queue) {
          return multiply(table, queue, w.matrix, x, tokens, integers);
        });
        ASSERT_FALSE(HasFailure()) << format::type_info(type).name << ' ' << rows << " x " << cols << ", " << tokens
                                   << (integers ? " integers" : " floats");
      }
    }
  }
}

// Sums of bytes are where an instruction saturates: weights that are all one byte, times vectors whose integers are all 127,
// all -127, or take turns.
TEST(Products, ThatAreAsLargeAsIntegersGetHaveTheReferencesBits) {
  Random random(303);
  constexpr int64_t kRows = 33, kCols = 512, kTokens = 37;
  Floats x(kTokens * kCols);
  for (int64_t i = 0; i < kTokens * kCols; ++i) {
    const int64_t token = i / kCols % 4;
    x[i] = token == 0 ? 1.0f : token == 1 ? -1.0f : i % (token == 2 ? 2 : 4) < token - 1 ? 1.0f : -1.0f;
  }
  for (const TensorType type : weight_types(true)) {
    for (const int byte : {0x00, 0x7f, 0x80, 0x81, 0xff, 0x0f, 0xf0}) {
      Weights w(type, kRows, kCols, random, 1);
      std::fill(w.bytes.begin(), w.bytes.end(), static_cast<std::byte>(byte));
      const auto bytes = static_cast<int64_t>(format::type_info(type).block_bytes);
      for (int64_t at = 0; at < static_cast<int64_t>(w.bytes.size()); at += bytes) {
        set_scales(type, &w.bytes[at], [] { return uint16_t{0x3c00}; });  // 1
      }
      w.pack(type, kRows, kCols, 1);
      for (const int64_t tokens : {int64_t{4}, kTokens}) {  // few vectors and many have loops of their own
        everywhere([&](const Kernels& table, device::Queue& queue) {
          return multiply(table, queue, w.matrix, x, tokens, true);
        });
      }
      ASSERT_FALSE(HasFailure()) << format::type_info(type).name << " of bytes " << byte;
    }
  }
}

TEST(Products, OfPlainNumbersHaveTheReferencesBitsForEveryWidthOfALastStrip) {
  Random random(302);
  for (const TensorType type : kPlain) {
    for (int64_t rows = 1; rows <= 34; ++rows) {
      const int64_t cols = rows % 5 == 0 ? 2048 + rows : random.integer(1, 900), tokens = random.integer(1, 20);
      const Weights w(type, rows, cols, random);
      const Floats x = random.normal(tokens * cols);
      everywhere([&](const Kernels& table, device::Queue& queue) {
        return multiply(table, queue, w.matrix, x, tokens, false);
      });
      ASSERT_FALSE(HasFailure()) << format::type_info(type).name << ' ' << rows << " x " << cols << ", " << tokens;
    }
  }
}

TEST(Products, ASumThatIsMinusZeroStaysMinusZero) {
  // -2^-100 * 2^-100 rounds to -0; added to the initial +0 in one rounding it is -0, and y is that segment's sum.
  for (const int64_t rows : {1, 5, 32}) {
    std::vector<float> w(rows, -0x1p-100f);
    const Floats x(1, 0x1p-100f);
    const Matrix matrix{.type = TensorType::f32,
                        .data = reinterpret_cast<const std::byte*>(w.data()),
                        .rows = rows,
                        .cols = 1,
                        .row_bytes = 4};
    const Output out = everywhere(
        [&](const Kernels& table, device::Queue& queue) { return multiply(table, queue, matrix, x, 1, false); });
    for (int64_t i = 0; i < rows; ++i) EXPECT_TRUE(out.floats[i] == 0.0f && std::signbit(out.floats[i]));
  }
}

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

TEST(Products, AScaleMultipliesEveryFinishedOutputOnce) {
  Random random(304);
  for (const TensorType type : {TensorType::nvfp4, TensorType::q8_0, TensorType::q4_k, TensorType::f32}) {
    for (const int64_t tokens : {1, 2, 9}) {
      const int64_t rows = random.integer(33, 110), cols = 768;
      const Weights w(type, rows, cols, random);
      const Floats x = random.normal(tokens * cols), scale(1, 0.3f);
      Matrix scaled = w.matrix;
      scaled.scale = scale.data();
      for (const bool integers : {type != TensorType::f32, false}) {
        const auto with = [&](const Matrix& m) {
          return everywhere([&](const Kernels& table, device::Queue& queue) {
            return multiply(table, queue, m, x, tokens, integers);
          });
        };
        const Output plain = with(w.matrix), out = with(scaled);
        for (int64_t i = 0; i < tokens * (rows + 1); ++i) {
          if (i % (rows + 1) == rows) continue;
          ASSERT_TRUE(same_bits(out.floats[i], plain.floats[i] * 0.3f)) << i;
        }
      }
    }
  }
}

TEST(Products, EveryExpertHasAScaleOfItsOwn) {
  Random random(305);
  constexpr int64_t kHidden = 128, kFf = 64, kCount = 6, kUsed = 2;
  for (const int64_t rows : {1, 5, 40}) {
    const Weights gate(TensorType::nvfp4, kFf * kCount, kHidden, random, kCount),
        up(TensorType::nvfp4, kFf * kCount, kHidden, random, kCount);
    Weights down(TensorType::nvfp4, kHidden * kCount, kFf, random, kCount);
    const Floats x = random.normal(rows * kHidden);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < rows; ++i) {
      ids.push_back(static_cast<int32_t>(random.integer(0, 2)));
      ids.push_back(static_cast<int32_t>(random.integer(3, 5)));
    }
    const auto run = [&](const Floats& weights) {
      return everywhere([&](const Kernels& table, device::Queue& queue) {
        return run_experts(table, queue, gate, up, down, kCount, x, ids, weights, kUsed, true);
      });
    };
    // Powers of two commute with every rounding: the scale of down is as good in the weight of the expert's output.
    const Floats scales = {0.5f, 4.0f, 1.0f, 0.25f, 2.0f, 8.0f}, even(rows * kUsed, 0.5f);
    Floats moved = even;
    for (int64_t i = 0; i < rows * kUsed; ++i) moved[i] *= scales[ids[i]];
    const Output expected = run(moved);
    down.matrix.scale = scales.data();
    const Output out = run(even);
    for (size_t i = 0; i < out.floats.size(); ++i) ASSERT_TRUE(same_bits(out.floats[i], expected.floats[i])) << i;
  }
}

/// Experts chosen unevenly: one by most rows, some by none.
TEST(Products, OfUnevenlyChosenExpertsHaveTheReferencesBits) {
  Random random(303);
  for (const TensorType type : weight_types(true)) {
    const auto block = static_cast<int64_t>(format::type_info(type).block_elements);
    for (const int64_t rows : {1, 3, 100}) {
      const int64_t hidden = block == 32 ? 96 : 256, ff = block == 32 ? 160 : 256, count = 20, used = 4;
      const Weights gate(type, ff * count, hidden, random, count), up(type, ff * count, hidden, random, count),
          down(type, hidden * count, ff, random, count);
      const Floats x = random.normal(rows * hidden);
      std::vector<int32_t> ids;
      Floats weights;
      for (int64_t i = 0; i < rows * used; ++i) {
        ids.push_back(i % used == 0 ? 7 : static_cast<int32_t>(8 + 3 * (i % used) + random.integer(0, 2)));
        weights.push_back(random.uniform(0.0f, 1.0f));
      }
      everywhere([&](const Kernels& table, device::Queue& queue) {
        return run_experts(table, queue, gate, up, down, count, x, ids, weights, used, true);
      });
      ASSERT_FALSE(HasFailure()) << format::type_info(type).name << ", " << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace evros::kernels
