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

TEST(ChunkFaults, InABatchTheOtherSequenceIsPublishedWithItsSoloBits) {
  Bench bench(small_options());
  const World world = bench.world(2, 21);
  Oracle oracle(world);
  prove(oracle, chunk({{7, 2}, {300}}), chunk_faults(), 3000);
  expect_nothing_found(oracle);
}

}  // namespace
}  // namespace evros::sim
