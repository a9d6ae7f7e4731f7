// A device that is lost with everything on it, at any of its calls: the sessions come back from their tokens, on it or on
// the CPU, with the digests of an engine that never lost anything.
#include "sim/bench_testing.h"

namespace evros::sim {
namespace {

std::vector<int32_t> text(int32_t n, int32_t seed) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < n; ++i) ids.push_back((i * 37 + seed * 11 + 5) % 500);
  return ids;
}

/// An engine on a device that can be lost. It opens again when `reopens`; else the engine goes on on the CPU.
struct Rig {
  Faults faults;
  FaultyIo io{io::real_io(), faults};
  std::vector<std::string> notices;
  std::unique_ptr<engine::Engine> engine;
  std::vector<engine::SessionId> sessions;

  explicit Rig(bool reopens, engine::EngineOptions options = small_options()) {
    const auto open = [this]() -> Result<std::unique_ptr<device::Device>> {
      return {std::make_unique<FaultyDevice>(device::make_host_device(1), faults)};
    };
    if (reopens) options.reopen = open;
    options.notice = [this](const std::string& sentence) { notices.push_back(sentence); };
    auto made = engine::Engine::load(io, open().value(), micro_model(), options);
    CHECK(made.ok());
    engine = std::move(*made);
  }

  /// Three sessions: two of different texts, and a fork of the first that went on differently.
  void fill() {
    for (int32_t s = 0; s < 2; ++s) {
      sessions.push_back(*engine->open());
      CHECK(engine->append(sessions.back(), text(20 + s, s)).ok());
    }
    sessions.push_back(*engine->fork(sessions[0]));
    CHECK(engine->append(sessions[2], text(3, 7)).ok());
  }

  std::vector<Digests> look() {
    std::vector<Digests> all;
    for (const engine::SessionId session : sessions) {
      auto seen = digests_of(*engine, session);
      CHECK(seen.ok());
      all.push_back(*seen);
    }
    return all;
  }
};

using Work = std::function<Status(Rig& rig)>;

Status run_rows(Rig& rig) {
  const std::vector<int32_t> a = text(2, 3), b = text(3, 4);
  const std::vector<engine::ChunkRow> rows{{rig.sessions[0], a}, {rig.sessions[1], b}};
  EVROS_ASSIGN(const auto statuses, rig.engine->run_chunk(rows));
  for (const Status& status : statuses) EVROS_TRY(status);
  return {};
}

const std::vector<std::pair<const char*, Work>>& works() {
  static const std::vector<std::pair<const char*, Work>> list{
      {"a chunk of two", run_rows},
      {"an append of several chunks", [](Rig& rig) { return rig.engine->append(rig.sessions[0], text(19, 5)); }},
      {"a rewind", [](Rig& rig) { return rig.engine->rewind(rig.sessions[1], 9); }},
      {"a rewrite",
       [](Rig& rig) -> Status {
         EVROS_TRY(rig.engine->rewrite(rig.sessions[0], 7, text(12, 9)));
         return {};
       }},
      {"logits and digests",
       [](Rig& rig) -> Status {
         std::vector<float> logits(static_cast<size_t>(rig.engine->model().hyper.vocab));
         EVROS_TRY(rig.engine->logits(rig.sessions[2], logits));
         EVROS_TRY(rig.engine->digests(rig.sessions[1]));
         return {};
       }},
  };
  return list;
}

/// Calls of the device in `work`.
uint64_t count_calls(Rig& rig, const Work& work) {
  rig.faults.count();
  EXPECT_TRUE(work(rig).ok());
  rig.faults.disarm();
  return rig.faults.occurrences(FaultKind::loss);
}

// Loses the device before every `stride`-th of its calls in `work`, each time with engines of its own.
void lose_everywhere(bool reopens, const char* name, const Work& work, uint64_t stride) {
  Rig never(false);
  never.fill();
  const uint64_t calls = count_calls(never, work);
  const std::vector<Digests> wanted = never.look();
  ASSERT_GT(calls, 1u) << name;
  for (uint64_t at = 0; at < calls; at += stride) {
    Rig rig(reopens);
    rig.fill();
    rig.faults.arm({.kind = FaultKind::loss, .at = at});
    const Status status = work(rig);
    EXPECT_EQ(rig.faults.fired(), 1u) << name << ", call " << at;
    rig.faults.disarm();
    ASSERT_TRUE(status.ok()) << name << ", call " << at << ": " << status.error().message;
    EXPECT_EQ(rig.look(), wanted) << name << ", call " << at;
    EXPECT_EQ(rig.notices.size(), 1u) << name << ", call " << at;
    EXPECT_FALSE(rig.engine->device().lost());
    rig.engine->store().check_consistency();
    // It goes on, and the next chunk is that of the engine that never lost anything.
    EXPECT_TRUE(run_rows(rig).ok());
    all_faults().injected += 1;
    all_faults().unchanged += 1;
  }
}

