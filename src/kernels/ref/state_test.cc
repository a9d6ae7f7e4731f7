// Kernels that carry state from chunk to chunk: however the tokens are cut, outputs and state have the same bits, and they
// are the ones of a double-precision model of the whole sequence.
#include <cmath>

#include "kernels/test_support.h"

namespace evros::kernels {
namespace {

/// Runs `sequences` sequences of `tokens` tokens through every partition, everywhere; returns the one result.
Output every_partition(
    int sequences, int64_t tokens, Random& random,
    const std::function<Output(const Kernels&, device::Queue&, const std::vector<std::vector<int64_t>>& steps)>& run) {
  Output first;
  bool have_first = false;
  for (const auto& steps : partitions(sequences, tokens, random)) {
    Output out = everywhere([&](const Kernels& table, device::Queue& queue) { return run(table, queue, steps); });
    if (have_first) expect_same(out, first, "another partition");
    if (!have_first) first = std::move(out);
    have_first = true;
  }
  return first;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

TEST(GdnConv, IsTheCausalConvolutionHoweverTheTokensAreCut) {
  Random random(3);
  struct Shape {
    int channels, kernel;
  };
  for (const Shape& shape : {Shape{5, 4}, Shape{130, 3}, Shape{64, 1}, Shape{70, 2}, Shape{301, 4}, Shape{20, 9}}) {
    const int channels = shape.channels, kernel = shape.kernel;
    const int sequences = 2;
    const int64_t tokens = 17;
    Tokens x(sequences, tokens, channels, random);
    const Floats w = random.normal(int64_t{channels} * kernel);
    const Output out =
        every_partition(sequences, tokens, random, [&](const Kernels& table, device::Queue& queue, const auto& steps) {
          World world(sequences, 64 + channels * (kernel - 1) * 4, 64, 0, 0);
          Tokens y(sequences, tokens, channels);
          for (const auto& counts : steps) {
            world.step(counts, [&](const Batch& batch) {
              const Floats in = x.gather(world, batch);
              Floats result(in.size());
              table.gdn_conv(queue, batch,
                             {.x = in.data(),
                              .x_stride = channels,
                              .w = w.data(),
                              .channels = channels,
                              .kernel = kernel,
                              .bank_offset = 64,
                              .y = result.data(),
                              .y_stride = channels});
              y.scatter(world, batch, result);
            });
          }
          std::vector<std::byte> kept;
          for (int s = 0; s < sequences; ++s) {
            const std::byte* begin = reinterpret_cast<const std::byte*>(world.bank(s)) + 64;
            kept.insert(kept.end(), begin, begin + channels * (kernel - 1) * 4);
          }
          return Output{.floats = y.data, .integers = {}, .bytes = kept, .status = {world.status()}};
        });
    for (int s = 0; s < sequences; ++s) {
      for (int64_t t = 0; t < tokens; ++t) {
        for (int c = 0; c < channels; ++c) {
          double sum = 0;
          for (int tap = 0; tap < kernel; ++tap) {
            const int64_t from = t - (kernel - 1 - tap);
            if (from >= 0) sum += static_cast<double>(w[c * kernel + tap]) * x.row(s, from)[c];
          }
          ASSERT_NEAR(out.floats[(s * tokens + t) * channels + c], silu(sum), 1e-5);
        }
      }
    }
    const float* history = reinterpret_cast<const float*>(out.bytes.data());
    for (int i = 0; i < kernel - 1; ++i) {
      for (int c = 0; c < channels; ++c) EXPECT_EQ(history[i * channels + c], x.row(0, tokens - (kernel - 1) + i)[c]);
    }
  }
}

TEST(GdnDelta, IsTheRecurrenceHoweverTheTokensAreCut) {
  Random random(4);
  struct Shape {
    int key_heads, value_heads, kd, vd;
  };
  for (const Shape& shape :
       {Shape{1, 3, 16, 8}, Shape{2, 6, 13, 70}, Shape{2, 2, 128, 128}, Shape{1, 2, 72, 96}, Shape{1, 1, 264, 32}}) {
    const int sequences = 2;
    const int64_t tokens = 11, row = 2 * shape.key_heads * shape.kd + shape.value_heads * shape.vd,
                  head = shape.kd * shape.vd;
    Tokens qkv(sequences, tokens, row, random), gates(sequences, tokens, 2 * shape.value_heads);
    for (float& x : qkv.data) x *= 0.3f;
    for (float& x : gates.data) x = random.uniform(0.3f, 0.99f);
    const int64_t width = int64_t{shape.value_heads} * shape.vd;
    const Output out =
        every_partition(sequences, tokens, random, [&](const Kernels& table, device::Queue& queue, const auto& steps) {
          World world(sequences, shape.value_heads * head * 4, 64, 0, 0);
          Tokens o(sequences, tokens, width);
          for (const auto& counts : steps) {
            world.step(counts, [&](const Batch& batch) {
              const Floats in = qkv.gather(world, batch), gate = gates.gather(world, batch);
              Floats result(batch.rows * width);
              table.gdn_delta(queue, batch,
                              {.qkv = in.data(),
                               .qkv_stride = row,
                               .decay = gate.data(),
                               .beta = gate.data() + shape.value_heads,
                               .gate_stride = 2 * shape.value_heads,
                               .key_heads = shape.key_heads,
                               .value_heads = shape.value_heads,
                               .key_dim = shape.kd,
                               .value_dim = shape.vd,
                               .bank_offset = 0,
                               .o = result.data(),
                               .o_stride = width});
              o.scatter(world, batch, result);
            });
          }
          return Output{.floats = o.data, .integers = {}, .bytes = world.bytes(), .status = {world.status()}};
        });
    for (int h = 0; h < shape.value_heads; ++h) {
      std::vector<double> state(static_cast<size_t>(head));
      for (int64_t t = 0; t < tokens; ++t) {
        const float* r = qkv.row(1, t);
        const float *q = r + h % shape.key_heads * shape.kd, *k = q + shape.key_heads * shape.kd,
                    *v = r + 2 * shape.key_heads * shape.kd + h * shape.vd;
        for (int j = 0; j < shape.vd; ++j) {
          double read = 0, o = 0;
          for (int i = 0; i < shape.kd; ++i) {
            double& cell = state[i * shape.vd + j];
            cell *= static_cast<double>(gates.row(1, t)[h]);
            read += cell * k[i];
          }
          const double d = gates.row(1, t)[shape.value_heads + h] * (v[j] - read);
          for (int i = 0; i < shape.kd; ++i) {
            state[i * shape.vd + j] += k[i] * d;
            o += state[i * shape.vd + j] * q[i];
          }
          ASSERT_NEAR(out.floats[(tokens + t) * width + h * shape.vd + j], o, 2e-5 * (1 + std::fabs(o)))
              << h << " " << t;
        }
      }
    }
  }
}

TEST(GdnConv, AddsFromTheOldestTapToTheNewest) {
  const Floats x = {16777216.0f, 1.0f, 1.0f, 1.0f}, w(4, 1.0f);
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    World world(1, 12, 64, 0, 0);
    Floats y(4);
    world.step({4}, [&](const Batch& batch) {
      table.gdn_conv(queue, batch,
                     {.x = x.data(),
                      .x_stride = 1,
                      .w = w.data(),
                      .channels = 1,
                      .kernel = 4,
                      .bank_offset = 0,
                      .y = y.data(),
                      .y_stride = 1});
    });
    return Output{.floats = y, .integers = {}, .bytes = {}, .status = {}};
  });
  EXPECT_EQ(out.floats[3], 16777216.0f);  // from the newest it would be 2^24 + 3, rounded
}

TEST(GdnDelta, SumsInEightStridesThatFoldFromTheFarHalf) {
  // From a zero state with beta = v = 1 the state is k, and o is its sum when q is ones. k[8] drowns in the stride of k[0] =
  // 2^24, k[4] in the first fold; k[2] and k[6] meet there, and their 2 survives.
  Floats qkv(16 + 16 + 1, 0.0f);
  std::fill(qkv.begin(), qkv.begin() + 16, 1.0f);
  for (const int i : {2, 4, 6, 8}) qkv[16 + i] = 1.0f;
  qkv[16] = 16777216.0f;
  qkv[32] = 1.0f;
  const Floats one = {1.0f};
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    World world(1, 64, 64, 0, 0);
    Floats o(1);
    world.step({1}, [&](const Batch& batch) {
      table.gdn_delta(queue, batch,
                      {.qkv = qkv.data(),
                       .qkv_stride = 33,
                       .decay = one.data(),
                       .beta = one.data(),
                       .gate_stride = 1,
                       .key_heads = 1,
                       .value_heads = 1,
                       .key_dim = 16,
                       .value_dim = 1,
                       .bank_offset = 0,
                       .o = o.data(),
                       .o_stride = 1});
    });
    return Output{.floats = o, .integers = {}, .bytes = {}, .status = {}};
  });
  EXPECT_EQ(out.floats[0], 16777218.0f);
}

