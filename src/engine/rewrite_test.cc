// Histories that are changed: whatever a session was before, it is bit for bit the session that never was anything
// else, and a change that fails part of the way never happened.
#include <numeric>

#include "engine/engine_testing.h"

namespace evros::engine::testing {
namespace {

// 40 tokens of the micro model with its end-of-text id (2, which cuts the n-gram window) at the start of chunks, inside
// and in a row; 9 complete index blocks and an incomplete one.
std::vector<int32_t> forty() {
  std::vector<int32_t> tokens{7, 2, 300, 41, 41, 5, 2, 2, 99, 12, 480, 7, 2, 300, 41, 8, 9, 10, 11, 17};
  for (int32_t i = 0; i < 19; ++i) tokens.push_back((i * 37 + 11) % 512);
  tokens.push_back(2);
  return tokens;
}

std::vector<int32_t> first(const std::vector<int32_t>& tokens, size_t n) {
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n)};
}

EngineOptions small(int32_t sessions, int32_t checkpoints = 0) {
  EngineOptions options;
  options.context = 64;
  options.sessions = sessions;
  options.checkpoints = checkpoints;
  options.chunk = 16;
  return options;
}

TEST(Rewrite, RewindingToAnyPositionIsNeverHavingBeenLonger) {
  const auto engine = load_micro(small(3, 2));
  const std::vector<int32_t> tokens = forty();
  const auto rest = [&](size_t n) {
    return std::vector<int32_t>(tokens.begin() + static_cast<ptrdiff_t>(n), tokens.end());
  };
  const SessionId growing = *engine->open(), session = *engine->open();
  ASSERT_TRUE(engine->append(session, first(tokens, 13)).ok());
  ASSERT_TRUE(engine->checkpoint(session).ok());
  ASSERT_TRUE(engine->append(session, rest(13)).ok());
  const std::string whole = all_digests(*engine, session);
  const SessionId kept = *engine->fork(session);
  std::vector<std::string> never_longer{all_digests(*engine, growing)};
  for (const int32_t token : tokens) {
    ASSERT_TRUE(engine->append(growing, {&token, 1}).ok());
    never_longer.push_back(all_digests(*engine, growing));
  }
  EXPECT_EQ(never_longer.back(), whole);
  for (size_t n = 0; n <= tokens.size(); ++n) {
    ASSERT_TRUE(engine->close(growing).ok() || n > 0);
    const SessionId rewound = *engine->fork(kept);
    ASSERT_TRUE(engine->rewind(rewound, static_cast<int64_t>(n)).ok());
    EXPECT_EQ(all_digests(*engine, rewound), never_longer[n]) << n;
    if (n % 9 == 0) {
      ASSERT_TRUE(engine->append(rewound, rest(n)).ok());
      EXPECT_EQ(all_digests(*engine, rewound), whole) << n;
    }
    ASSERT_TRUE(engine->close(rewound).ok());
    engine->store().check_consistency();
  }
  EXPECT_EQ(all_digests(*engine, kept), whole);
  for (const SessionId id : {session, kept}) ASSERT_TRUE(engine->close(id).ok());
  EXPECT_EQ(engine->store().usage().checkpoints, 0);
  EXPECT_EQ(engine->store().usage().pages, 0);
  EXPECT_EQ(engine->store().usage().banks, 0);
}

TEST(Rewrite, ACheckpointSavesTheReplayAndServesForksToo) {
  const auto engine = load_micro(small(2, 3));
  const std::vector<int32_t> tokens = forty();
  const SessionId session = *engine->open();
  ASSERT_TRUE(engine->append(session, first(tokens, 10)).ok());
  const CheckpointId early = *engine->checkpoint(session);
  ASSERT_TRUE(engine->append(session, std::vector<int32_t>(tokens.begin() + 10, tokens.begin() + 30)).ok());
  ASSERT_TRUE(engine->checkpoint(session).ok());
  ASSERT_TRUE(engine->append(session, {tokens.begin() + 30, tokens.end()}).ok());
  const SessionId other = *engine->fork(session);
  EXPECT_EQ(*engine->rewrite(other, 29, {}), 10);  // computed from the early one
  EXPECT_EQ(*engine->rewrite(session, 35, {}), 30);
  EXPECT_EQ(*engine->rewrite(session, 30, {}), 30);
  ASSERT_TRUE(engine->rewind(session, 12).ok());
  EXPECT_EQ(engine->store().usage().checkpoints, 1);  // the one at 30 went with its history
  ASSERT_TRUE(engine->release(early).ok());
  EXPECT_EQ(code(engine->release(early)), Code::stale);
  ASSERT_TRUE(engine->close(session).ok());
  EXPECT_EQ(all_digests(*engine, other), fresh_digests(*engine, first(tokens, 29)));
  engine->store().check_consistency();
}

TEST(Rewrite, AppendingAfterARewindBelowAForksFrontierLeavesTheForkWhole) {
  const auto engine = load_micro(small(3));
  const std::vector<int32_t> tokens = forty();
  const SessionId session = *engine->open();
  ASSERT_TRUE(engine->append(session, tokens).ok());
  const SessionId fork = *engine->fork(session);
  ASSERT_TRUE(engine->rewind(session, 21).ok());
  ASSERT_TRUE(engine->append(session, std::vector<int32_t>{400, 401, 402}).ok());
  std::vector<int32_t> other = first(tokens, 21);
  other.insert(other.end(), {400, 401, 402});
  EXPECT_EQ(all_digests(*engine, session), fresh_digests(*engine, other));
  EXPECT_EQ(all_digests(*engine, fork), fresh_digests(*engine, tokens));
}

