// Each test is one way in which sparse attention (QSA) has failed users of other engines: when a conversation grows
// past the budget, when several sequences share index caches and batches, at positions whose products leave 32 bits,
// and with equal scores. The micro model selects from 17 tokens on, evros-tiny from 257.
#include <cmath>
#include <cstring>

#include "damaged_copy.h"
#include "kernels/test_support.h"
#include "users.h"

namespace evros::tests {
namespace {

engine::Engine& tiny(const Size& size) {
  static std::map<std::tuple<int32_t, int32_t>, std::unique_ptr<engine::Engine>> engines;
  auto& engine = engines[{size.sessions, size.chunk}];
  if (engine == nullptr) engine = load_sized(source_path("models/evros-tiny"), size);
  return *engine;
}

// A prompt below the budget, single tokens across it, and a long text after it, against one cold prefill.
void cross_by_continuation(engine::Engine& engine, engine::Engine& cold, size_t prompt, size_t singles, size_t rest) {
  const auto budget = static_cast<size_t>(engine.model().hyper.index_budget);
  ASSERT_LT(prompt, budget);
  ASSERT_GT(prompt + singles, budget);
  const Tokens text = draw_tokens(engine, 3, prompt + singles + rest);
  const auto session = must_open(engine);
  must_append(engine, session, first_of(text, prompt));
  for (size_t at = prompt; at < prompt + singles; ++at) must_append(engine, session, {&text[at], 1});
  EXPECT_EQ(whole_of(engine, session), cold_whole(cold, first_of(text, prompt + singles)));
  must_append(engine, session, after(text, prompt + singles));
  EXPECT_EQ(whole_of(engine, session), cold_whole(cold, text));
  must_close(engine, session);
}

TEST(Budget, CrossedByContinuationEqualsAColdPrefill) {
  const auto engine = load_micro({});
  cross_by_continuation(*engine, cold_micro(), 11, 12, 300);
  engine::Engine& bundled = tiny({.sessions = 2, .batch = 2, .chunk = 128, .context = 1024});
  cross_by_continuation(bundled, bundled, 236, 40, 300);
}

// One of the requests that come and go on four slots.
struct Request {
  Tokens tokens;
  engine::SessionId session;
  size_t done = 0;
};

TEST(FourSlots, TwentyFourRequestsWithReleasesBetweenKeepIndexAndCacheTogether) {
  const auto engine = load_micro({.sessions = 4, .batch = 4, .chunk = 96, .context = 256});
  std::vector<Request> running;
  uint64_t started = 0, finished = 0;
  for (uint32_t step = 0; finished < 24; ++step) {
    while (running.size() < 4 && started < 24) {
      const size_t length = 5 + static_cast<size_t>(uniform(7, 0, started) * 75);
      running.push_back({draw_tokens(*engine, 300 + started, length), must_open(*engine)});
      ++started;
    }
    std::vector<engine::ChunkRow> rows;
    for (size_t i = 0; i < running.size(); ++i) {
      Request& request = running[(i + step) % running.size()];
      const size_t left = request.tokens.size() - request.done;
      const size_t take = std::min(left, 1 + static_cast<size_t>(uniform(8, step, i) * 23));
      rows.push_back({request.session, std::span(request.tokens).subspan(request.done, take)});
      request.done += take;
    }
    const auto statuses = engine->run_chunk(rows);
    ASSERT_TRUE(statuses.ok()) << statuses.error().message;
    for (const Status& status : *statuses) ASSERT_TRUE(status.ok()) << status.error().message;
    std::erase_if(running, [&](const Request& request) {
      if (request.done < request.tokens.size()) return false;
      EXPECT_EQ(whole_of(*engine, request.session), cold_whole(cold_micro(), request.tokens)) << "in step " << step;
      EXPECT_TRUE(engine->close(request.session).ok());
      ++finished;
      return true;
    });
  }
  engine->store().check_consistency();
  EXPECT_EQ(engine->store().usage().pages, 0);
}

void two_at_once(engine::Engine& engine, engine::Engine& cold, size_t tokens) {
  const Tokens a = draw_tokens(engine, 5, tokens), b = draw_tokens(engine, 6, tokens - 13);
  ASSERT_GT(b.size(), static_cast<size_t>(engine.model().hyper.index_budget));
  const engine::ChunkRow rows[] = {{must_open(engine), a}, {must_open(engine), b}};
  const auto statuses = engine.run_chunk(rows);
  ASSERT_TRUE(statuses.ok() && (*statuses)[0].ok() && (*statuses)[1].ok());
  const Whole both[] = {whole_of(engine, rows[0].session), whole_of(engine, rows[1].session)};
  for (const engine::ChunkRow& row : rows) must_close(engine, row.session);
  EXPECT_EQ(both[0], cold_whole(cold, a));
  EXPECT_EQ(both[1], cold_whole(cold, b));
}

TEST(TwoLongPrompts, InOneBatchEachReadsItsOwnSelection) {
  const auto engine = load_micro({.sessions = 2, .batch = 2, .chunk = 512});
  two_at_once(*engine, cold_micro(), 150);
  engine::Engine& bundled = tiny({.sessions = 2, .batch = 2, .chunk = 640, .context = 1024});
  two_at_once(bundled, tiny({.sessions = 2, .batch = 2, .chunk = 128, .context = 1024}), 300);
}

// With index queries of zeros every block scores zero, so only the rule for ties decides: the lowest blocks.
TEST(Ties, TheLowestBlocksWinWhateverTheThreadsAndChunks) {
  Changes changes;
  for (const char* layer : {"3", "7"}) {
    changes["model.layers." + std::string(layer) + ".self_attn.indexer.index_qk_proj.weight"] =
        [](std::span<uint16_t> values) {
          const size_t queries = values.size() * 2 / 3;  // two query heads, then one of keys
          std::fill_n(values.begin(), queries, uint16_t{0});
        };
  }
  const std::string path = damaged_copy("ties", changes);
  auto traced = must_load(path, reference_options(96));
  const Tokens text = draw_tokens(*traced, 9, 90);
  const ops::Trace trace = must_trace(*traced, text, {}, "t");
  const auto selected = trace.at("t.qsa_selected").as<uint8_t>();
  const size_t n = text.size(), ratio = 4, budget = 16;
  for (size_t row = 0; row < 2 * n; ++row) {
    const size_t position = row % n, tail = (position + 1) / ratio * ratio;
    for (size_t p = 0; p < n; ++p) {
      const bool visible = p <= position && (p < budget || p >= tail);
      ASSERT_EQ(selected[row * n + p] != 0, visible) << "position " << position << " on " << p;
    }
  }
  const auto one = load_sized(path, {.chunk = 96}), three = load_sized(path, {.chunk = 7, .threads = 3});
  EXPECT_EQ(cold_whole(*one, text), cold_whole(*three, text));
}

// ---- far positions, with the kernels alone: 70,000 tokens, of which all that is not selected is NaN

constexpr int64_t kFar = 70000, kPageTokens = 64;
constexpr int kDim = 8, kRatio = 4, kKeep = 5, kHeads = 2, kFarBlocks = kFar / kRatio;
constexpr kernels::PageRows kIndexRows{0, kDim * 4, kRatio};
constexpr kernels::PageRows kKeyRows{kPageTokens / kRatio * kDim * 4, kDim * 4, 1};
constexpr kernels::PageRows kValueRows{kKeyRows.offset + kPageTokens * kDim * 4, kDim * 4, 1};
constexpr int64_t kPageBytes = static_cast<int64_t>(kValueRows.offset) + kPageTokens * kDim * 4;

float* row_of(kernels::World& world, const kernels::PageRows& rows, int64_t position) {
  std::byte* page = world.page(0, position / kPageTokens);
  return reinterpret_cast<float*>(page + rows.offset +
                                  static_cast<uint64_t>(position % kPageTokens / rows.tokens_per_row) *
                                      static_cast<uint64_t>(rows.row_bytes));
}

struct FarResult {
  std::vector<int32_t> selected = std::vector<int32_t>(kKeep, 99);
  std::vector<float> out = std::vector<float>(kHeads * kDim);
  uint32_t status = 0;
};

// The token at position kFar attends.
FarResult attend_far(const kernels::Kernels& table, kernels::World& world, const std::vector<float>& q) {
  device::Queue queue;
  FarResult result;
  world.step({1}, [&](const kernels::Batch& batch) {
    std::vector<float> scores(kFarBlocks + 1), weights(kHeads * 64);
    table.qsa_select(queue, batch,
                     {q.data(), kHeads * kDim, kHeads, kDim, kRatio, kKeep, kIndexRows, scores.data(), kFarBlocks + 1,
                      result.selected.data()});
    table.attention(queue, batch,
                    {q.data(), kHeads * kDim, kHeads, 1, kDim, kDim, kernels::CacheType::f32, kKeyRows, kValueRows,
                     kRatio, kKeep, result.selected.data(), weights.data(), 64, result.out.data(), kHeads * kDim});
    result.status = batch.status[0];
  });
  return result;
}

TEST(FarPositions, PastSixteenBitsSquaredReadExactlyTheSelectedRows) {
  const std::vector<int32_t> best = {11, 9000, 11600, 16384, 17499};
  kernels::Random random(4);
  kernels::World world(1, 0, kPageTokens, kPageBytes, kFar + 1);
  std::vector<float> q(kHeads * kDim, 1.0f);
  for (int64_t p = 0; p <= kFar; ++p) {
    const auto block = static_cast<int32_t>(p / kRatio);
    const bool visible = p == kFar || std::find(best.begin(), best.end(), block) != best.end();
    if (p % kRatio == 0)
      std::fill_n(row_of(world, kIndexRows, p), kDim, visible ? 2.0f : 1.0f + 1e-5f * random.uniform(0, 1));
    for (int i = 0; i < kDim; ++i) {
      row_of(world, kKeyRows, p)[i] = visible ? random.uniform(-1, 1) : NAN;
      row_of(world, kValueRows, p)[i] = visible ? random.uniform(-1, 1) : NAN;
    }
  }
  world.step({kFar}, [](const kernels::Batch&) {});
  const FarResult result = attend_far(kernels::best_host_kernels(), world, q);
  EXPECT_EQ(result.selected, best);
  EXPECT_EQ(result.status, 0u) << "a row that was not selected was read";
  std::vector<int64_t> visible;
  for (const int32_t block : best) {
    for (int64_t p = int64_t{block} * kRatio; p < (int64_t{block} + 1) * kRatio; ++p) visible.push_back(p);
  }
  visible.push_back(kFar);
  double sum = 0, exact[kDim] = {};
  for (const int64_t p : visible) {
    double dot = 0;
    for (int i = 0; i < kDim; ++i) dot += row_of(world, kKeyRows, p)[i];
    const double weight = std::exp(dot / std::sqrt(kDim));
    sum += weight;
    for (int i = 0; i < kDim; ++i) exact[i] += weight * row_of(world, kValueRows, p)[i];
  }
  for (int i = 0; i < kHeads * kDim; ++i) EXPECT_NEAR(result.out[static_cast<size_t>(i)], exact[i % kDim] / sum, 1e-5);
}

}  // namespace
}  // namespace evros::tests
