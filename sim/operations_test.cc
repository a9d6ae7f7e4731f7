// Faults in the operations that change a history as a whole: an append of several chunks, a rewind with replay, a
// rewrite, and those that only publish. All of them are one step for whoever looks (docs/state.md).
#include "sim/bench_testing.h"
#include "state/digest.h"

namespace evros::sim {
namespace {

engine::EngineOptions short_chunks() {
  engine::EngineOptions options = small_options();
  options.chunk = 3;
  options.checkpoints = 2;
  return options;
}

engine::ChunkOptions options_of(World& world) { return {.cancel = &world.faults->cancel_flag()}; }

/// Faults of chunks that need no batch, at every `stride`th place (the stages themselves are walked in chunk_test.cc),
/// and every allocation failing.
void prove_sampled(const Operation& operation, uint64_t stride, uint64_t least) {
  Bench bench(short_chunks());
  const World world = bench.world(2, 10);
  const auto checkpoint = bench.engine->checkpoint(world.sessions[0]);  // at 10, of which the rewind below keeps less
  ASSERT_TRUE(checkpoint.ok());
  Oracle oracle(world);
  ASSERT_TRUE(oracle.learn(operation)) << oracle.findings().back();
  for (const FaultPlan& plan : chunk_faults()) {
    const bool rare = plan.kind == FaultKind::copy || plan.kind == FaultKind::fill || plan.kind == FaultKind::download;
    if (!plan.last_row) oracle.exhaust(operation, plan, rare ? 1 : stride);
  }
  oracle.exhaust(operation, {.kind = FaultKind::host_memory}, 1);
  EXPECT_GE(oracle.totals().injected, least);
  expect_nothing_found(oracle);
}

Operation on_device(std::string name, std::function<Status(World& world)> run) {
  Operation operation = single(std::move(name), std::move(run));
  operation.retried = true;
  return operation;
}

TEST(OperationFaults, AnAppendOfSeveralChunksIsAllOrNothing) {
  const std::vector<int32_t> tokens{7, 2, 300, 41, 41, 5, 2};
  prove_sampled(on_device("append of 7",
                          [&](World& world) {
                            const MemoryFaults memory(*world.faults);
                            return world.engine->append(world.sessions[0], tokens, options_of(world));
                          }),
                29, 250);
}

TEST(OperationFaults, ARewindThatReplaysLeavesTheSessionWhereItWasOrWhereItGoes) {
  prove_sampled(on_device("rewind to 5",
                          [](World& world) {
                            const MemoryFaults memory(*world.faults);
                            return world.engine->rewind(world.sessions[0], 5, options_of(world));
                          }),
                23, 200);
}

TEST(OperationFaults, ARewriteGoesFromTheOldHistoryToTheNewOneOrStays) {
  const std::vector<int32_t> tokens{9, 8, 7, 6};
  prove_sampled(on_device("rewrite",
                          [&](World& world) -> Status {
                            const MemoryFaults memory(*world.faults);
                            EVROS_TRY(world.engine->rewrite(world.sessions[0], 8, tokens, options_of(world)));
                            return {};
                          }),
                37, 250);
}

TEST(OperationFaults, HostMemoryThatRunsOutInWhatOnlyPublishesChangesNothing) {
  Bench bench(short_chunks());
  const World world = bench.world(2, 10);
  Oracle oracle(world);
  const std::vector<FaultPlan> memory{{.kind = FaultKind::host_memory}};
  prove(oracle,
        single("reset",
               [](World& w) {
                 const MemoryFaults faults(*w.faults);
                 return w.engine->reset(w.sessions[0]);
               }),
        memory, 0);
  prove(oracle,
        single("fork",
               [](World& w) -> Status {
                 w.sessions.reserve(w.sessions.size() + 1);
                 const MemoryFaults faults(*w.faults);
                 EVROS_ASSIGN(const engine::SessionId made, w.engine->fork(w.sessions[1]));
                 w.sessions.push_back(made);
                 return {};
               }),
        memory, 0);
  prove(oracle,
        single("checkpoint",
               [](World& w) -> Status {
                 const MemoryFaults faults(*w.faults);
                 EVROS_ASSIGN(const engine::CheckpointId made, w.engine->checkpoint(w.sessions[0]));
                 return w.engine->release(made);
               }),
        memory, 0);
  prove(oracle,
        single("digests",
               [](World& w) -> Status {
                 const MemoryFaults faults(*w.faults);
                 EVROS_TRY(w.engine->digests(w.sessions[0]));
                 return {};
               }),
        {{.kind = FaultKind::host_memory}, {.kind = FaultKind::download}}, 50);
  expect_nothing_found(oracle);
}

// The oracle reads images by its own way. That it sees what state/ calls the digests keeps both honest.
TEST(OracleDigests, AreThoseOfTheState) {
  Bench bench(small_options());
  const World world = bench.world(2, 70);  // more than a page
  for (const engine::SessionId session : world.sessions) {
    const Digests seen = *digests_of(*bench.engine, session);
    auto view = bench.engine->store().view(session);
    ASSERT_TRUE(view.ok());
    const auto all = state::owner_digests(bench.engine->store(), *view);
    ASSERT_TRUE(all.ok());
    EXPECT_GE(all->size(), 12u);
    for (const state::OwnerDigest& each : *all) {
      EXPECT_EQ(seen[static_cast<size_t>(each.owner)], each.digest) << state::owner_name(each.owner);
    }
  }
  EXPECT_NE((*digests_of(*bench.engine, world.sessions[0])), (*digests_of(*bench.engine, world.sessions[1])));
}

}  // namespace
}  // namespace evros::sim
