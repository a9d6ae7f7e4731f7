// Rows of the cache, selection of blocks, attention: against double-precision models that read the stored values.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/codec/float16.h"
#include "kernels/test_support.h"

namespace evros::kernels {
namespace {

float stored(CacheType type, float x) {
  if (type == CacheType::f16) return f16_to_f32(f32_to_f16(x));
  return type == CacheType::bf16 ? bf16_to_f32(f32_to_bf16(x)) : x;
}

struct Shape {
  int heads, kv_heads, key_dim, value_dim, ratio, keep;
  int64_t tokens;
  CacheType type;
};

/// What store_rows, attention and the reference below work on: one sequence, K and V of every token, a selection.
struct Scene {
  Shape shape;
  Floats q, k, v;
  std::vector<int32_t> selected;  // [tokens][keep]

  Scene(const Shape& s, Random& random)
      : shape(s),
        q(random.normal(s.tokens * s.heads * s.key_dim)),
        k(random.normal(s.tokens * s.kv_heads * s.key_dim)),
        v(random.normal(s.tokens * s.kv_heads * s.value_dim)) {
    for (int64_t t = 0; t < s.tokens && s.ratio > 0; ++t) {
      std::vector<int32_t> blocks(static_cast<size_t>((t + 1) / s.ratio));
      std::iota(blocks.begin(), blocks.end(), 0);
      while (static_cast<int>(blocks.size()) > s.keep) {
        blocks.erase(blocks.begin() + random.integer(0, static_cast<int64_t>(blocks.size()) - 1));
      }
      blocks.resize(static_cast<size_t>(s.keep), -1);
      selected.insert(selected.end(), blocks.begin(), blocks.end());
    }
  }

  std::vector<int64_t> visible(int64_t t) const {
    std::vector<int64_t> out;
    const int64_t complete = shape.ratio > 0 ? (t + 1) / shape.ratio : 0;
    for (int64_t p = 0; p <= t; ++p) {
      const int32_t* mine = shape.ratio > 0 ? &selected[t * shape.keep] : nullptr;
      const bool in_tail = shape.ratio == 0 || p >= complete * shape.ratio;
      if (in_tail || std::find(mine, mine + shape.keep, static_cast<int32_t>(p / shape.ratio)) != mine + shape.keep)
        out.push_back(p);
    }
    return out;
  }

  Output run(const Kernels& table, device::Queue& queue, const std::vector<std::vector<int64_t>>& steps) const {
    const int64_t page_tokens = shape.ratio > 0 ? 4 * shape.ratio : 16, width = cache_bytes(shape.type);
    const int64_t k_row = shape.kv_heads * shape.key_dim, v_row = shape.kv_heads * shape.value_dim;
    const PageRows k_page{.offset = 8, .row_bytes = k_row * width, .tokens_per_row = 1};
    const PageRows v_page{.offset = 8 + static_cast<uint64_t>(page_tokens * k_row * width),
                          .row_bytes = v_row * width,
                          .tokens_per_row = 1};
    World world(1, 0, page_tokens, 8 + page_tokens * (k_row + v_row) * width, shape.tokens);
    Output result;
    int64_t first = 0;
    for (const auto& counts : steps) {
      world.step(counts, [&](const Batch& batch) {
        table.store_rows(
            queue, batch,
            {.x = &k[first * k_row], .x_stride = k_row, .width = k_row, .type = shape.type, .page = k_page});
        table.store_rows(
            queue, batch,
            {.x = &v[first * v_row], .x_stride = v_row, .width = v_row, .type = shape.type, .page = v_page});
        Floats scores(batch.rows * shape.heads * shape.tokens), out(batch.rows * shape.heads * shape.value_dim);
        table.attention(queue, batch,
                        {.q = &q[first * shape.heads * shape.key_dim],
                         .q_stride = shape.heads * shape.key_dim,
                         .heads = shape.heads,
                         .kv_heads = shape.kv_heads,
                         .key_dim = shape.key_dim,
                         .value_dim = shape.value_dim,
                         .type = shape.type,
                         .k = k_page,
                         .v = v_page,
                         .ratio = shape.ratio,
                         .keep = shape.keep,
                         .selected = shape.ratio > 0 ? &selected[first * shape.keep] : nullptr,
                         .scores = scores.data(),
                         .score_stride = shape.tokens,
                         .out = out.data(),
                         .out_stride = shape.heads * shape.value_dim});
        result.floats.insert(result.floats.end(), out.begin(), out.end());
        first += batch.rows;
      });
    }
    result.bytes = world.bytes();
    result.status = {world.status()};
    return result;
  }

