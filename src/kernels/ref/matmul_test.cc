#include <cmath>
#include <string>

#include "kernels/ref/chains.h"
#include "kernels/test_support.h"

namespace evros::kernels {
namespace {

using format::TensorType;

bool has_blocks(TensorType type) { return format::type_info(type).quantised; }

TEST(Matmul, AgreesWithDoubleForEveryTypeAndShapeAndIsTheSameEverywhere) {
  Random random(1);
  for (const TensorType type : weight_types()) {
    for (const bool integers : {false, true}) {
      for (int round = 0; round < 6; ++round) {
        if (integers && !has_blocks(type)) continue;
        const int64_t block = format::type_info(type).block_elements, k = block * random.integer(1, 800 / block);
        const int64_t n = random.integer(1, 70), rows = round == 0 ? 131 : random.integer(1, 11);
        const Weights w(type, n, k, random);
        const Floats x = random.normal(rows * k);
        const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
          Rows batch(rows);
          Quantised xq(table, queue, batch.batch, integers ? x : Floats(), integers ? k : 0);
          Floats y(rows * n, NAN);
          table.matmul(queue, batch.batch,
                       {.w = w.matrix,
                        .x = x.data(),
                        .x_stride = k,
                        .xq = integers ? xq.rows() : QuantRows{},
                        .y = y.data(),
                        .y_stride = n});
          return Output{.floats = y, .integers = {}, .bytes = {}, .status = batch.status};
        });
        EXPECT_EQ(out.status[0], 0u);
        for (int64_t i = 0; i < rows * n; ++i) {
          double exact = 0, magnitude = 0, slack = 0;
          for (int64_t j = 0; j < k; ++j) {
            const double a = w.values[i % n * k + j], b = x[i / n * k + j];
            exact += a * b;
            magnitude += std::fabs(a * b);
            // Half a quantisation step per element; amax of 32 normal values stays below 6.
            slack += integers ? std::fabs(a) * 6.0 / 127 / 2 : 0.0;
          }
          ASSERT_NEAR(out.floats[i], exact, magnitude * static_cast<double>(k + 8) * 0x1p-24 + slack)
              << "type " << static_cast<int>(type) << " k " << k;
        }
      }
    }
  }
}

TEST(Matmul, AddsWithinSegmentsOf256AndThenTheSegments) {
  // 2^24 + 1 is 2^24 in a float: ones behind it in its own segment are lost one by one, those of the next segment are not.
  Floats w(512 + 3, 1.0f);
  w[0] = 16777216.0f;
  const Floats x(w.size(), 1.0f);
  EXPECT_EQ(dot_chain(w.data(), x.data(), static_cast<int64_t>(w.size())),
            16777216.0f + 256.0f + 4.0f);  // 3 rounds to 4
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    Rows batch(1);
    Floats y(1);
    table.matmul(queue, batch.batch,
                 {.w = {.type = TensorType::f32,
                        .data = reinterpret_cast<const std::byte*>(w.data()),
                        .rows = 1,
                        .cols = static_cast<int64_t>(w.size()),
                        .row_bytes = static_cast<int64_t>(w.size()) * 4},
                  .x = x.data(),
                  .x_stride = 0,
                  .xq = {},
                  .y = y.data(),
                  .y_stride = 1});
    return Output{.floats = y, .integers = {}, .bytes = {}, .status = batch.status};
  });
  EXPECT_EQ(out.floats[0], 16777216.0f + 256.0f + 4.0f);
}

TEST(Matmul, QuantisedWeightsTakeTheIntegerChainOfThePage) {
  // One block: d = 0.5 and q = 127, -128, 1, 0 ...; x = 127, 1, 2, 0 ... so that x's own scale is exactly 1.
  std::vector<std::byte> w(34);
  const uint16_t half = 0x3800;
  std::memcpy(w.data(), &half, 2);
  w[2] = std::byte{127}, w[3] = std::byte{0x80}, w[4] = std::byte{1};
  Floats x(32);
  x[0] = 127.0f, x[1] = 1.0f, x[2] = 2.5f;  // 2.5 rounds to 2
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    Rows batch(1);
    Quantised xq(table, queue, batch.batch, x, 32);
    Floats y(2);
    const Matrix matrix{.type = TensorType::q8_0, .data = w.data(), .rows = 1, .cols = 32, .row_bytes = 34};
    table.matmul(queue, batch.batch,
                 {.w = matrix, .x = x.data(), .x_stride = 32, .xq = xq.rows(), .y = &y[0], .y_stride = 1});
    table.matmul(queue, batch.batch, {.w = matrix, .x = x.data(), .x_stride = 32, .xq = {}, .y = &y[1], .y_stride = 1});
    return Output{.floats = y, .integers = {}, .bytes = {}, .status = batch.status};
  });
  EXPECT_EQ(out.floats[0], 0.5f * (127 * 127 - 128 + 2));
  EXPECT_EQ(out.floats[1], 0.5f * (127 * 127 - 128 + 2.5f));  // no activations: the float rule
}

