// Kernels without state: each against a double-precision model on odd shapes and strides, everywhere the same bits.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>

#include "kernels/ref/chains.h"
#include "kernels/test_support.h"

namespace evros::kernels {
namespace {

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_silu(double x) { return x * exact_sigmoid(x); }

/// Runs `body` on a copy of `x` (or a zeroed result) with a stateless batch of `rows`.
Output in_place(int64_t rows, const Floats& x,
                const std::function<void(const Kernels&, device::Queue&, const Batch&, Floats&)>& body) {
  return everywhere([&](const Kernels& table, device::Queue& queue) {
    Rows batch(rows);
    Output out{.floats = x, .integers = {}, .bytes = {}, .status = {}};
    body(table, queue, batch.batch, out.floats);
    out.status = batch.status;
    return out;
  });
}

TEST(Chains, SumsOf64StridesFoldFromTheFarHalf) {
  // p[0] = 4096^2 then + 1 is lost in the stride; p[32] = 1 is lost in the first fold, p[1] = 2 survives the last one.
  Floats x(65);
  x[0] = 4096.0f, x[64] = 1.0f, x[32] = 1.0f, x[1] = std::sqrt(2.0f);
  EXPECT_EQ(sum_squares(x.data(), 65), 16777218.0f);
  // Two ones that meet in a fold before they meet p[0] survive together.
  Floats y(64);
  y[0] = 4096.0f, y[2] = 1.0f, y[34] = 1.0f;
  EXPECT_EQ(sum_squares(y.data(), 64), 16777218.0f);
}

TEST(RmsNorm, NormsEveryGroupOnItsOwnAlsoInPlace) {
  Random random(10);
  for (const bool shared_gain : {false, true}) {
    const int64_t rows = 3, groups = 4, width = 77, stride = 400;
    const Floats x = random.normal(rows * stride), gain = random.normal(groups * width);
    const Output out =
        in_place(rows, x, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& y) {
          table.rms_norm(queue, batch,
                         {.x = y.data(),
                          .x_stride = stride,
                          .x_group_stride = 90,
                          .gain = gain.data(),
                          .gain_stride = shared_gain ? 0 : width,
                          .groups = groups,
                          .width = width,
                          .eps = 1e-6f,
                          .y = y.data(),
                          .y_stride = stride,
                          .y_group_stride = 90});
        });
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t g = 0; g < groups; ++g) {
        const float* in = &x[r * stride + g * 90];
        double squares = 0;
        for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(in[i]) * in[i];
        for (int64_t i = 0; i < width; ++i) {
          const double exact = in[i] / std::sqrt(squares / width + 1e-6) * gain[(shared_gain ? 0 : g * width) + i];
          ASSERT_NEAR(out.floats[r * stride + g * 90 + i], exact, 1e-6 * std::fabs(exact));
        }
        for (int64_t i = width; i < 90; ++i) ASSERT_EQ(out.floats[r * stride + g * 90 + i], in[i]);
      }
    }
  }
}

// The square of 1e30 is infinite in float32, the norm of such a row would be a row of zeros.
TEST(RmsNorm, ASumOfSquaresThatOverflowsIsNotFinite) {
  Floats x(2 * 8, 1.0f);
  x[8] = 1e30f;
  const Floats gain(8, 1.0f);
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    World world(2, 0, 16, 0, 0);
    Output result;
    Floats y(x.size());
    world.step({1, 1}, [&](const Batch& batch) {
      table.rms_norm(queue, batch,
                     {.x = x.data(),
                      .x_stride = 8,
                      .x_group_stride = 8,
                      .gain = gain.data(),
                      .gain_stride = 8,
                      .groups = 1,
                      .width = 8,
                      .eps = 1e-6f,
                      .y = y.data(),
                      .y_stride = 8,
                      .y_group_stride = 8});
      result.status.assign(batch.status, batch.status + 2);
    });
    return result;
  });
  EXPECT_EQ(out.status, (std::vector<uint32_t>{0, kNonFinite}));
}

