// What the fault tests share: an engine on faulty files and a faulty device, its operations, and the count of all
// faults.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "sim/faulty_device.h"
#include "sim/faulty_io.h"
#include "sim/memory_faults_testing.h"
#include "sim/oracle.h"

namespace evros::sim {

inline std::string micro_model() { return std::string(EVROS_BINARY_DIR) + "/micro/hf"; }

/// Everything that this program injects, added up; printed in one line when it ends.
inline Totals& all_faults() {
  static Totals totals;
  return totals;
}

inline void count_in(const Totals& totals) {
  all_faults().injected += totals.injected;
  all_faults().unchanged += totals.unchanged;
  all_faults().absorbed += totals.absorbed;
}

using DeviceMaker = std::unique_ptr<device::Device> (*)(Faults& faults, Held& held);

inline std::unique_ptr<device::Device> faulty_host(Faults& faults, Held& held) {
  return std::make_unique<FaultyDevice>(device::make_host_device(1), faults, &held);
}

/// An engine whose surroundings obey `faults`. Destroyed, it gave everything back.
struct Bench {
  Faults faults;
  Held held;
  FaultyIo io{io::real_io(), faults, &held};
  std::unique_ptr<engine::Engine> engine;

  explicit Bench(const engine::EngineOptions& options, const std::string& model = micro_model(),
                 DeviceMaker make_device = faulty_host) {
    auto made = engine::Engine::load(io, make_device(faults, held), model, options);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    CHECK(made.ok());
    engine = std::move(*made);
  }
  ~Bench() {
    engine.reset();
    EXPECT_EQ(held.buffers, 0);
    EXPECT_EQ(held.files, 0);
  }

  /// `count` sessions, each with a history of its own.
  World world(size_t count, int32_t length) {
    World made{engine.get(), &faults, {}, {}};
    for (size_t s = 0; s < count; ++s) {
      auto session = engine->open();
      CHECK(session.ok());
      made.sessions.push_back(*session);
      if (length == 0) continue;
      std::vector<int32_t> tokens;
      for (int32_t i = 0; i < length; ++i) tokens.push_back((i * 37 + static_cast<int32_t>(s) * 11 + 5) % 500);
      const Status status = engine->append(*session, tokens);
      EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    }
    made.buffer.assign(static_cast<size_t>(engine->model().hyper.vocab), 42.0f);
    return made;
  }
};

/// Small, on one thread: what happens is the same every time.
inline engine::EngineOptions small_options() {
  engine::EngineOptions options;
  options.threads = 1;
  options.context = 128;
  options.sessions = 8;
  options.batch = 2;
  options.chunk = 8;
  return options;
}

/// A chunk of one or more sessions with these tokens each.
inline Operation chunk(std::vector<std::vector<int32_t>> tokens) {
  Operation operation;
  operation.name = cat("chunk of ", tokens.size());
  operation.which.clear();
  for (size_t i = 0; i < tokens.size(); ++i) operation.which.push_back(i);
  operation.retried = true;
  operation.run = [tokens = std::move(tokens)](World& world, std::span<const size_t> which) {
    const engine::Observer observer = [&](const model::Pass&, const model::Stage*) -> Status {
      if (world.faults->fires(FaultKind::observe)) return Error{Code::cancelled, "injected: the observer stops here"};
      return {};
    };
    std::vector<engine::ChunkRow> rows;
    for (const size_t i : which) rows.push_back({world.sessions[i], tokens[i]});
    const MemoryFaults memory(*world.faults);
    return world.engine->run_chunk(rows, {.cancel = &world.faults->cancel_flag(), .observer = &observer});
  };
  return operation;
}

/// An operation on one session that says only whether it worked. `run` makes a MemoryFaults around its call of the
/// engine.
inline Operation single(std::string name, std::function<Status(World& world)> run) {
  Operation operation;
  operation.name = std::move(name);
  operation.run = [run = std::move(run)](World& world, std::span<const size_t>) -> Result<std::vector<Status>> {
    EVROS_TRY(run(world));
    return std::vector<Status>(1);
  };
  return operation;
}

/// All faults of `plans` on `operation`, exhaustively; expects no finding and at least `least` faults.
inline void prove(Oracle& oracle, const Operation& operation, const std::vector<FaultPlan>& plans, uint64_t least) {
  ASSERT_TRUE(oracle.learn(operation)) << (oracle.findings().empty() ? "" : oracle.findings().back());
  const uint64_t before = oracle.totals().injected;
  for (const FaultPlan& plan : plans) oracle.exhaust(operation, plan);
  EXPECT_GE(oracle.totals().injected - before, least) << operation.name;
}

inline void expect_nothing_found(const Oracle& oracle) {
  for (const std::string& finding : oracle.findings()) ADD_FAILURE() << finding;
  EXPECT_EQ(oracle.totals().injected, oracle.totals().unchanged);
  count_in(oracle.totals());
}

}  // namespace evros::sim
