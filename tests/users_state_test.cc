// Each test is one way in which running state of these models has been lost or mixed up for users of other engines:
// after prefix reuse, rejected drafts, forks, refused appends and reused slots, the image must be, bit for bit, that of
// a cold run over the same tokens. On the micro model, whose PLE history, convolutions and index blocks are a few
// tokens long, so that every border between them is crossed.
#include <filesystem>

#include "users.h"

namespace evros::tests {
namespace {

enum class Reuse { fork, rewind, rewrite };

// The session that held `a` and then `b` comes to hold `a` alone, whichever way; the tokens of `then` are appended one by
// one, or, by rewrite, the first of them with the change.
void reuse_prefix(engine::Engine& engine, Reuse way, const Tokens& a, const Tokens& b, const Tokens& then) {
  engine::Engine& cold = cold_micro();
  const auto session = must_open(engine), fresh = must_open(cold);
  must_append(engine, session, a);
  const auto discarded = way == Reuse::fork ? must_fork(engine, session) : session;
  must_append(engine, discarded, b);
  if (way == Reuse::fork) must_close(engine, discarded);
  if (way == Reuse::rewind) {
    ASSERT_TRUE(engine.rewind(session, static_cast<int64_t>(a.size())).ok());
  }
  must_append(cold, fresh, a);
  size_t done = 0;
  if (way == Reuse::rewrite) {
    ASSERT_TRUE(engine.rewrite(session, static_cast<int64_t>(a.size()), {then.data(), 1}).ok());
    must_append(cold, fresh, {then.data(), 1});
    done = 1;
  }
  EXPECT_EQ(whole_of(engine, session), whole_of(cold, fresh));
  EXPECT_EQ(logits_along(engine, session, after(then, done)), logits_along(cold, fresh, after(then, done)));
  EXPECT_EQ(whole_of(engine, session), whole_of(cold, fresh));
  must_close(cold, fresh);
  must_close(engine, session);
}

// The window of three tokens must see the prefix and the new text, not what the cache saw last.
TEST(ReusedPrefix, TheNgramWindowDoesNotSeeTheContinuationThatWasDiscarded) {
  const auto engine = load_micro({.sessions = 2});
  const auto eos = static_cast<int32_t>(engine->model().hyper.ple_eos);
  for (const size_t length : {1u, 2u, 3u, 4u, 21u}) {
    for (const size_t eos_back : {0u, 1u, 2u}) {  // 0: wherever the drawn text has it
      if (eos_back > length) continue;
      Tokens a = draw_tokens(*engine, 11 + length, length);
      if (eos_back > 0) a[length - eos_back] = eos;
      for (const Reuse way : {Reuse::fork, Reuse::rewind, Reuse::rewrite}) {
        SCOPED_TRACE(testing::Message() << length << " tokens, end of text " << eos_back << " from the end, way "
                                        << static_cast<int>(way));
        reuse_prefix(*engine, way, a, draw_tokens(*engine, 12, 9), draw_tokens(*engine, 13, 6));
      }
    }
  }
}

// Four draft tokens of which `accepted` are right: the chunk that tried them is given up at its very end.
TEST(RejectedDraft, LeavesNothingInAnyOwnerWhereverItIsRejected) {
  const auto engine = load_micro({.sessions = 2});
  const Tokens prompt = draw_tokens(*engine, 21, 19), right = draw_tokens(*engine, 22, 5);
  const engine::Observer reject = [](const model::Pass&, const model::Stage* next) -> Status {
    return next == nullptr ? Status{Error{Code::cancelled, "rejected"}} : Status{};
  };
  const auto base = must_open(*engine);
  must_append(*engine, base, prompt);
  const Whole before = whole_of(*engine, base);
  for (size_t accepted = 0; accepted <= 4; ++accepted) {
    SCOPED_TRACE(accepted);
    Tokens draft = first_of(right, 4);
    for (size_t i = accepted; i < draft.size(); ++i) draft[i] = (draft[i] + 1) % engine->model().hyper.vocab;
    const auto session = must_fork(*engine, base);
    const engine::ChunkRow row{session, draft};
    ASSERT_FALSE(engine->run_chunk({&row, 1}, {.all_logits = false, .cancel = nullptr, .observer = &reject}).ok());
    ASSERT_EQ(whole_of(*engine, session), before);
    must_append(*engine, session, first_of(right, accepted + 1));  // the accepted ones and the correction
    EXPECT_EQ(whole_of(*engine, session), cold_whole(cold_micro(), prompt + first_of(right, accepted + 1)));
    must_append(*engine, session, after(right, accepted + 1) + Tokens{5});
    EXPECT_EQ(whole_of(*engine, session), cold_whole(cold_micro(), prompt + right + Tokens{5}));
    must_close(*engine, session);
  }
}

TEST(TwoSessions, AlternatingTokenByTokenNeitherWritesIntoTheOther) {
  const auto engine = load_micro({.sessions = 2});
  const Tokens text[2] = {draw_tokens(*engine, 31, 30), draw_tokens(*engine, 32, 30)};
  const engine::SessionId session[2] = {must_open(*engine), must_open(*engine)};
  for (size_t i = 0; i < 30; ++i) {
    for (const int who : {0, 1}) must_append(*engine, session[who], {&text[who][i], 1});
  }
  for (const int who : {0, 1}) EXPECT_EQ(whole_of(*engine, session[who]), cold_whole(cold_micro(), text[who]));
}

// One prompt, two answers, in one batch from their first token on; the prompt's last two tokens are in both windows.
TEST(TwoCompletions, TheSecondCopyOfThePromptHasItsHistoryToo) {
  const auto engine = load_micro({.sessions = 3, .batch = 3});
  const Tokens prompt = draw_tokens(*engine, 41, 22) + Tokens{300, 17};
  Tokens answer[2] = {draw_tokens(*engine, 42, 8), draw_tokens(*engine, 43, 8)};
  const auto first = must_open(*engine);
  must_append(*engine, first, prompt);
  const engine::SessionId session[2] = {first, must_fork(*engine, first)};
  for (size_t i = 0; i < 8; ++i) {
    const engine::ChunkRow rows[] = {{session[0], {&answer[0][i], 1}}, {session[1], {&answer[1][i], 1}}};
    const auto statuses = engine->run_chunk(rows);
    ASSERT_TRUE(statuses.ok() && (*statuses)[0].ok() && (*statuses)[1].ok());
    for (const int who : {0, 1}) {
      ASSERT_EQ(whole_of(*engine, session[who]), cold_whole(cold_micro(), prompt + first_of(answer[who], i + 1)))
          << "copy " << who << " after " << i + 1 << " tokens";
    }
  }
}

// A prefix is lent three times, to A, to B and to A again. Each borrower stays while the next one writes, and must find at
// the end what it had; so must the lender.
TEST(BorrowedPrefix, IsTheSameBeforeAndAfterABorrowerWentOn) {
  const auto engine = load_micro({.sessions = 4});
  for (const size_t length : {20u, 63u, 64u, 65u}) {  // within a page and around its border
    SCOPED_TRACE(length);
    const Tokens prefix = draw_tokens(*engine, 50 + length, length);
    const Tokens a = draw_tokens(*engine, 51, 12), b = draw_tokens(*engine, 52, 30);
    const auto lender = must_open(*engine);
    must_append(*engine, lender, prefix);
    const Whole lent = whole_of(*engine, lender);
    std::vector<engine::SessionId> borrowers;
    for (const Tokens& text : {a, b, a}) {
      borrowers.push_back(must_fork(*engine, lender));
      must_append(*engine, borrowers.back(), text);
      ASSERT_EQ(whole_of(*engine, lender), lent);
    }
    const Whole with_a = cold_whole(cold_micro(), prefix + a), with_b = cold_whole(cold_micro(), prefix + b);
    EXPECT_EQ(whole_of(*engine, borrowers[0]), with_a);
    EXPECT_EQ(whole_of(*engine, borrowers[1]), with_b);
    EXPECT_EQ(whole_of(*engine, borrowers[2]), with_a);
    for (const auto& each : borrowers) must_close(*engine, each);
    must_close(*engine, lender);
  }
}

TEST(RefusedAppend, TheSessionThatItWantedToExtendIsWhole) {
  const auto engine = load_micro({.sessions = 1, .batch = 1, .chunk = 64, .context = 128});
  const Tokens held = draw_tokens(*engine, 61, 120), more = draw_tokens(*engine, 62, 50);
  const auto session = must_open(*engine);
  must_append(*engine, session, held);
  const Whole before = whole_of(*engine, session);
  const Status refused = engine->append(session, more);
  ASSERT_FALSE(refused.ok());
  for (const char* number : {"120", "50", "128"}) {
    EXPECT_NE(refused.error().message.find(number), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(whole_of(*engine, session), before);
  must_append(*engine, session, first_of(more, 8));
  EXPECT_EQ(whole_of(*engine, session), cold_whole(cold_micro(), held + first_of(more, 8)));
}

// An append, a rewind and a rewrite of several chunks, each given up in every one of its chunks.
TEST(RefusedAppend, WhatFailsInAnyOfItsChunksLeavesTheWholeSession) {
  const auto engine = load_micro({.sessions = 1, .batch = 1, .chunk = 16});
  const Tokens held = draw_tokens(*engine, 63, 50), more = draw_tokens(*engine, 64, 60);
  const auto session = must_open(*engine);
  must_append(*engine, session, held);
  const Whole before = whole_of(*engine, session);
  const auto publications = model::make_stages(engine->model().hyper).size() + 1;  // calls of the observer in a chunk
  for (size_t chunk = 0; chunk < 3; ++chunk) {
    for (const int change : {0, 1, 2}) {
      size_t calls = 0;
      const engine::Observer observer = [&](const model::Pass&, const model::Stage*) -> Status {
        return ++calls <= chunk * publications + 7 ? Status{} : Status{Error{Code::device, "lost"}};
      };
      const engine::ChunkOptions options{.all_logits = false, .cancel = nullptr, .observer = &observer};
      const Status status = change == 0   ? engine->append(session, more, options)
                            : change == 1 ? engine->rewind(session, 45, options)
                                          : Status{engine->rewrite(session, 30, more, options).error()};
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(whole_of(*engine, session), before) << "change " << change << " in chunk " << chunk;
    }
  }
  ASSERT_TRUE(engine->rewrite(session, 30, more).ok());
  EXPECT_EQ(whole_of(*engine, session), cold_whole(cold_micro(), first_of(held, 30) + more));
  engine->store().check_consistency();
}

// The same prompt again with all but its last tokens cached, and with those changed.
TEST(PrefixHit, AFewTokensLeftToPrefillGiveTheColdResult) {
  const auto engine = load_micro({.sessions = 2});
  const Tokens prompt = draw_tokens(*engine, 71, 38);
  for (size_t left = 1; left <= 5; ++left) {
    SCOPED_TRACE(left);
    const Tokens cached = first_of(prompt, prompt.size() - left);
    Tokens changed = after(prompt, cached.size());
    for (int32_t& id : changed) id = (id + 7) % engine->model().hyper.vocab;
    const auto prefix = must_open(*engine);
    must_append(*engine, prefix, cached);
    for (const Tokens& rest : {after(prompt, cached.size()), changed, after(prompt, cached.size())}) {
      const auto session = must_fork(*engine, prefix);
      must_append(*engine, session, rest);
      EXPECT_EQ(whole_of(*engine, session), cold_whole(cold_micro(), cached + rest));
      must_close(*engine, session);
    }
    must_close(*engine, prefix);
  }
}

// Wherever a prefix was kept, the chunks after it lie elsewhere; the result may not.
TEST(KeptPrefix, ItsPlaceDoesNotChangeTheResult) {
  const auto engine = load_micro({.sessions = 2, .batch = 1, .chunk = 16});
  const Tokens text = draw_tokens(*engine, 81, 44);
  const Whole whole = cold_whole(cold_micro(), text);
  const auto growing = must_open(*engine);
  for (size_t at = 1; at < text.size(); ++at) {
    must_append(*engine, growing, {&text[at - 1], 1});
    const auto session = must_fork(*engine, growing);
    must_append(*engine, session, after(text, at));
    ASSERT_EQ(whole_of(*engine, session), whole) << "kept after " << at << " tokens";
    must_close(*engine, session);
  }
}

// Back by one to twelve tokens, across the convolutions' reach, index blocks and a page: all owners of one moment, with a
// checkpoint before or after that moment, at it, or none.
TEST(RolledBack, ByAnyNumberOfTokensEveryOwnerIsOfTheSameMoment) {
  const auto engine = load_micro({.sessions = 2, .checkpoints = 2});
  const Tokens text = draw_tokens(*engine, 91, 70), other = draw_tokens(*engine, 92, 7);
  for (const size_t held : {0u, 61u, 64u}) {
    for (size_t back = 1; back <= 12; ++back) {
      SCOPED_TRACE(testing::Message() << back << " tokens back, checkpoint at " << held);
      const auto session = must_open(*engine);
      if (held > 0) {
        must_append(*engine, session, first_of(text, held));
        ASSERT_TRUE(engine->checkpoint(session).ok());
      }
      must_append(*engine, session, after(text, held));
      const Tokens kept = first_of(text, text.size() - back);
      ASSERT_TRUE(engine->rewind(session, static_cast<int64_t>(kept.size())).ok());
      EXPECT_EQ(whole_of(*engine, session), cold_whole(cold_micro(), kept));
      must_append(*engine, session, other);
      EXPECT_EQ(whole_of(*engine, session), cold_whole(cold_micro(), kept + other));
      must_close(*engine, session);
    }
  }
  engine->store().check_consistency();
}

// Saved after every length around the borders, read by an engine that never saw the text, and continued at once.
TEST(SavedSession, ContinuesInAFreshEngineAsIfItHadNeverLeft) {
  const auto first = load_micro({});
  const Tokens text = draw_tokens(*first, 111, 70), then = draw_tokens(*first, 112, 6);
  const std::string path = testing::TempDir() + "evros_users_state_test.evros";
  for (const size_t length : {1u, 2u, 3u, 21u, 64u, 66u}) {
    SCOPED_TRACE(length);
    const auto session = must_open(*first);
    must_append(*first, session, first_of(text, length));
    ASSERT_TRUE(first->save(io::real_io(), session, path).ok());
    must_append(*first, session, after(text, length));  // what happens here after saving is not in the file
    must_close(*first, session);
    const auto fresh = load_micro({.sessions = 2});
    const auto restored = must_open(*fresh);
    const auto result = fresh->restore(io::real_io(), path, restored);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(whole_of(*fresh, restored), cold_whole(cold_micro(), first_of(text, length)));
    must_append(*fresh, restored, then);
    EXPECT_EQ(whole_of(*fresh, restored), cold_whole(cold_micro(), first_of(text, length) + then));
  }
  std::filesystem::remove(path);
}

TEST(ReusedSlot, RemembersNothingOfAnyEarlierRequest) {
  const auto engine = load_micro({.sessions = 1});
  const Tokens question = draw_tokens(*engine, 101, 25);
  const Whole expected = cold_whole(cold_micro(), question);
  for (uint64_t request = 0; request < 12; ++request) {
    const auto session = must_open(*engine);
    must_append(*engine, session, draw_tokens(*engine, 200 + request, 1 + request * 7 % 40));
    if (request % 2 == 0) {
      ASSERT_TRUE(engine->reset(session).ok());
      must_append(*engine, session, question);
      ASSERT_EQ(whole_of(*engine, session), expected) << "reset after request " << request;
    }
    must_close(*engine, session);
    const auto next = must_open(*engine);
    must_append(*engine, next, question);
    ASSERT_EQ(whole_of(*engine, next), expected) << "opened after request " << request;
    must_close(*engine, next);
  }
  EXPECT_EQ(engine->store().usage().pages, 0);
  engine->store().check_consistency();
}

}  // namespace
}  // namespace evros::tests