// The page's chain for a format with minima, written down once more.
TEST(Matmul, MinimaAreSubtractedGroupByGroupInTheOrderOfThePage) {
  std::vector<std::byte> w(144);
  const uint16_t d_bits = 0x3555, dmin_bits = 0x2e66;  // f16 of about 1/3 and 0.1: products that round
  std::memcpy(w.data(), &d_bits, 2);
  std::memcpy(&w[2], &dmin_bits, 2);
  const int scales[8] = {63, 1, 37, 0, 5, 60, 21, 11}, minima[8] = {7, 63, 0, 33, 1, 50, 16, 62};
  for (int g = 0; g < 4; ++g) {  // model.md 6.4
    w[4 + g] = static_cast<std::byte>(scales[g] | scales[g + 4] >> 4 << 6);
    w[8 + g] = static_cast<std::byte>(minima[g] | minima[g + 4] >> 4 << 6);
    w[12 + g] = static_cast<std::byte>((scales[g + 4] & 15) | (minima[g + 4] & 15) << 4);
  }
  int q[256];
  Floats x(256);
  for (int i = 0; i < 256; ++i) {
    q[i] = (i * 7 + i / 11) % 16;
    w[16 + i / 64 * 32 + i % 32] |= static_cast<std::byte>(q[i] << (i % 64 / 32 * 4));
    x[i] = i % 32 == 5 ? 127.0f : static_cast<float>((i * 29) % 201 - 100);  // amax 127: x is its own quantisation
  }
  const float d = 0x1.554p-2f, dmin = 0x1.998p-4f;
  float expected = 0.0f;
  for (int g = 0; g < 8; ++g) {
    int dot = 0, sum = 0;
    for (int i = 32 * g; i < 32 * g + 32; ++i) {
      dot += q[i] * static_cast<int>(x[i]);
      sum += static_cast<int>(x[i]);
    }
    const float sw = d * static_cast<float>(scales[g]), mw = dmin * static_cast<float>(minima[g]);
    expected = std::fma(sw, static_cast<float>(dot), expected);
    expected = std::fma(-mw, static_cast<float>(sum), expected);
  }
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    Rows batch(1);
    Quantised xq(table, queue, batch.batch, x, 256);
    Floats y(1);
    const Matrix matrix{.type = TensorType::q4_k, .data = w.data(), .rows = 1, .cols = 256, .row_bytes = 144};
    table.matmul(queue, batch.batch,
                 {.w = matrix, .x = x.data(), .x_stride = 256, .xq = xq.rows(), .y = y.data(), .y_stride = 1});
    return Output{.floats = y, .integers = {}, .bytes = {}, .status = batch.status};
  });
  EXPECT_EQ(out.floats[0], expected);
}

TEST(Quantize, FollowsThePageAtItsEdges) {
  Floats x(32 * 4);
  x[0] = 0x1p-101f;   // below 2^-100: all zero
  x[32] = 0x1p-100f;  // at it: 127
  x[64] = 127.0f, x[65] = 0.5f, x[66] = 1.5f, x[67] = -2.5f, x[68] = -127.0f;
  x[96] = 3.0e38f, x[97] = -3.0e38f;
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    Rows batch(1);
    Quantised xq(table, queue, batch.batch, x, 128);
    return Output{.floats = xq.d, .integers = {xq.q.begin(), xq.q.end()}, .bytes = {}, .status = batch.status};
  });
  EXPECT_EQ(out.status[0], 0u);
  EXPECT_EQ(out.floats, (Floats{0.0f, 0x1p-100f / 127.0f, 1.0f, 3.0e38f / 127.0f}));
  EXPECT_EQ(out.integers[0], 0);
  EXPECT_EQ(out.integers[32], 127);
  EXPECT_EQ((std::vector<int32_t>{&out.integers[64], &out.integers[69]}), (std::vector<int32_t>{127, 0, 2, -2, -127}));
  EXPECT_EQ(out.integers[96], 127);
  EXPECT_EQ(out.integers[97], -127);
}

