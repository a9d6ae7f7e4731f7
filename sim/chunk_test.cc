// Every fault that a running chunk can meet, at every place, on the micro model: one sequence, and two in a batch.
#include "sim/bench_testing.h"

namespace evros::sim {
namespace {

TEST(ChunkFaults, EveryStageOfOneSequenceFailsWithoutATrace) {
  Bench bench(small_options());
  const World world = bench.world(1, 21);
  Oracle oracle(world);
  prove(oracle, chunk({{7, 2, 300}}), chunk_faults(), 3000);
  expect_nothing_found(oracle);
}

TEST(ChunkFaults, InABatchTheOtherSequenceIsPublishedWithItsSoloBitsSlow) {
  Bench bench(small_options());
  const World world = bench.world(2, 21);
  Oracle oracle(world);
  prove(oracle, chunk({{7, 2}, {300}}), chunk_faults(), 3000);
  expect_nothing_found(oracle);
}

TEST(ChunkFaults, HostMemoryThatRunsOutAnywhereIsAnErrorWithoutATrace) {
  Bench bench(small_options());
  const World world = bench.world(2, 21);
  Oracle oracle(world);
  const std::vector<FaultPlan> memory{{.kind = FaultKind::host_memory}};
  prove(oracle, chunk({{7, 2, 300}}), memory, 12);
  prove(oracle, chunk({{7, 2}, {300}}), memory, 12);
  expect_nothing_found(oracle);
}

// The frames of the table hold little more than one chunk's rows, and another chunk is run before: every row is read
// anew.
TEST(ChunkFaults, EveryReadOfTheTableFailsWithoutATrace) {
  engine::EngineOptions options = small_options();
  options.table.frame_bytes = 64;
  options.table.memory_bytes = 64 * 64;
  options.chunk = 4;
  Bench bench(options);
  const engine::SessionId other = *bench.engine->open();
  const World world = bench.world(1, 21);
  Oracle oracle(world);
  Operation cold = chunk({{7, 2, 300}});
  cold.prepare = [&](World& trial) {
    for (int32_t i = 0; i < 3; ++i) {
      const std::vector<int32_t> others{401 + 7 * i, 17 + i, 440 - 5 * i, 90 + i};
      EXPECT_TRUE(trial.engine->append(other, others).ok());
    }
    EXPECT_TRUE(trial.engine->reset(other).ok());
  };
  prove(oracle, cold,
        {{.kind = FaultKind::read_error}, {.kind = FaultKind::read_short}, {.kind = FaultKind::read_late}}, 30);
  expect_nothing_found(oracle);
}

// Neither GGUF nor safetensors has a checksum for a row: another byte is another model, and this is what it looks like.
TEST(ChunkFaults, ACorruptRowOfTheTableIsDeclaredUndetectableAndIsNotClaimedToBeNoticed) {
  engine::EngineOptions options = small_options();
  options.table.frame_bytes = 64;
  const auto logits = [](Bench& bench, bool corrupt) {
    const engine::SessionId session = *bench.engine->open();
    if (corrupt) bench.faults.arm({.kind = FaultKind::read_corrupt, .persistent = true});
    EXPECT_TRUE(bench.engine->append(session, std::vector<int32_t>{7, 2, 300}).ok());
    bench.faults.disarm();
    return (*digests_of(*bench.engine, session))[static_cast<size_t>(state::Owner::logits)];
  };
  Bench struck(options), fresh(options);
  const Digest wrong = logits(struck, true);
  EXPECT_GT(struck.faults.fired(), 0u);
  EXPECT_NE(wrong, logits(fresh, false));
}

TEST(ChunkFaults, ReadingLogitsThatFailLeavesTheCallersBuffer) {
  Bench bench(small_options());
  const World world = bench.world(1, 21);
  Oracle oracle(world);
  const Operation read = single("logits", [](World& w) {
    const MemoryFaults memory(*w.faults);
    return w.engine->logits(w.sessions[0], w.buffer);
  });
  prove(oracle, read, {{.kind = FaultKind::download}, {.kind = FaultKind::host_memory}}, 3);
  expect_nothing_found(oracle);
}

}  // namespace
}  // namespace evros::sim