  void expect_exact(const Output& out) const {
    for (int64_t t = 0; t < shape.tokens; ++t) {
      const std::vector<int64_t> seen = visible(t);
      for (int h = 0; h < shape.heads; ++h) {
        const int kv = h / (shape.heads / shape.kv_heads);
        std::vector<double> p;
        double sum = 0;
        for (const int64_t position : seen) {
          double dot = 0;
          for (int i = 0; i < shape.key_dim; ++i) {
            dot += static_cast<double>(q[(t * shape.heads + h) * shape.key_dim + i]) *
                   stored(shape.type, k[(position * shape.kv_heads + kv) * shape.key_dim + i]);
          }
          p.push_back(std::exp(dot / std::sqrt(shape.key_dim)));
          sum += p.back();
        }
        for (int c = 0; c < shape.value_dim; ++c) {
          double exact = 0;
          for (size_t e = 0; e < seen.size(); ++e) {
            exact += p[e] / sum * stored(shape.type, v[(seen[e] * shape.kv_heads + kv) * shape.value_dim + c]);
          }
          ASSERT_NEAR(out.floats[(t * shape.heads + h) * shape.value_dim + c], exact, 1e-5)
              << t << " " << h << " " << c;
        }
      }
    }
  }
};

TEST(Attention, IsTheSoftmaxOverTheStoredRowsHoweverTheTokensAreCut) {
  Random random(7);
  for (const Shape& shape :
       {Shape{6, 2, 16, 8, 4, 3, 45, CacheType::f16}, Shape{3, 1, 33, 70, 0, 0, 150, CacheType::f32},
        Shape{4, 4, 8, 16, 16, 2, 70, CacheType::bf16}, Shape{2, 1, 256, 256, 3, 5, 40, CacheType::f16},
        Shape{12, 1, 5, 3, 1, 4, 20, CacheType::f32}, Shape{26, 2, 40, 72, 2, 6, 40, CacheType::f16},
        Shape{20, 1, 300, 290, 0, 0, 70, CacheType::bf16}, Shape{5, 1, 9, 33, 0, 0, 30, CacheType::f16}}) {
    const Scene scene(shape, random);
    Output first;
    for (const auto& steps : partitions(1, shape.tokens, random)) {
      Output out =
          everywhere([&](const Kernels& table, device::Queue& queue) { return scene.run(table, queue, steps); });
      if (!first.floats.empty()) expect_same(out, first, "another partition");
      first = std::move(out);
    }
    EXPECT_EQ(first.status[0], 0u);
    scene.expect_exact(first);
  }
}

TEST(Attention, AddsWithinTilesOf64AndThenTheTiles) {
  // Every score is 0, so every p is 1: what is left is the order of additions. 63 ones drown one by one in 2^24, the 64 of
  // the next tile arrive together.
  Random random(21);
  Scene scene({1, 1, 2, 1, 0, 0, 128, CacheType::f32}, random);
  std::fill(scene.q.begin(), scene.q.end(), 0.0f);
  std::fill(scene.v.begin(), scene.v.end(), 1.0f);
  scene.v[0] = 16777216.0f;
  const Output out =
      everywhere([&](const Kernels& table, device::Queue& queue) { return scene.run(table, queue, {{128}}); });
  EXPECT_EQ(out.floats[63], 16777216.0f / 64.0f);
  EXPECT_EQ(out.floats[127], (16777216.0f + 64.0f) / 128.0f);
}

TEST(Attention, SaysSoWhenAScoreIsNotFinite) {
  Random random(8);
  Scene scene({2, 1, 4, 4, 0, 0, 3, CacheType::f32}, random);
  std::fill(scene.q.begin(), scene.q.end(), 3e38f);
  scene.k.assign(scene.k.size(), 3e38f);
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    Output result = scene.run(table, queue, {{3}});
    result.floats.clear();  // NaNs
    return result;
  });
  EXPECT_EQ(out.status[0], kNonFinite);
}

