// The engine's contract on the micro model: what a refused, failed or cancelled call leaves behind, and what sessions
// share.
#include "engine/engine.h"

#include <gtest/gtest.h>

namespace evros::engine {
namespace {

const std::string kMicro = std::string(EVROS_BINARY_DIR) + "/micro/hf";
const std::vector<int32_t> kPrompt{7, 2, 300, 41, 41, 5, 2, 2, 99, 12, 480, 7, 2, 300, 41, 8, 9, 10, 11, 17, 4, 3};

std::unique_ptr<Engine> load(EngineOptions options) {
  auto engine = Engine::load(io::real_io(), kMicro, options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(engine).value();
}

std::vector<float> logits(const Engine& engine, SessionId session) {
  std::vector<float> out(static_cast<size_t>(engine.model().hyper.vocab));
  const Status status = engine.logits(session, out);
  EXPECT_TRUE(status.ok());
  return out;
}

Code code(const Status& status) { return status.ok() ? Code{} : status.error().code; }

TEST(Engine, RefusesWhatCannotFitBeforeAnyWork) {
  EngineOptions options;
  options.context = 64;
  const auto engine = load(options);
  const SessionId session = *engine->open();
  ASSERT_TRUE(engine->append(session, kPrompt).ok());
  const std::vector<float> before = logits(*engine, session);
  EXPECT_EQ(code(engine->append(session, std::vector<int32_t>(43, 1))), Code::invalid_argument);
  EXPECT_EQ(code(engine->append(session, std::vector<int32_t>{1, 512})), Code::invalid_argument);
  EXPECT_EQ(code(engine->append(session, std::vector<int32_t>{-1})), Code::invalid_argument);
  EXPECT_EQ(code(engine->append(session, {})), Code::invalid_argument);
  EXPECT_EQ(*engine->frontier(session), static_cast<int64_t>(kPrompt.size()));
  EXPECT_EQ(*engine->tokens(session), kPrompt);
  EXPECT_EQ(logits(*engine, session), before);
  EXPECT_TRUE(engine->append(session, std::vector<int32_t>(42, 1)).ok());  // exactly full
}

// Micro's table has rows of 8 bytes, 16 a token: a frame of 64 holds 8 of them, one of 60 may be crossed.
TEST(Engine, AChunkThatTheFramesOfTheTableCannotHoldIsRefusedAtLoad) {
  const auto loads = [](int32_t chunk, uint32_t frame, uint64_t frames) {
    EngineOptions options;
    options.chunk = chunk;
    options.table.frame_bytes = frame;
    options.table.memory_bytes = frame * frames;
    const auto engine = Engine::load(io::real_io(), kMicro, options);
    EXPECT_TRUE(engine.ok() || engine.error().code == Code::invalid_argument) << engine.error().message;
    return engine.ok();
  };
  EXPECT_TRUE(loads(4, 64, 64));
  EXPECT_FALSE(loads(4, 64, 63));
  EXPECT_TRUE(loads(4, 60, 128));
  EXPECT_FALSE(loads(4, 60, 127));
}

TEST(Engine, AContextBeyondTheModelIsRefusedWithBothNumbers) {
  EngineOptions options;
  options.context = 5000;
  const auto engine = Engine::load(io::real_io(), kMicro, options);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find("5000"), std::string::npos);
  EXPECT_NE(engine.error().message.find("4096"), std::string::npos);
}

TEST(Engine, CancellationLeavesTheSessionAndTheNextRunIsTheNeverCancelledOne) {
  const auto engine = load({});
  const SessionId session = *engine->open();
  ASSERT_TRUE(engine->append(session, kPrompt).ok());
  const std::vector<float> before = logits(*engine, session);
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(code(engine->append(session, std::vector<int32_t>{5, 6, 7}, {.cancel = &cancel})), Code::cancelled);
  EXPECT_EQ(*engine->tokens(session), kPrompt);
  EXPECT_EQ(logits(*engine, session), before);
  ASSERT_TRUE(engine->append(session, std::vector<int32_t>{5, 6, 7}).ok());
  const std::vector<float> after = logits(*engine, session);
  std::vector<int32_t> all = kPrompt;
  all.insert(all.end(), {5, 6, 7});
  ASSERT_TRUE(engine->reset(session).ok());
  ASSERT_TRUE(engine->append(session, all).ok());
  EXPECT_EQ(logits(*engine, session), after);
}

TEST(Engine, TwoSessionsFromOneModelDoNotSeeEachOther) {
  EngineOptions options;
  options.sessions = 2;
  options.batch = 2;
  const auto engine = load(options);
  const SessionId a = *engine->open(), b = *engine->open();
  const std::vector<int32_t> other{9, 9, 1, 2, 2, 77, 300};
  ASSERT_TRUE(engine->append(a, kPrompt).ok());
  ASSERT_TRUE(engine->append(b, other).ok());
  const std::vector<int32_t> more_a{3, 4}, more_b{400};
  const ChunkRow rows[] = {{b, more_b}, {a, more_a}};
  const auto statuses = engine->run_chunk(rows);
  ASSERT_TRUE(statuses.ok());
  const std::vector<float> mixed_a = logits(*engine, a), mixed_b = logits(*engine, b);
  ASSERT_TRUE(engine->reset(a).ok());
  ASSERT_TRUE(engine->reset(b).ok());
  const auto solo = [&](SessionId session, std::vector<int32_t> tokens, const std::vector<int32_t>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    EXPECT_TRUE(engine->append(session, tokens).ok());
    return logits(*engine, session);
  };
  EXPECT_EQ(solo(b, kPrompt, more_a), mixed_a);  // in the other slot
  EXPECT_EQ(solo(a, other, more_b), mixed_b);
}

TEST(Engine, AClosedSessionIsStaleAndItsSlotStartsEmpty) {
  const auto engine = load({});
  const SessionId first = *engine->open();
  ASSERT_TRUE(engine->append(first, kPrompt).ok());
  EXPECT_FALSE(engine->open().ok());  // one session was asked for
  ASSERT_TRUE(engine->close(first).ok());
  const SessionId second = *engine->open();
  EXPECT_EQ(code(engine->append(first, kPrompt)), Code::stale);
  EXPECT_FALSE(engine->tokens(first).ok());
  EXPECT_EQ(*engine->frontier(second), 0);
  std::vector<float> none(static_cast<size_t>(engine->model().hyper.vocab), 42.0f);
  EXPECT_EQ(code(engine->logits(second, none)), Code::invalid_argument);
  EXPECT_EQ(none, std::vector<float>(none.size(), 42.0f));  // the caller's bytes are still the caller's
}

}  // namespace
}  // namespace evros::engine