TEST(Rope, TurnsHalfSplitPairsAndLeavesTheRest) {
  Random random(11);
  const int64_t rows = 3, groups = 2, dims = 6, width = 10;
  const Floats x = random.normal(rows * groups * width);
  Floats table_rows(rows * dims);
  for (int64_t i = 0; i < rows * dims / 2; ++i) {
    table_rows[2 * i] = static_cast<float>(std::cos(static_cast<double>(i)));
    table_rows[2 * i + 1] = static_cast<float>(std::sin(static_cast<double>(i)));
  }
  const Output out = in_place(rows, x, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& y) {
    table.rope(queue, batch,
               {.x = y.data(),
                .x_stride = groups * width,
                .x_group_stride = width,
                .groups = groups,
                .dims = dims,
                .table = table_rows.data()});
  });
  for (int64_t v = 0; v < rows * groups; ++v) {
    for (int64_t i = 0; i < 3; ++i) {
      const double angle = static_cast<double>(v / groups * 3 + i), a = x[v * width + i], b = x[v * width + i + 3];
      ASSERT_NEAR(out.floats[v * width + i], a * std::cos(angle) - b * std::sin(angle), 1e-6);
      ASSERT_NEAR(out.floats[v * width + i + 3], a * std::sin(angle) + b * std::cos(angle), 1e-6);
    }
    for (int64_t i = 6; i < width; ++i) ASSERT_EQ(out.floats[v * width + i], x[v * width + i]);
  }
}

TEST(HyperConnections, DivideByTheStreamCountBeforeTheActivation) {
  Random random(12);
  for (const int hc : {1, 2, 3, 4}) {
    const int64_t rows = 2, hidden = 13, all = hc * hidden;
    const Floats up = random.normal(rows * all), normed = random.normal(rows * all),
                 inject = random.normal(rows * hc, 3.0f), y = random.normal(rows * hidden),
                 x = random.normal(rows * all), low = random.normal(rows * hidden, 4.0f);
    const Output lo =
        in_place(rows, low, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& out) {
          table.hc_low(queue, batch, {.lo = out.data(), .stride = hidden, .rank = hidden, .hc = hc});
        });
    const Output u = in_place(rows, Floats(rows * hidden),
                              [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& out) {
                                table.hc_mix(queue, batch,
                                             {.up = up.data(),
                                              .normed = normed.data(),
                                              .stride = all,
                                              .hc = hc,
                                              .hidden = static_cast<int32_t>(hidden),
                                              .u = out.data(),
                                              .u_stride = hidden});
                              });
    const Output wide =
        in_place(rows, x, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& out) {
          table.hc_write(queue, batch,
                         {.inject = inject.data(),
                          .y = y.data(),
                          .y_stride = hidden,
                          .hc = hc,
                          .hidden = static_cast<int32_t>(hidden),
                          .x = out.data(),
                          .x_stride = all});
        });
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < hidden; ++i) {
        double mix = 0;
        for (int64_t s = 0; s < hc; ++s) {
          const int64_t at = r * all + s * hidden + i;
          mix += exact_sigmoid(up[at]) * normed[at] / hc;
          const double amount = 2 * exact_sigmoid(static_cast<double>(inject[r * hc + s]) / hc);
          ASSERT_NEAR(wide.floats[at], x[at] + amount * y[r * hidden + i], 2e-6);
        }
        ASSERT_NEAR(u.floats[r * hidden + i], mix, 1e-6);
        const double activated = exact_silu(static_cast<double>(low[r * hidden + i]) / hc);
        ASSERT_NEAR(lo.floats[r * hidden + i], activated, 5e-7 * std::fabs(activated));
      }
    }
  }
}

TEST(Gdn, NormsQueriesAndKeysAndLeavesValues) {
  Random random(13);
  const int64_t rows = 2, heads = 3, dim = 50, stride = 2 * heads * dim + 40;
  const Floats x = random.normal(rows * stride);
  const Output out = in_place(rows, x, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& y) {
    table.gdn_qk_norm(queue, batch, {.qkv = y.data(), .stride = stride, .key_heads = heads, .key_dim = dim});
  });
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < 2 * heads; ++h) {
      const float* in = &x[r * stride + h * dim];
      double squares = 1e-6;
      for (int64_t i = 0; i < dim; ++i) squares += static_cast<double>(in[i]) * in[i];
      for (int64_t i = 0; i < dim; ++i) {
        const double exact = in[i] / std::sqrt(squares) / (h < heads ? std::sqrt(dim) : 1.0);
        ASSERT_NEAR(out.floats[r * stride + h * dim + i], exact, 2e-7);
      }
    }
    for (int64_t i = 2 * heads * dim; i < stride; ++i) ASSERT_EQ(out.floats[r * stride + i], x[r * stride + i]);
  }
}