TEST(Loss, EverySessionComesBackWhenTheDeviceOpensAgain) {
  for (const auto& [name, work] : works()) lose_everywhere(true, name, work, 23);
}

TEST(Loss, EverySessionComesBackOnTheCpuWhenItDoesNot) {
  for (const auto& [name, work] : works()) lose_everywhere(false, name, work, 41);
}

TEST(Loss, BeforeEveryCallOfAChunk) { lose_everywhere(true, works()[0].first, works()[0].second, 3); }

TEST(Loss, WhatIsSaidNamesTheReasonAndWhereItGoesOn) {
  Rig rig(false);
  rig.fill();
  rig.faults.arm({.kind = FaultKind::loss, .at = 5});
  ASSERT_TRUE(run_rows(rig).ok());
  ASSERT_EQ(rig.notices.size(), 1u);
  EXPECT_NE(rig.notices[0].find("is lost: injected"), std::string::npos) << rig.notices[0];
  EXPECT_NE(rig.notices[0].find("goes on on the CPU"), std::string::npos) << rig.notices[0];
  EXPECT_EQ(rig.engine->info().device, "cpu");
}

// Absent at frontier n, never half present: the tokens are there, the image comes back when it can.
TEST(Loss, ARecoveryThatFailsLeavesTokensAndIsTriedAgain) {
  Rig never(false), rig(false);
  never.fill();
  rig.fill();
  const std::vector<int32_t> one = text(1, 1);
  const engine::ChunkRow kept{rig.sessions[0], one};
  rig.faults.arm({.kind = FaultKind::loss});
  EXPECT_FALSE(rig.engine->device().finish().ok());
  ASSERT_TRUE(rig.engine->device().lost());
  rig.faults.arm({.kind = FaultKind::read_error, .persistent = true});
  const auto failed = rig.engine->run_chunk({&kept, 1});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::io) << failed.error().message;
  EXPECT_FALSE(rig.engine->digests(rig.sessions[1]).ok());
  for (size_t s = 0; s < rig.sessions.size(); ++s) {
    EXPECT_EQ(*rig.engine->frontier(rig.sessions[s]), *never.engine->frontier(never.sessions[s]));
    EXPECT_EQ(*rig.engine->tokens(rig.sessions[s]), *never.engine->tokens(never.sessions[s]));
  }
  rig.faults.disarm();
  ASSERT_TRUE(rig.engine->digests(rig.sessions[0]).ok());
  EXPECT_EQ(rig.look(), never.look());
}

TEST(Loss, AddressesStayAndCheckpointsGo) {
  engine::EngineOptions options = small_options();
  options.checkpoints = 1;
  Rig rig(true, options);
  rig.fill();
  const engine::CheckpointId checkpoint = *rig.engine->checkpoint(rig.sessions[0]);
  const engine::SessionId closed = *rig.engine->open();
  ASSERT_TRUE(rig.engine->close(closed).ok());
  const uint64_t before = rig.engine->store().view(rig.sessions[0])->sequence();
  rig.faults.arm({.kind = FaultKind::loss});
  ASSERT_TRUE(run_rows(rig).ok());
  EXPECT_EQ(rig.engine->release(checkpoint).error().code, Code::stale);
  EXPECT_EQ(rig.engine->frontier(closed).error().code, Code::stale);
  const engine::SessionId opened = *rig.engine->open();
  EXPECT_FALSE(opened == closed);
  EXPECT_GT(rig.engine->store().view(rig.sessions[0])->sequence(), before);
}

// Sessions that share their beginnings share their pages afterwards too: a pool that was just large enough still is.
TEST(Loss, SharedBeginningsStayShared) {
  engine::EngineOptions options = small_options();
  options.pool_tokens = 256;
  Rig rig(false, options);
  rig.sessions.push_back(*rig.engine->open());
  ASSERT_TRUE(rig.engine->append(rig.sessions[0], text(128 - 6, 1)).ok());
  for (int32_t i = 1; i < 6; ++i) {
    rig.sessions.push_back(*rig.engine->fork(rig.sessions[0]));
    ASSERT_TRUE(rig.engine->append(rig.sessions.back(), text(i, 20 + i)).ok());
  }
  const std::vector<Digests> wanted = rig.look();
  const int32_t pages = rig.engine->store().usage().pages;
  rig.faults.arm({.kind = FaultKind::loss});
  ASSERT_TRUE(rig.engine->digests(rig.sessions[0]).ok());
  EXPECT_EQ(rig.look(), wanted);
  EXPECT_LE(rig.engine->store().usage().pages, pages);
}

}  // namespace
}  // namespace evros::sim
