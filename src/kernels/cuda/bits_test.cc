// Cases that the kernels of a GPU can get wrong and those of the host cannot: more than a block works on at once, pieces and
// rounds of their loops, sorted pairs, all formats of tables. With other_tables(), as everywhere() says.
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/test_support.h"

namespace evros::kernels {
namespace {

using format::TensorType;

TEST(LongRows, OfAProductTakeMoreThanOneRoundOfSegments) {
  Random random(401);
  for (const TensorType type : weight_types()) {
    for (const int64_t tokens : {1, 3, 9}) {
      const int64_t cols = 256 * 35, rows = random.integer(30, 40);
      const Weights w(type, rows, cols, random);
      const Floats x = random.normal(tokens * cols);
      everywhere([&](const Kernels& table, device::Queue& queue) {
        Rows batch(tokens);
        const bool integers = format::type_info(type).quantised;
        Quantised xq(table, queue, batch.batch, x, integers ? cols : 0);
        Floats y(tokens * rows);
        table.matmul(queue, batch.batch,
                     {w.matrix, x.data(), cols, integers ? xq.rows() : QuantRows{}, y.data(), rows});
        return Output{.floats = y, .integers = {}, .bytes = {}, .status = batch.status};
      });
    }
  }
}

TEST(LongRows, OfAGateTakeMoreThanOneRoundOfSegments) {
  Random random(402);
  const int32_t hidden = 256 * 258 + 5;
  const Floats key = random.normal(hidden), query = random.normal(hidden), value = random.normal(hidden);
  everywhere([&](const Kernels& table, device::Queue& queue) {
    Rows batch(1);
    Floats gv(hidden);
    table.ple_gate(queue, batch.batch,
                   {key.data(), query.data(), hidden, value.data(), hidden, 1, hidden, gv.data(), hidden});
    return Output{.floats = gv, .integers = {}, .bytes = {}, .status = batch.status};
  });
}

/// Few experts with many pairs each, and more experts than a sorting block has threads.
TEST(SortedExperts, HaveTheReferencesBitsForAnyNumberOfPairs) {
  Random random(403);
  struct Shape {
    int64_t rows, count, used, hidden, ff;
    TensorType type;
  };
  for (const Shape& s : {Shape{40, 3, 2, 64, 96, TensorType::q8_0}, Shape{40, 3, 2, 70, 33, TensorType::bf16},
                         Shape{30, 1100, 2, 3, 5, TensorType::f32}, Shape{1, 1100, 3, 3, 5, TensorType::f16}}) {
    const Weights gate(s.type, s.ff * s.count, s.hidden, random, s.count),
        up(s.type, s.ff * s.count, s.hidden, random, s.count), down(s.type, s.hidden * s.count, s.ff, random, s.count);
    const Floats x = random.normal(s.rows * s.hidden), weights = random.normal(s.rows * s.used);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < s.rows * s.used; ++i) {
      ids.push_back(static_cast<int32_t>(random.integer(0, 3) == 0 ? s.count - 1 : random.integer(0, s.count - 1)));
    }
    everywhere([&](const Kernels& table, device::Queue& queue) {
      return run_experts(table, queue, gate, up, down, s.count, x, ids, weights, s.used,
                         format::type_info(s.type).quantised);
    });
  }
}

TEST(SortedExperts, ReportAHiddenValueThatIsNotFinite) {
  Random random(404);
  const int64_t hidden = 32, ff = 64, count = 4, used = 2, rows = 3;
  const Weights gate(TensorType::q8_0, ff * count, hidden, random, count),
      up(TensorType::q8_0, ff * count, hidden, random, count),
      down(TensorType::q8_0, hidden * count, ff, random, count);
  Floats x = random.normal(rows * hidden);
  for (int64_t i = 0; i < hidden; ++i) x[hidden + i] *= 1e25f;
  const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
    return run_experts(table, queue, gate, up, down, count, x, {0, 1, 2, 1, 3, 0}, Floats(rows * used, 0.5f), used,
                       true);
  });
  EXPECT_EQ(out.status[0], kNonFinite);
}