TEST(Quantize, ReportsWhatIsNotFiniteForThatSequenceAlone) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Floats x(64 * 2, 1.0f);
    x[64 + 40] = bad;
    const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
      World world(2, 0, 64, 0, 0);
      Output result;
      world.step({1, 1}, [&](const Batch& batch) {
        Quantised xq(table, queue, batch, x, 64);
        result = {.floats = xq.d,
                  .integers = {xq.q.begin(), xq.q.end()},
                  .bytes = {},
                  .status = {batch.status[0], batch.status[1]}};
      });
      return result;
    });
    EXPECT_EQ(out.status, (std::vector<uint32_t>{0u, kNonFinite}));
    EXPECT_EQ(out.floats, (Floats{1.0f / 127, 1.0f / 127, 1.0f / 127, 0.0f}));
  }
}

/// Root mean square distance of y from the experts' outputs in double, as a share of their size.
double experts_error(const Weights& gate, const Weights& up, const Weights& down, const Floats& x,
                     const std::vector<int32_t>& ids, const Floats& weights, const Floats& y, int64_t hidden,
                     int64_t ff) {
  const int64_t rows = static_cast<int64_t>(y.size()) / hidden, used = static_cast<int64_t>(ids.size()) / rows;
  double error = 0, size = 0;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> exact(hidden);
    for (int64_t pair = r * used; pair < (r + 1) * used; ++pair) {
      const int64_t e = ids[pair];
      for (int64_t f = 0; f < ff; ++f) {
        double g = 0, u = 0;
        for (int64_t i = 0; i < hidden; ++i) {
          g += static_cast<double>(gate.values[(e * ff + f) * hidden + i]) * x[r * hidden + i];
          u += static_cast<double>(up.values[(e * ff + f) * hidden + i]) * x[r * hidden + i];
        }
        const double h = g / (1 + std::exp(-g)) * u * weights[pair];
        for (int64_t i = 0; i < hidden; ++i) exact[i] += h * down.values[(e * hidden + i) * ff + f];
      }
    }
    for (int64_t i = 0; i < hidden; ++i) {
      error += std::pow(y[r * hidden + i] - exact[i], 2);
      size += exact[i] * exact[i];
    }
  }
  return std::sqrt(error / size);
}

TEST(Experts, AgreeWithDoubleAndAreTheSameEverywhere) {
  Random random(2);
  for (const TensorType type :
       {TensorType::f32, TensorType::bf16, TensorType::q8_0, TensorType::q4_0, TensorType::q4_k, TensorType::q6_k}) {
    for (const bool integers : {false, true}) {
      if (integers && !has_blocks(type)) continue;
      const int64_t wide = format::type_info(type).block_elements;
      // A strip and a part of one for formats without blocks.
      const int64_t hidden = wide == 256 ? 256 : wide == 32 ? 96 : 91, ff = wide == 256 ? 256 : wide == 32 ? 64 : 37;
      const int64_t count = 7, used = 3, rows = wide == 256 ? 9 : 45;
      const Weights gate(type, ff * count, hidden, random, count), up(type, ff * count, hidden, random, count),
          down(type, hidden * count, ff, random, count);
      const Floats x = random.normal(rows * hidden, 0.3f);
      std::vector<int32_t> ids;
      Floats weights;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t first = random.integer(0, count - 1);
        for (int64_t i = 0; i < used; ++i) ids.push_back(static_cast<int32_t>((first + 2 * i) % count));
        for (int64_t i = 0; i < used; ++i) weights.push_back(random.uniform(0.1f, 0.6f));
      }
      const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
        return run_experts(table, queue, gate, up, down, count, x, ids, weights, used, integers);
      });
      EXPECT_EQ(out.status[0], 0u);
      const double error = experts_error(gate, up, down, x, ids, weights, out.floats, hidden, ff);
      EXPECT_LT(error, integers ? 0.02 : 1e-6) << static_cast<int>(type);
    }
  }
}

}  // namespace
}  // namespace evros::kernels
