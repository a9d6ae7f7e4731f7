// Saved sessions: a file is whole or refused, and a restored session goes on as one that never left.
#include <array>

#include "engine/engine_testing.h"
#include "io/memory_io.h"

namespace evros::engine::testing {
namespace {

const std::vector<int32_t> kTalk{7, 2, 300, 41, 41, 5, 2, 2, 99, 12, 480, 7, 2, 300, 41, 8, 9, 10, 11, 17, 4, 3};
const std::vector<int32_t> kMore{5, 6, 2, 7, 100, 101, 102, 103, 104};
const std::string kFile = "folder/talk.evros";

EngineOptions options(const std::string& kv = "f16") {
  EngineOptions out;
  out.context = 64;
  out.sessions = 2;
  out.chunk = 8;
  out.kv = kv;
  return out;
}

std::vector<int32_t> both() {
  std::vector<int32_t> all = kTalk;
  all.insert(all.end(), kMore.begin(), kMore.end());
  return all;
}

class SnapshotTest : public ::testing::Test {
 protected:
  void save() {
    const SessionId session = *engine_->open();
    ASSERT_TRUE(engine_->append(session, kTalk).ok());
    saved_digests_ = all_digests(*engine_, session);
    const Status saved = engine_->save(io_, session, kFile, "what was said");
    ASSERT_TRUE(saved.ok()) << saved.error().message;
    ASSERT_TRUE(engine_->close(session).ok());
  }
  Code refused(Engine& engine, SessionId session) {
    const auto restored = engine.restore(io_, kFile, session);
    EXPECT_FALSE(restored.ok());
    if (restored.ok()) return Code{};
    EXPECT_NE(restored.error().message.find(kFile), std::string::npos) << restored.error().message;
    return restored.error().code;
  }

  io::MemoryIo io_;
  std::unique_ptr<Engine> engine_ = load_micro(options());
  std::string saved_digests_;
};

TEST_F(SnapshotTest, ARestoredSessionGoesOnWithTheBitsOfOneThatNeverLeft) {
  save();
  EXPECT_FALSE(io_.exists(kFile + ".partial"));
  const std::string never_left = fresh_digests(*engine_, both());
  EngineOptions other = options();
  other.kernels = "ref";
  other.chunk = 3;
  other.sessions = 1;
  const auto engine = load_micro(other);  // as a fresh process would
  const auto restored = engine->restore(io_, kFile);
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->attachment, "what was said");
  EXPECT_EQ(all_digests(*engine, restored->session), saved_digests_);
  EXPECT_EQ(*engine->tokens(restored->session), kTalk);
  ASSERT_TRUE(engine->append(restored->session, kMore).ok());
  EXPECT_EQ(all_digests(*engine, restored->session), never_left);
  ASSERT_TRUE(engine->rewind(restored->session, 13).ok());
  EXPECT_EQ(all_digests(*engine, restored->session), fresh_digests(*engine_, {kTalk.begin(), kTalk.begin() + 13}));
  engine->store().check_consistency();
}

TEST_F(SnapshotTest, RestoringIntoASessionReplacesItsHistoryWithOnePublication) {
  save();
  const SessionId session = *engine_->open();
  ASSERT_TRUE(engine_->append(session, kMore).ok());
  const auto attachment = engine_->restore(io_, kFile, session);
  ASSERT_TRUE(attachment.ok()) << attachment.error().message;
  EXPECT_EQ(all_digests(*engine_, session), saved_digests_);
  EXPECT_EQ(engine_->store().usage().pages, 1);
  engine_->store().check_consistency();
}

TEST_F(SnapshotTest, EveryTruncationAndEveryFlippedByteIsRefusedAndNothingChanges) {
  save();
  const SessionId session = *engine_->open();
  ASSERT_TRUE(engine_->append(session, kMore).ok());
  const std::string before = all_digests(*engine_, session);
  const std::string whole = io_.get(kFile);
  const uint64_t changed = engine_->store().view(session)->changed();
  const auto expect_refused = [&](const std::string& content, size_t at) {
    io_.put(kFile, content);
    const Code seen = refused(*engine_, session);
    ASSERT_TRUE(seen == Code::bad_file || (seen == Code::unsupported && at >= 8 && at < 12)) << at;  // the version
    ASSERT_EQ(engine_->store().view(session)->changed(), changed);
  };
  const size_t header = 176 + 13 * 32 + 16;  // beyond it, every 61st byte: each is under some section's digest
  for (size_t at = 0; at < whole.size(); at += at < header ? 1 : 61)
    expect_refused(whole.substr(0, at), at < header ? 0 : at);
  expect_refused(whole + '\0', whole.size());
  for (size_t at = 0; at < whole.size(); at += at < header ? 1 : 61) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    expect_refused(flipped, at);
  }
  EXPECT_EQ(all_digests(*engine_, session), before);
  EXPECT_EQ(engine_->store().usage().pages, 1);
  io_.put(kFile, whole);
  EXPECT_TRUE(engine_->restore(io_, kFile, session).ok());
}

TEST_F(SnapshotTest, AnotherModelAnotherCacheTypeAndAShorterContextAreRefused) {
  save();
  const auto wide = load_micro(options("f32"));
  const SessionId session = *wide->open();
  EXPECT_EQ(refused(*wide, session), Code::unsupported);
  EngineOptions brief = options();
  brief.context = 20;
  const auto small = load_micro(brief);
  EXPECT_EQ(refused(*small, *small->open()), Code::invalid_argument);
  const auto quantised =
      Engine::load(io::real_io(), std::string(EVROS_BINARY_DIR) + "/micro/gguf/micro-q8_0.gguf", options());
  ASSERT_TRUE(quantised.ok()) << quantised.error().message;
  EXPECT_EQ(refused(**quantised, *(*quantised)->open()), Code::unsupported);
  EXPECT_NE(*(*quantised)->model_identity(), *engine_->model_identity());
  EXPECT_EQ(*wide->model_identity(), *engine_->model_identity());
}

TEST_F(SnapshotTest, AnEmptySessionAndAMissingFileAreRefusedAndLeaveNoFile) {
  const SessionId session = *engine_->open();
  EXPECT_EQ(code(engine_->save(io_, session, kFile)), Code::invalid_argument);
  EXPECT_FALSE(io_.exists(kFile));
  EXPECT_EQ(refused(*engine_, session), Code::not_found);
}

TEST_F(SnapshotTest, ASessionCanBeSavedOverItsOwnFile) {
  save();
  auto restored = engine_->restore(io_, kFile);
  ASSERT_TRUE(restored.ok());
  ASSERT_TRUE(engine_->append(restored->session, kMore).ok());
  ASSERT_TRUE(engine_->save(io_, restored->session, kFile, "more").ok());
  const auto again = engine_->restore(io_, kFile);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->attachment, "more");
  EXPECT_EQ(all_digests(*engine_, again->session), fresh_digests(*load_micro(options()), both()));
  EXPECT_EQ(engine_->restore(io_, kFile).error().code, Code::busy);  // both sessions are taken
  engine_->store().check_consistency();
}

}  // namespace
}  // namespace evros::engine::testing