TEST(Gdn, GatesAreDecayAndBeta) {
  Random random(14);
  const int64_t rows = 4, heads = 5;
  const Floats x = random.normal(2 * rows * heads, 5.0f), dt = random.normal(heads);
  Floats a = random.normal(heads);
  for (float& v : a) v = -std::fabs(v);
  const Output out = in_place(rows, x, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& y) {
    table.gdn_gates(queue, batch,
                    {.alpha = y.data(),
                     .beta = &y[rows * heads],
                     .stride = heads,
                     .a = a.data(),
                     .dt = dt.data(),
                     .value_heads = heads});
  });
  for (int64_t i = 0; i < rows * heads; ++i) {
    const double softplus = std::log1p(std::exp(static_cast<double>(x[i]) + dt[i % heads]));
    ASSERT_NEAR(out.floats[i], std::exp(a[i % heads] * softplus), 2e-6);
    ASSERT_NEAR(out.floats[rows * heads + i], exact_sigmoid(x[rows * heads + i]), 1e-6);
  }
}

TEST(Gdn, OutputNormComesBeforeItsGate) {
  Random random(15);
  for (const bool with_silu : {false, true}) {
    const int64_t rows = 2, heads = 3, dim = 20, all = heads * dim;
    const Floats o = random.normal(rows * all), z = random.normal(rows * all), w = random.normal(dim);
    const Output out =
        in_place(rows, o, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& y) {
          table.gdn_out_norm(queue, batch,
                             {.o = y.data(),
                              .z = z.data(),
                              .o_stride = all,
                              .z_stride = all,
                              .w = w.data(),
                              .value_heads = heads,
                              .value_dim = dim,
                              .eps = 1e-3f,
                              .silu = with_silu});
        });
    for (int64_t v = 0; v < rows * heads; ++v) {
      double squares = 0;
      for (int64_t i = 0; i < dim; ++i) squares += static_cast<double>(o[v * dim + i]) * o[v * dim + i];
      for (int64_t i = 0; i < dim; ++i) {
        const double gate = with_silu ? exact_silu(z[v * dim + i]) : exact_sigmoid(z[v * dim + i]);
        ASSERT_NEAR(out.floats[v * dim + i], o[v * dim + i] / std::sqrt(squares / dim + 1e-3) * w[i] * gate, 2e-6);
      }
    }
  }
}

TEST(Gates, SwigluHeadGateAndSharedAddAreTheirFormulas) {
  Random random(16);
  const int64_t rows = 3, heads = 2, width = 9, all = heads * width;
  const Floats gate = random.normal(rows * 2 * all), up = random.normal(rows * all), y = random.normal(rows * all);
  const Output glu = in_place(rows, Floats(rows * all),
                              [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& out) {
                                table.swiglu(queue, batch,
                                             {.gate = gate.data(),
                                              .up = up.data(),
                                              .gate_stride = 2 * all,
                                              .up_stride = all,
                                              .width = all,
                                              .y = out.data(),
                                              .y_stride = all});
                              });
  const Output gated =
      in_place(rows, y, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& out) {
        table.head_gate(queue, batch,
                        {.out = out.data(),
                         .out_stride = all,
                         .gate = gate.data() + width,
                         .gate_stride = 2 * all,
                         .gate_head_stride = 2 * width,
                         .heads = heads,
                         .width = width});
      });
  const Output added =
      in_place(rows, y, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& out) {
        table.shared_add(queue, batch,
                         {.gate = gate.data(),
                          .shared = up.data(),
                          .shared_stride = all,
                          .width = all,
                          .y = out.data(),
                          .y_stride = all});
      });
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < all; ++i) {
      const int64_t at = r * all + i;
      ASSERT_NEAR(glu.floats[at], exact_silu(gate[r * 2 * all + i]) * up[at], 1e-6);
      const float g = gate[r * 2 * all + i / width * 2 * width + width + i % width];
      ASSERT_NEAR(gated.floats[at], y[at] * exact_sigmoid(g), 1e-6);
      ASSERT_NEAR(added.floats[at], y[at] + exact_sigmoid(gate[r]) * up[at], 1e-6);
    }
  }
}

Output run_router(int64_t rows, const Floats& logits, int experts, int used, bool normalise) {
  return everywhere([&](const Kernels& table, device::Queue& queue) {
    Rows batch(rows);
    Output out{.floats = Floats(rows * used), .integers = std::vector<int32_t>(rows * used), .bytes = {}, .status = {}};
    table.router(queue, batch.batch,
                 {.logits = logits.data(),
                  .stride = experts,
                  .experts = experts,
                  .used = used,
                  .normalise = normalise,
                  .ids = out.integers.data(),
                  .weights = out.floats.data()});
    out.status = batch.status;
    return out;
  });
}