TEST(PleConv, IsTheDilatedConvolutionHoweverTheTokensAreCut) {
  Random random(5);
  struct Shape {
    int channels, kernel, dilation;
  };
  for (const Shape& shape : {Shape{10, 4, 3}, Shape{66, 2, 2}, Shape{8, 3, 4}, Shape{290, 4, 1}, Shape{9, 10, 1}}) {
    const int sequences = 2;
    const int64_t tokens = 19, reach = (shape.kernel - 1) * shape.dilation, n = shape.channels;
    Tokens normed(sequences, tokens, n, random), gv(sequences, tokens, n, random), x(sequences, tokens, n, random);
    const Floats w = random.normal(n * shape.kernel);
    const Output out =
        every_partition(sequences, tokens, random, [&](const Kernels& table, device::Queue& queue, const auto& steps) {
          World world(sequences, reach * n * 4, 64, 0, 0);
          Tokens y(sequences, tokens, n);
          for (const auto& counts : steps) {
            world.step(counts, [&](const Batch& batch) {
              const Floats in = normed.gather(world, batch), values = gv.gather(world, batch);
              Floats streams = x.gather(world, batch), added(in.size());
              const Floats before = streams;
              table.ple_conv(queue, batch,
                             {.normed = in.data(),
                              .gv = values.data(),
                              .stride = n,
                              .w = w.data(),
                              .channels = shape.channels,
                              .kernel = shape.kernel,
                              .dilation = shape.dilation,
                              .bank_offset = 0,
                              .x = streams.data(),
                              .x_stride = n,
                              .added = added.data(),
                              .added_stride = n});
              for (size_t i = 0; i < added.size(); ++i) ASSERT_EQ(streams[i], before[i] + added[i]);
              y.scatter(world, batch, streams);
            });
          }
          return Output{.floats = y.data, .integers = {}, .bytes = world.bytes(), .status = {world.status()}};
        });
    for (int s = 0; s < sequences; ++s) {
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t c = 0; c < n; ++c) {
          double sum = 0;
          for (int tap = 0; tap < shape.kernel; ++tap) {
            const int64_t from = t - shape.dilation * (shape.kernel - 1 - tap);
            if (from >= 0) sum += static_cast<double>(w[c * shape.kernel + tap]) * normed.row(s, from)[c];
          }
          ASSERT_NEAR(out.floats[(s * tokens + t) * n + c], x.row(s, t)[c] + gv.row(s, t)[c] + silu(sum), 1e-5);
        }
      }
    }
  }
}