TEST(Columns, OfTheDeltaRuleMayBeLongerThanTheFastestKernelTakes) {
  Random random(405);
  for (const int key_dim : {136, 200, 256, 257}) {
    const int value_dim = 40, heads = 2;
    const int64_t rows = 5, width = 2 * key_dim + heads * value_dim;
    Floats qkv = random.normal(rows * width, 0.3f), gates(rows * 2 * heads);
    for (float& g : gates) g = random.uniform(0.3f, 0.99f);
    everywhere([&](const Kernels& table, device::Queue& queue) {
      World world(1, int64_t{heads} * key_dim * value_dim * 4, 64, 0, 0);
      Floats o(rows * heads * value_dim);
      for (int step = 0; step < 2; ++step) {
        world.step({rows}, [&](const Batch& batch) {
          table.gdn_delta(queue, batch,
                          {qkv.data(), width, gates.data(), gates.data() + heads, 2 * heads, 1, heads, key_dim,
                           value_dim, 0, o.data(), heads * value_dim});
        });
      }
      return Output{.floats = o, .integers = {}, .bytes = world.bytes(), .status = {world.status()}};
    });
  }
}

/// A row that sees far more entries than a block sums in one round, through many pages, with more heads than warps.
TEST(Attention, OverManyEntriesHasTheReferencesBits) {
  Random random(406);
  struct Shape {
    int heads, kv_heads, key_dim, value_dim, ratio, keep;
    CacheType type;
  };
  for (const Shape& s : {Shape{18, 2, 70, 40, 0, 0, CacheType::f16}, Shape{2, 2, 300, 33, 4, 150, CacheType::bf16},
                         Shape{3, 1, 8, 5, 3, 250, CacheType::f32}}) {
    const int64_t old = 1171, page_tokens = 12 * 4, bytes = cache_bytes(s.type),
                  k_width = int64_t{s.kv_heads} * s.key_dim, v_width = int64_t{s.kv_heads} * s.value_dim, rows = 2;
    const PageRows k_page{0, k_width * bytes, 1};
    const PageRows v_page{static_cast<uint64_t>(page_tokens * k_width * bytes), v_width * bytes, 1};
    const Floats k = random.normal((old + rows) * k_width), v = random.normal((old + rows) * v_width),
                 q = random.normal(rows * s.heads * s.key_dim);
    std::vector<int32_t> selected;
    for (int64_t r = 0; r < rows; ++r) {
      for (int32_t b = 0; b < s.keep; ++b) selected.push_back(b < s.keep - r * 7 ? b + b / 50 : -1);
    }
    everywhere([&](const Kernels& table, device::Queue& queue) {
      World world(1, 0, page_tokens, page_tokens * (k_width + v_width) * bytes, old + rows);
      const auto store = [&](const Batch& batch, int64_t first) {
        table.store_rows(queue, batch, {&k[first * k_width], k_width, k_width, s.type, k_page});
        table.store_rows(queue, batch, {&v[first * v_width], v_width, v_width, s.type, v_page});
      };
      world.step({old}, [&](const Batch& batch) { store(batch, 0); });
      Output out;
      world.step({rows}, [&](const Batch& batch) {
        store(batch, old);
        Floats scores(rows * s.heads * (old + rows));
        out.floats.resize(rows * s.heads * s.value_dim);
        table.attention(queue, batch,
                        {q.data(), int64_t{s.heads} * s.key_dim, s.heads, s.kv_heads, s.key_dim, s.value_dim, s.type,
                         k_page, v_page, s.ratio, s.keep, selected.data(), scores.data(), old + rows, out.floats.data(),
                         int64_t{s.heads} * s.value_dim});
        out.status.assign(batch.status, batch.status + batch.sequences);
      });
      return out;
    });
  }
}