TEST(StoreRows, ReportsOverflowAndNanApart) {
  struct Case {
    CacheType type;
    float x;
    uint32_t status;
  };
  for (const Case& c : {Case{CacheType::f16, 65519.0f, 0u}, Case{CacheType::f16, 65520.0f, kCacheOverflow},
                        Case{CacheType::f16, -7e4f, kCacheOverflow}, Case{CacheType::bf16, 3.38e38f, 0u},
                        Case{CacheType::bf16, 3.4e38f, kCacheOverflow}, Case{CacheType::f32, 3.4e38f, 0u},
                        Case{CacheType::f16, NAN, kNonFinite}, Case{CacheType::bf16, INFINITY, kNonFinite},
                        Case{CacheType::f32, -INFINITY, kNonFinite}}) {
    const Floats x = {1.0f, c.x};
    const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
      World world(1, 0, 16, 64, 16);
      world.step({1}, [&](const Batch& batch) {
        table.store_rows(queue, batch,
                         {.x = x.data(),
                          .x_stride = 2,
                          .width = 2,
                          .type = c.type,
                          .page = {.offset = 0, .row_bytes = 8, .tokens_per_row = 1}});
      });
      return Output{.floats = {}, .integers = {}, .bytes = {}, .status = {world.status()}};
    });
    EXPECT_EQ(out.status[0], c.status) << c.x << " as type " << static_cast<int>(c.type);
  }
}

/// One row that sees `blocks` complete blocks whose keys are given, and the selection that comes back.
Output select(const Floats& keys, const Floats& q, int heads, int dim, int ratio, int keep) {
  return everywhere([&](const Kernels& table, device::Queue& queue) {
    const int64_t blocks = static_cast<int64_t>(keys.size()) / dim, page_blocks = 3, tokens = blocks * ratio;
    World world(1, 0, page_blocks * ratio, page_blocks * dim * 4, tokens);
    for (int64_t b = 0; b < blocks; ++b) {
      std::memcpy(world.page(0, b / page_blocks) + b % page_blocks * dim * 4, &keys[b * dim],
                  static_cast<size_t>(dim) * 4);
    }
    Output result;
    world.step({tokens}, [](const Batch&) {});
    world.step({1}, [&](const Batch& batch) {
      Floats scores(static_cast<size_t>(blocks) + 1);
      result.integers.assign(static_cast<size_t>(keep), 99);
      table.qsa_select(queue, batch,
                       {.q = q.data(),
                        .q_stride = heads * dim,
                        .heads = heads,
                        .dim = dim,
                        .ratio = ratio,
                        .keep = keep,
                        .page = {.offset = 0, .row_bytes = dim * 4, .tokens_per_row = ratio},
                        .scores = scores.data(),
                        .score_stride = blocks + 1,
                        .selected = result.integers.data()});
      result.status = {batch.status[0]};
    });
    return result;
  });
}

TEST(QsaSelect, KeepsTheBestBlocksByScoreThenByIndex) {
  Random random(9);
  for (int round = 0; round < 30; ++round) {
    const int heads = static_cast<int>(random.integer(1, 5)), dim = static_cast<int>(random.integer(1, 40));
    const int ratio = static_cast<int>(random.integer(2, 6)), blocks = static_cast<int>(random.integer(1, 60));
    const int keep = static_cast<int>(random.integer(1, 20));
    Floats keys = random.normal(int64_t{blocks} * dim), q = random.normal(int64_t{heads} * dim);
    for (float& x : keys) x = std::round(x);  // small integers: exact dots, many ties, also at zero
    for (float& x : q) x = std::round(x);
    const Output out = select(keys, q, heads, dim, ratio, keep);
    std::vector<double> score(static_cast<size_t>(blocks));
    for (int b = 0; b < blocks; ++b) {
      for (int h = 0; h < heads; ++h) {
        double dot = 0;
        for (int i = 0; i < dim; ++i) dot += static_cast<double>(q[h * dim + i]) * keys[b * dim + i];
        score[b] += std::max(dot, 0.0);
      }
    }
    std::vector<int32_t> expected(static_cast<size_t>(blocks));
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) { return score[a] > score[b]; });
    expected.resize(static_cast<size_t>(std::min(keep, blocks)));
    std::sort(expected.begin(), expected.end());
    expected.resize(static_cast<size_t>(keep), -1);
    EXPECT_EQ(out.integers, expected);
    EXPECT_EQ(out.status[0], 0u);
  }
}

TEST(QsaSelect, ReportsAScoreThatReluWouldSwallow) {
  Floats keys = {1.0f, 2.0f, NAN, 4.0f};
  EXPECT_EQ(select(keys, {1.0f}, 1, 1, 2, 2).status[0], kNonFinite);
  keys[2] = -INFINITY;
  EXPECT_EQ(select(keys, {1.0f}, 1, 1, 2, 2).status[0], kNonFinite);
}

}  // namespace
}  // namespace evros::kernels