TEST(Router, TakesTheMostProbableThenTheLowerId) {
  Random random(17);
  for (int round = 0; round < 20; ++round) {
    const int experts = static_cast<int>(random.integer(1, 200)),
              used = static_cast<int>(random.integer(1, std::min(experts, 12)));
    const int64_t rows = 3;
    Floats logits = random.normal(rows * experts, 2.0f);
    if (round % 2 == 0)
      for (float& x : logits) x = std::round(x);  // ties
    const bool normalise = round % 3 != 0;
    const Output out = run_router(rows, logits, experts, used, normalise);
    EXPECT_EQ(out.status[0], 0u);
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = &logits[r * experts];
      std::vector<int32_t> ids(static_cast<size_t>(experts));
      std::iota(ids.begin(), ids.end(), 0);
      std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) { return row[a] > row[b]; });
      double all = 0, chosen = 0;
      for (int e = 0; e < experts; ++e) all += std::exp(static_cast<double>(row[e]));
      for (int i = 0; i < used; ++i) chosen += std::exp(static_cast<double>(row[ids[i]]));
      for (int i = 0; i < used; ++i) {
        ASSERT_EQ(out.integers[r * used + i], ids[i]) << round;
        ASSERT_NEAR(out.floats[r * used + i], std::exp(static_cast<double>(row[ids[i]])) / (normalise ? chosen : all),
                    1e-6);
      }
    }
  }
}

TEST(Router, GivesValidIdsWhenALogitIsNotFinite) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const Output out = run_router(1, {1.0f, bad, 2.0f}, 3, 2, true);
    EXPECT_EQ(out.status[0], kNonFinite);
    EXPECT_EQ(out.integers, (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(out.floats, (Floats{0.0f, 0.0f}));
  }
}

TEST(Embed, CopiesTheRowToEveryStreamAndRefusesForeignIds) {
  Random random(18);
  for (const auto type :
       {format::TensorType::f32, format::TensorType::bf16, format::TensorType::q8_0, format::TensorType::q4_0}) {
    const Weights table_weights(type, 5, 64, random);
    const std::vector<int32_t> ids = {4, 0, -1, 5};
    const Output out = in_place(
        4, Floats(4 * 128, 7.0f), [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& y) {
          table.embed(
              queue, batch,
              {.table = table_weights.matrix, .ids = ids.data(), .out = y.data(), .out_stride = 128, .copies = 2});
        });
    EXPECT_EQ(out.status[0], kIndexRange);
    for (int64_t i = 0; i < 128; ++i) {
      EXPECT_EQ(out.floats[i], table_weights.values[4 * 64 + i % 64]);
      EXPECT_EQ(out.floats[128 + i], table_weights.values[i % 64]);
      EXPECT_EQ(out.floats[256 + i], 0.0f);
      EXPECT_EQ(out.floats[384 + i], 0.0f);
    }
  }
}

TEST(Ple, RowsAreDequantisedSideBySide) {
  Random random(19);
  const Weights encoded(format::TensorType::q8_0, 6, 32, random);
  const Output out =
      in_place(2, Floats(2 * 100), [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& y) {
        table.ple_rows(queue, batch,
                       {.type = format::TensorType::q8_0,
                        .encoded = encoded.bytes.data(),
                        .row_bytes = encoded.matrix.row_bytes,
                        .heads = 3,
                        .width = 32,
                        .out = y.data(),
                        .out_stride = 100});
      });
  for (int64_t i = 0; i < 96; ++i) {
    EXPECT_EQ(out.floats[i], encoded.values[i]);
    EXPECT_EQ(out.floats[100 + i], encoded.values[96 + i]);
  }
}

TEST(Ple, GateTakesTheSignedRootOfTheScore) {
  Random random(20);
  const int64_t rows = 3, hc = 2, hidden = 300, all = hc * hidden;
  Floats key = random.normal(rows * all);
  const Floats query = random.normal(rows * all), value = random.normal(rows * hidden);
  std::fill(key.begin(), key.begin() + hidden, 0.0f);  // s = 0: 0.5
  std::transform(key.begin() + hidden, key.begin() + all, key.begin() + hidden,
                 [](float x) { return x * 1e-9f; });  // clamped
  const Output out = in_place(rows, Floats(rows * all),
                              [&](const Kernels& table, device::Queue& queue, const Batch& batch, Floats& y) {
                                table.ple_gate(queue, batch,
                                               {.key = key.data(),
                                                .query = query.data(),
                                                .stride = all,
                                                .value = value.data(),
                                                .value_stride = hidden,
                                                .hc = hc,
                                                .hidden = hidden,
                                                .gv = y.data(),
                                                .gv_stride = all});
                              });
  EXPECT_EQ(out.status[0], 0u);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < hc; ++c) {
      double s = 0;
      for (int64_t i = 0; i < hidden; ++i)
        s += static_cast<double>(key[r * all + c * hidden + i]) * query[r * all + c * hidden + i];
      s /= std::sqrt(static_cast<double>(hidden));
      const double root = std::copysign(std::sqrt(std::max(std::fabs(s), 1e-6)), s),
                   w = s == 0 ? 0.5 : exact_sigmoid(root);
      for (int64_t i = 0; i < hidden; ++i)
        ASSERT_NEAR(out.floats[r * all + c * hidden + i], w * value[r * hidden + i], 3e-6);
    }
  }
}

