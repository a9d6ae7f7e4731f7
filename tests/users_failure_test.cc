// What must not happen when a client goes away, asks for too much, or joins while another is served. Refusals, NaN and
// cancellation before every stage are in failure_test.cc.
#include "engine/reply.h"
#include "engine/text_kit.h"
#include "users.h"

namespace evros::tests {
namespace {

TEST(Disconnect, NoStageRunsAfterTheCancellation) {
  const auto engine = load_micro({});
  const Tokens text = draw_tokens(*engine, 1, 200);  // four chunks
  const auto session = must_open(*engine);
  for (const int seen : {1, 40, 150}) {
    std::atomic<bool> cancel{false};
    int stages = 0, late = 0;
    const engine::Observer observer = [&](const model::Pass&, const model::Stage*) -> Status {
      late += cancel ? 1 : 0;
      cancel = ++stages == seen;
      return {};
    };
    const Status status =
        engine->append(session, text, {.all_logits = false, .cancel = &cancel, .observer = &observer});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::cancelled);
    EXPECT_EQ(stages, seen);
    EXPECT_EQ(late, 0);
    ASSERT_TRUE(engine->reset(session).ok());
  }
}

engine::ReplyResult must_reply(engine::Engine& engine, engine::SessionId session, const Tokens& prompt,
                               const text::Tokenizer& tokenizer, int64_t tokens, int64_t cancel_after) {
  engine::ReplyParams params;
  params.max_tokens = tokens;
  params.ignore_eos = true;
  std::atomic<bool> cancel{false};
  int64_t shown = 0;
  auto result = engine::reply(
      engine, io::real_io(), session, prompt, params, tokenizer,
      [&](std::string_view) { cancel = ++shown == cancel_after; }, &cancel);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  CHECK(result.ok());
  return std::move(result).value();
}

// The client leaves in the middle of a reply. Its next turn repeats what it saw, or goes elsewhere.
TEST(Disconnect, TheNextTurnHasNothingOfTheAbandonedReply) {
  const auto engine =
      load_sized(source_path("models/evros-tiny"), {.sessions = 2, .batch = 1, .chunk = 64, .context = 512});
  const auto tokenizer = engine::load_tokenizer(engine->file());
  ASSERT_TRUE(tokenizer.ok());
  const Golden golden = load_golden(source_path("models/evros-tiny/golden.safetensors"));
  const auto ids = golden.at("raw.tokens").as<int32_t>();
  const Tokens prompt(ids.begin(), ids.end()), elsewhere = first_of(prompt, prompt.size() - 3) + Tokens{100, 101, 102};
  for (const bool same_text : {true, false}) {
    SCOPED_TRACE(same_text);
    const auto session = must_open(*engine), fresh = must_open(*engine);
    const auto abandoned = must_reply(*engine, session, prompt, *tokenizer, 40, 5);
    ASSERT_EQ(abandoned.finish, engine::Finish::cancelled);
    ASSERT_LT(abandoned.tokens.size(), 40u);
    const Tokens next = same_text ? prompt + abandoned.tokens + Tokens{100, 101} : elsewhere;
    const auto after_all = must_reply(*engine, session, next, *tokenizer, 12, -1);
    EXPECT_EQ(after_all.tokens, must_reply(*engine, fresh, next, *tokenizer, 12, -1).tokens);
    EXPECT_EQ(whole_of(*engine, session), whole_of(*engine, fresh));
    must_close(*engine, session);
    must_close(*engine, fresh);
  }
}

// While one prompt is computed, others open, read, fork, reset and leave; then one joins its batch.
TEST(Joining, DuringAnotherPrefillDisturbsNobody) {
  const auto engine = load_micro({.sessions = 5, .batch = 2});
  const Tokens prompt = draw_tokens(*engine, 2, 60), early = draw_tokens(*engine, 3, 20),
               late = draw_tokens(*engine, 4, 9);
  const auto session = must_open(*engine), other = must_open(*engine);
  must_append(*engine, other, early);
  const Whole still = whole_of(*engine, other);
  int stages = 0;
  const engine::Observer observer = [&](const model::Pass&, const model::Stage*) -> Status {
    ++stages;
    const auto guest = must_open(*engine), twin = must_fork(*engine, other);
    EXPECT_EQ(whole_of(*engine, twin), still);
    EXPECT_TRUE(engine->reset(twin).ok());
    EXPECT_EQ(*engine->frontier(session), 0) << "an unpublished chunk is visible";
    EXPECT_FALSE(engine->close(session).ok()) << "a session was closed under its chunk";
    must_close(*engine, twin);
    must_close(*engine, guest);
    return {};
  };
  const engine::ChunkRow row{session, prompt};
  ASSERT_TRUE(engine->run_chunk({&row, 1}, {.all_logits = false, .cancel = nullptr, .observer = &observer}).ok());
  EXPECT_GT(stages, 50);
  const auto joined = must_open(*engine);
  const engine::ChunkRow rows[] = {{joined, late}, {session, late}};
  ASSERT_TRUE(engine->run_chunk(rows).ok());
  EXPECT_EQ(whole_of(*engine, session), cold_whole(cold_micro(), prompt + late));
  EXPECT_EQ(whole_of(*engine, joined), cold_whole(cold_micro(), late));
  EXPECT_EQ(whole_of(*engine, other), still);
  engine->store().check_consistency();
}

TEST(TooLong, APromptThatCannotFitIsRefusedWithNumbersBeforeAnyStage) {
  const auto engine = load_micro({.sessions = 1, .batch = 1, .chunk = 64, .context = 100});
  int stages = 0;
  const engine::Observer observer = [&](const model::Pass&, const model::Stage*) -> Status {
    ++stages;
    return {};
  };
  const auto session = must_open(*engine);
  const Status status = engine->append(session, draw_tokens(*engine, 5, 101),
                                       {.all_logits = false, .cancel = nullptr, .observer = &observer});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::invalid_argument);
  for (const char* number : {"101", "100"}) {
    EXPECT_NE(status.error().message.find(number), std::string::npos) << status.error().message;
  }
  EXPECT_EQ(stages, 0);
  EXPECT_EQ(engine->store().usage().pages, 0);
}

}  // namespace
}  // namespace evros::tests
