// Snapshots: every fault in saving and restoring (S2, S7), death of the process at every step, and loss of power at every
// step with every outcome for what was not synced (S9: the file is the old one, the new one, or not there).
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "io/memory_io.h"
#include "sim/bench_testing.h"
#include "sim/crash_io.h"

namespace evros::sim {
namespace {

const std::string kFile = "folder/talk.evros";
const std::string kPartial = kFile + ".partial";

/// A world of two sessions and files in memory that fail with it.
struct Setting {
  Bench bench{small_options()};
  World world = bench.world(2, 21);
  io::MemoryIo memory;
  FaultyIo files{memory, bench.faults};
  Oracle oracle{world};
};

Operation save_over(Setting& setting, const std::string& old) {
  return single("save", [&setting, old](World& world) {
    setting.memory.put(kFile, old);
    Status saved;
    {
      const MemoryFaults memory(*world.faults);
      saved = world.engine->save(setting.files, world.sessions[0], kFile, "note");
    }
    const bool new_is_in_place = saved.ok() || world.faults->plan().kind == FaultKind::sync_folder;
    EXPECT_EQ(setting.memory.get(kFile) == old, !new_is_in_place) << describe(world.faults->plan());
    EXPECT_FALSE(setting.memory.exists(kPartial)) << describe(world.faults->plan());
    return saved;
  });
}

std::vector<FaultPlan> of(std::initializer_list<FaultKind> kinds) {
  std::vector<FaultPlan> plans;
  for (const FaultKind kind : kinds) plans.push_back({.kind = kind});
  return plans;
}

TEST(SnapshotFaults, ASaveThatFailsAnywhereLeavesTheOldFileAndTheSession) {
  Setting setting;
  setting.memory.put(kFile, "");
  ASSERT_TRUE(setting.bench.engine->save(setting.memory, setting.world.sessions[1], kFile).ok());
  const Operation save = save_over(setting, setting.memory.get(kFile));
  prove(setting.oracle, save,
        of({FaultKind::create, FaultKind::write, FaultKind::sync, FaultKind::rename, FaultKind::sync_folder,
            FaultKind::download, FaultKind::host_memory}),
        100);
  expect_nothing_found(setting.oracle);
}

TEST(SnapshotFaults, ARestoreThatFailsAnywhereLeavesTheSessionAndACorruptByteIsRefused) {
  Setting setting;
  setting.memory.put(kFile, "");
  ASSERT_TRUE(setting.bench.engine->save(setting.memory, setting.world.sessions[1], kFile, "note").ok());
  const auto plans = of({FaultKind::open, FaultKind::read_error, FaultKind::read_short, FaultKind::read_late,
                         FaultKind::read_corrupt, FaultKind::upload, FaultKind::host_memory});
  const Operation replace = single("restore into a session", [&](World& world) -> Status {
    const MemoryFaults memory(*world.faults);
    EVROS_TRY(world.engine->restore(setting.files, kFile, world.sessions[0]));
    return {};
  });
  prove(setting.oracle, replace, plans, 100);
  const Operation add = single("restore as a new session", [&](World& world) -> Status {
    world.sessions.reserve(world.sessions.size() + 1);
    const MemoryFaults memory(*world.faults);
    EVROS_ASSIGN(const auto restored, world.engine->restore(setting.files, kFile));
    world.sessions.push_back(restored.session);
    return {};
  });
  prove(setting.oracle, add, plans, 100);
  expect_nothing_found(setting.oracle);
}

/// What a restore from `io` finds: nothing, or the digests of the image; a file that is refused fails the test.
std::optional<Digests> found(engine::Engine& engine, io::Io& io, const std::string& path) {
  if (!io.exists(path)) return std::nullopt;
  auto restored = engine.restore(io, path);
  EXPECT_TRUE(restored.ok()) << "a torn file: " << restored.error().message;
  if (!restored.ok()) return std::nullopt;
  const Digests digests = *digests_of(engine, restored->session);
  EXPECT_TRUE(engine.close(restored->session).ok());
  return digests;
}

TEST(SnapshotDeath, AProcessThatDiesAtAnyStepLeavesTheOldFileOrTheNewOneOrNone) {
  Bench bench(small_options());
  const World world = bench.world(2, 21);
  engine::Engine& engine = *bench.engine;
  const Digests old_image = *digests_of(engine, world.sessions[1]), new_image = *digests_of(engine, world.sessions[0]);
  const std::string folder = testing::TempDir() + "evros_sim_death";
  const std::string path = folder + "/talk.evros";
  for (const bool had_old : {false, true}) {
    uint64_t died = 0;
    for (bool done = false; !done;) {
      std::filesystem::remove_all(folder);
      ASSERT_TRUE(io::real_io().make_folder(folder).ok());
      ASSERT_TRUE(!had_old || engine.save(io::real_io(), world.sessions[1], path).ok());
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        bench.faults.arm({.kind = FaultKind::death, .at = died});
        std::_Exit(engine.save(bench.io, world.sessions[0], path).ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      done = WEXITSTATUS(status) == 0;
      ASSERT_TRUE(done || WEXITSTATUS(status) == kDeathStatus);
      const std::optional<Digests> image = found(engine, io::real_io(), path);
      const std::optional<Digests> before = had_old ? std::optional(old_image) : std::nullopt;
      EXPECT_TRUE(image == new_image || (!done && image == before)) << died;
      died += done ? 0 : 1;
    }
    EXPECT_GT(died, 20u);
  }
  std::filesystem::remove_all(folder);
}

TEST(SnapshotDeath, AMachineThatLosesPowerAtAnyStepKeepsTheOldFileOrTheNewOneOrNone) {
  Bench bench(small_options());
  const World world = bench.world(2, 21);
  engine::Engine& engine = *bench.engine;
  const Digests old_image = *digests_of(engine, world.sessions[1]), new_image = *digests_of(engine, world.sessions[0]);
  for (const Kept kept : kAllKept) {
    for (const bool had_old : {false, true}) {
      SCOPED_TRACE(cat("kept ", static_cast<int>(kept), ", old ", had_old));
      uint64_t at = 0;
      for (bool done = false; !done; ++at) {
        CrashIo io;
        ASSERT_TRUE(!had_old || engine.save(io, world.sessions[1], kFile).ok());
        io.fail_at(io.steps() + at);
        done = engine.save(io, world.sessions[0], kFile).ok();
        io.restart(kept);
        const std::optional<Digests> image = found(engine, io, kFile);
        const std::optional<Digests> before = had_old ? std::optional(old_image) : std::nullopt;
        EXPECT_TRUE(image == new_image || (!done && image == before)) << at;  // a save that succeeded is durable
      }
      EXPECT_GT(at, 10u);
    }
  }
}

// Tests of the tester: a writer that forgets to sync, or writes in place, is caught by the same check.
TEST(SnapshotDeath, TheCheckForPowerLossSeesAMissingSyncAndAWriteInPlace) {
  const auto torn_after = [](auto&& save) {
    bool torn = false;
    for (const Kept kept : kAllKept) {
      for (uint64_t at = 0; at < 12; ++at) {
        CrashIo io;
        io.fail_at(at);
        save(io);
        io.restart(kept);
        if (!io.exists("f")) continue;
        const auto content = io::read_file(io, "f", 100);
        torn = torn || !content.ok() || (*content != "old!" && *content != "new content");
      }
    }
    return torn;
  };
  const auto write = [](CrashIo& io, const std::string& name, const std::string& text, bool sync) {
    auto file = io.create(name);
    if (!file.ok() || !(*file)->write_at(0, std::as_bytes(std::span(text))).ok()) return false;
    return !sync || (*file)->sync().ok();
  };
  const auto replace = [&](CrashIo& io, const std::string& text, bool sync) {
    return write(io, "p", text, sync) && io.rename("p", "f").ok() && io.sync_folder("").ok();
  };
  EXPECT_FALSE(torn_after([&](CrashIo& io) { return replace(io, "old!", true) && replace(io, "new content", true); }));
  EXPECT_TRUE(torn_after([&](CrashIo& io) { return replace(io, "old!", true) && replace(io, "new content", false); }));
  EXPECT_TRUE(
      torn_after([&](CrashIo& io) { return replace(io, "old!", true) && write(io, "f", "new content", true); }));
}

}  // namespace
}  // namespace evros::sim