TEST(Rows, LastRowsAndRoutesGoToTheirOwnSequences) {
  Floats x(5 * 3);
  std::iota(x.begin(), x.end(), 0.0f);
  const std::vector<int32_t> ids = {0, 1, 10, 11, 20, 21, 30, 31, 40, 41};
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    World world(3, 32, 16, 0, 0);
    Output result;
    result.floats.resize(2 * 3);
    world.step({2, 0, 3}, [&](const Batch& batch) {
      table.keep_last(queue, batch, {.x = x.data(), .x_stride = 3, .width = 3, .bank_offset = 8});
      table.keep_routes(queue, batch, {.ids = ids.data(), .used = 2, .bank_offset = 24});
      table.gather_last(queue, batch,
                        {.x = x.data(), .x_stride = 3, .width = 3, .y = result.floats.data(), .y_stride = 3});
    });
    for (const int s : {0, 2}) result.floats.insert(result.floats.end(), world.bank(s) + 2, world.bank(s) + 5);
    for (const int s : {0, 2}) {
      const int32_t* routes = reinterpret_cast<const int32_t*>(world.bank(s) + 6);
      result.integers.insert(result.integers.end(), routes, routes + 2);
    }
    return result;
  });
  EXPECT_EQ(out.floats, (Floats{3, 4, 5, 12, 13, 14, 3, 4, 5, 12, 13, 14}));
  EXPECT_EQ(out.integers, (std::vector<int32_t>{10, 11, 40, 41}));
}

TEST(CheckFinite, MarksTheSequenceOfTheBadRowAlone) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Floats x(4 * 10, 1.0f);
    x[39] = bad;
    const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
      World world(3, 0, 16, 0, 0);
      Output result;
      world.step({1, 1, 2}, [&](const Batch& batch) {
        table.check_finite(queue, batch, {.x = x.data(), .x_stride = 10, .width = 10});
        result.status.assign(batch.status, batch.status + 3);
      });
      return result;
    });
    EXPECT_EQ(out.status, (std::vector<uint32_t>{0, 0, kNonFinite}));
  }
}

#if defined(__x86_64__)
bool built(std::string_view table) {
#define EVROS_TABLE(isa) \
  if (table == #isa) return true;
#include "kernels/host_tables.inc"
#undef EVROS_TABLE
  return false;
}

/// What Linux says: it leaves out what it does not give to programs.
bool processor_flag(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string word; file >> word;) {
    if (word == name) return true;
  }
  return false;
}

TEST(Tables, ABuildDoesNotLoseTheVectorTablesThatTheMachineRuns) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  EXPECT_EQ(host_kernels("avx2") != nullptr, avx2);
  if (avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni")) {
    EXPECT_EQ(host_kernels("avx512") != nullptr, built("avx512"));
    EXPECT_EQ(host_kernels("amx") != nullptr, built("amx") && processor_flag("amx_int8"));
  }
}
#endif

TEST(Tables, AreFoundByNameAndComplete) {
  EXPECT_EQ(host_kernels("ref"), &ref_kernels());
  EXPECT_EQ(host_kernels("ref-fma"), ref_fma_kernels());
  EXPECT_EQ(host_kernels("avx1024"), nullptr);
  for (const Kernels* table : {&ref_kernels(), ref_fma_kernels(), &best_host_kernels()}) {
    if (table == nullptr) continue;
    const void* entries[sizeof(Kernels) / sizeof(void*)];
    static_assert(sizeof entries == sizeof(Kernels));
    std::memcpy(entries, table, sizeof entries);
    for (const void* entry : entries) EXPECT_NE(entry, nullptr) << table->name;
  }
}

}  // namespace
}  // namespace evros::kernels