TEST(IndexStore, PoolsTheSameKeysHoweverTheTokensAreCut) {
  Random random(6);
  struct Shape {
    int dim, ratio, rope;
  };
  for (const Shape& shape : {Shape{12, 4, 8}, Shape{128, 16, 64}, Shape{70, 3, 44}, Shape{8, 1, 2}, Shape{6, 2, 6}}) {
    const int sequences = 2;
    const int64_t tokens = 37, dim = shape.dim, page_tokens = 4 * shape.ratio, tail = (shape.ratio - 1) * dim;
    const PageRows page{.offset = 16, .row_bytes = dim * 4, .tokens_per_row = shape.ratio};
    Tokens raw(sequences, tokens, dim, random), rope(1, tokens, shape.rope);
    for (int64_t t = 0; t < tokens; ++t) {  // the row that completes a block carries the block's first position
      for (int i = 0; i < shape.rope / 2; ++i) {
        const double angle = static_cast<double>(t - shape.ratio + 1) / (i + 1);
        rope.row(0, t)[2 * i] = static_cast<float>(std::cos(angle));
        rope.row(0, t)[2 * i + 1] = static_cast<float>(std::sin(angle));
      }
    }
    const Floats gain = random.normal(dim);
    const Output out =
        every_partition(sequences, tokens, random, [&](const Kernels& table, device::Queue& queue, const auto& steps) {
          World world(sequences, tail * 4, page_tokens, 16 + 4 * dim * 4, tokens);
          for (const auto& counts : steps) {
            world.step(counts, [&](const Batch& batch) {
              const Floats in = raw.gather(world, batch);
              Floats phases;
              for (int64_t r = 0; r < batch.rows; ++r) {
                const float* p = rope.row(0, batch.row_position[r]);
                phases.insert(phases.end(), p, p + shape.rope);
              }
              table.index_store(queue, batch,
                                {.raw = in.data(),
                                 .raw_stride = dim,
                                 .dim = shape.dim,
                                 .ratio = shape.ratio,
                                 .rope_dims = shape.rope,
                                 .gain = gain.data(),
                                 .eps = 1e-6f,
                                 .block_rope = phases.data(),
                                 .bank_offset = 0,
                                 .page = page});
            });
          }
          Output result{.floats = {}, .integers = {}, .bytes = world.bytes(), .status = {world.status()}};
          for (int64_t b = 0; b < tokens / shape.ratio; ++b) {
            const float* key = reinterpret_cast<const float*>(world.page(1, b / 4) + 16) + b % 4 * dim;
            result.floats.insert(result.floats.end(), key, key + dim);
          }
          result.floats.insert(result.floats.end(), world.bank(1), world.bank(1) + tail);
          return result;
        });
    EXPECT_EQ(out.status[0], 0u);
    const int64_t blocks = tokens / shape.ratio, left = tokens % shape.ratio;
    for (int64_t b = 0; b < blocks; ++b) {
      std::vector<double> key(static_cast<size_t>(dim));
      double squares = 0;
      for (int64_t c = 0; c < dim; ++c) {
        for (int64_t j = 0; j < shape.ratio; ++j)
          key[c] += static_cast<double>(raw.row(1, b * shape.ratio + j)[c]) / shape.ratio;
        squares += key[c] * key[c];
      }
      for (int64_t c = 0; c < dim; ++c) key[c] *= gain[c] / std::sqrt(squares / static_cast<double>(dim) + 1e-6);
      for (int i = 0; i < shape.rope / 2; ++i) {
        const double angle = static_cast<double>(b * shape.ratio) / (i + 1), a = key[i], z = key[i + shape.rope / 2];
        key[i] = a * std::cos(angle) - z * std::sin(angle);
        key[i + shape.rope / 2] = a * std::sin(angle) + z * std::cos(angle);
      }
      for (int64_t c = 0; c < dim; ++c) ASSERT_NEAR(out.floats[b * dim + c], key[c], 2e-5) << b;
    }
    for (int64_t i = 0; i < shape.ratio - 1; ++i) {
      for (int64_t c = 0; c < dim; ++c) {
        ASSERT_EQ(out.floats[(blocks + i) * dim + c], i < left ? raw.row(1, blocks * shape.ratio + i)[c] : 0.0f);
      }
    }
  }
}

}  // namespace
}  // namespace evros::kernels