TEST(Rewrite, AChangeThatFailsAnywhereInAnyChunkNeverHappened) {
  const auto engine = load_micro(small(2, 1));
  const std::vector<int32_t> tokens = forty();
  const SessionId session = *engine->open();
  ASSERT_TRUE(engine->append(session, first(tokens, 20)).ok());
  const std::string before = all_digests(*engine, session);
  const state::Usage usage = engine->store().usage();
  int64_t left = 0;
  const Observer observer = [&](const model::Pass&, const model::Stage*) -> Status {
    if (left-- > 0) return {};
    return Error{Code::cancelled, "the test stops here"};
  };
  ChunkOptions options;
  options.observer = &observer;
  const auto fails_everywhere = [&](auto change) {
    int64_t steps = 0;
    for (bool done = false; !done; steps += 61) {  // some stage in every chunk; sim/ visits all
      left = steps;
      const Status status = change();
      done = status.ok();
      if (done) break;
      EXPECT_EQ(code(status), Code::cancelled);
      EXPECT_EQ(all_digests(*engine, session), before) << steps;
      EXPECT_EQ(engine->store().usage().pages, usage.pages);
      EXPECT_EQ(engine->store().usage().banks, usage.banks);
    }
    EXPECT_GT(steps, 61 * 3);
  };
  fails_everywhere([&] { return engine->append(session, {tokens.begin() + 20, tokens.end()}, options); });
  EXPECT_EQ(all_digests(*engine, session), fresh_digests(*engine, tokens));
  ASSERT_TRUE(engine->rewind(session, 20).ok());
  fails_everywhere([&] { return engine->rewind(session, 19, options); });
  EXPECT_EQ(all_digests(*engine, session), fresh_digests(*engine, first(tokens, 19)));
  engine->store().check_consistency();
}

TEST(Rewrite, ASessionThatMovedOnMeanwhileIsNotOverwritten) {
  const auto engine = load_micro(small(1));
  const std::vector<int32_t> tokens = forty();
  const SessionId session = *engine->open();
  ASSERT_TRUE(engine->append(session, first(tokens, 20)).ok());
  bool reset = false;
  const Observer observer = [&](const model::Pass&, const model::Stage*) -> Status {
    EXPECT_TRUE(reset || engine->reset(session).ok());  // as another thread may
    reset = true;
    return {};
  };
  ChunkOptions options;
  options.observer = &observer;
  EXPECT_EQ(code(engine->rewind(session, 10, options)), Code::busy);
  EXPECT_EQ(*engine->frontier(session), 0);
  EXPECT_EQ(engine->store().usage().pages, 0);
}

TEST(Rewrite, ImpossiblePositionsAndLengthsAreRefusedBeforeAnyWork) {
  const auto engine = load_micro(small(1));
  const SessionId session = *engine->open();
  ASSERT_TRUE(engine->append(session, forty()).ok());
  const std::string before = all_digests(*engine, session);
  EXPECT_EQ(code(engine->rewind(session, -1)), Code::invalid_argument);
  EXPECT_EQ(code(engine->rewind(session, 41)), Code::invalid_argument);
  EXPECT_FALSE(engine->rewrite(session, 30, std::vector<int32_t>(35, 1)).ok());
  EXPECT_FALSE(engine->rewrite(session, 30, std::vector<int32_t>{512}).ok());
  EXPECT_EQ(code(engine->append(session, std::vector<int32_t>(25, 1))), Code::invalid_argument);
  EXPECT_FALSE(engine->checkpoint(session).ok());  // none were asked for
  EXPECT_TRUE(engine->rewind(session, 40).ok());
  EXPECT_EQ(all_digests(*engine, session), before);
}

TEST(Rewrite, AFullContextCanStillBeRewoundAndRewritten) {
  const auto engine = load_micro(small(1));
  std::vector<int32_t> full(64);
  std::iota(full.begin(), full.end(), 100);
  const SessionId session = *engine->open();
  ASSERT_TRUE(engine->append(session, full).ok());
  ASSERT_TRUE(engine->rewind(session, 63).ok());  // replays 63 tokens beside the 64
  full[63] = 5;
  ASSERT_TRUE(engine->rewrite(session, 0, full).ok());
  const std::string rewritten = all_digests(*engine, session);
  ASSERT_TRUE(engine->reset(session).ok());
  ASSERT_TRUE(engine->append(session, full).ok());
  EXPECT_EQ(all_digests(*engine, session), rewritten);
}

TEST(Rewrite, APromptThatIsTheWholeSessionNeedsNoWorkAndHasItsLogits) {
  const auto engine = load_micro(small(1));
  const SessionId session = *engine->open();
  ASSERT_TRUE(engine->append(session, forty()).ok());
  std::vector<float> before(512), after(512);
  ASSERT_TRUE(engine->logits(session, before).ok());
  const uint64_t sequence = engine->store().view(session)->sequence();
  EXPECT_EQ(*engine->rewrite(session, 40, {}), 40);
  EXPECT_EQ(engine->store().view(session)->sequence(), sequence);
  ASSERT_TRUE(engine->logits(session, after).ok());
  EXPECT_EQ(before, after);
}

TEST(Rewrite, DigestsAreUnderANumericsIdAndTellOneTokenApart) {
  const auto engine = load_micro(small(1));
  EngineOptions wide = small(1);
  wide.kv = "f32";
  const auto other = load_micro(wide);
  std::vector<int32_t> tokens = forty();
  const std::string one = fresh_digests(*engine, tokens), two = fresh_digests(*other, tokens);
  EXPECT_NE(one, two);
  EXPECT_EQ(two.substr(0, 32), fresh_digests(*other, tokens).substr(0, 32));
  tokens.back() = 3;
  const std::string three = fresh_digests(*engine, tokens);
  EXPECT_NE(one.substr(0, 32), three.substr(0, 32));
}

}  // namespace
}  // namespace evros::engine::testing