/// More blocks than a selecting block has threads; scores in few steps, so that ties go across the cut, or all equal.
TEST(Select, TakesTheFirstOfEqualBlocksAcrossThePiecesOfARow) {
  Random random(407);
  for (const int kinds : {1, 3, 40}) {
    const int dim = 4, heads = 9, keep = 700;
    const int64_t blocks = 2500, page_blocks = 64;
    Floats keys(blocks * dim), q(heads * dim, 1.0f);
    for (float& x : keys) x = static_cast<float>(random.integer(1, kinds));
    everywhere([&](const Kernels& table, device::Queue& queue) {
      World world(1, 0, page_blocks, page_blocks * dim * 4, blocks);
      for (int64_t b = 0; b < blocks; ++b) {
        std::memcpy(world.page(0, b / page_blocks) + b % page_blocks * dim * 4, &keys[b * dim], dim * sizeof(float));
      }
      world.step({blocks - 1}, [](const Batch&) {});
      Output out{.floats = {}, .integers = std::vector<int32_t>(keep, 99), .bytes = {}, .status = {}};
      world.step({1}, [&](const Batch& batch) {
        Floats scores(blocks);
        table.qsa_select(queue, batch,
                         {q.data(), heads * dim, heads, dim, 1, keep, PageRows{0, dim * 4, 1}, scores.data(), blocks,
                          out.integers.data()});
        out.status.assign(batch.status, batch.status + 1);
      });
      return out;
    });
  }
}

TEST(Tables, OfEveryFormatGiveTheirRows) {
  Random random(408);
  for (const TensorType type : weight_types()) {
    const int64_t rows = 37, cols = 512;
    const Weights w(type, rows, cols, random);
    const std::vector<int32_t> ids = {36, 0, 31, 32, 5, 37, -1};
    const Output out = everywhere([&](const Kernels& table, device::Queue& queue) {
      Rows batch(static_cast<int64_t>(ids.size()));
      Output result{.floats = Floats(2 * ids.size() * cols), .integers = {}, .bytes = {}, .status = {}};
      table.embed(queue, batch.batch, {w.matrix, ids.data(), result.floats.data(), 2 * cols, 2});
      Rows encoded(3);
      Floats heads(3 * cols * 2);
      table.ple_rows(queue, encoded.batch,
                     {type, w.bytes.data(), w.matrix.row_bytes, 2, static_cast<int32_t>(cols), heads.data(), 2 * cols});
      result.floats.insert(result.floats.end(), heads.begin(), heads.end());
      result.status = batch.status;
      return result;
    });
    EXPECT_EQ(out.status[0], kIndexRange);
    EXPECT_TRUE(std::equal(w.values.end() - cols, w.values.end(), out.floats.begin())) << static_cast<int>(type);
  }
}

/// A raw key that is not finite is reported by its own sequence, also when it completes no block.
TEST(IndexStore, ReportsARawKeyThatIsNotFinite) {
  const int dim = 40, ratio = 4;
  const Floats gain(dim, 1.0f), rope(3 * 8 * dim, 0.5f);
  for (const int64_t bad : {0, 5, 11}) {
    Floats raw(12 * dim, 0.25f);
    raw[bad * dim + 37] = bad == 5 ? INFINITY : NAN;
    everywhere([&](const Kernels& table, device::Queue& queue) {
      World world(3, (ratio - 1) * dim * 4, 16, 4 * dim * 4, 16);
      Output out;
      world.step({1, 6, 5}, [&](const Batch& batch) {
        table.index_store(
            queue, batch,
            {raw.data(), dim, dim, ratio, 8, gain.data(), 1e-6f, rope.data(), 0, PageRows{0, dim * 4, ratio}});
        out.status.assign(batch.status, batch.status + batch.sequences);
      });
      return out;
    });
  }
}

}  // namespace
}  // namespace evros::kernels
