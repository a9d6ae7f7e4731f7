// Random scripts and random faults on the bundled model: what the exhaustive tests do not combine. Every round is a
// pure function of its seed. EVROS_SIM_SEED=N runs that round alone; EVROS_SIM_SECONDS bounds the time (20 by default).
#include <chrono>
#include <cstdlib>

#include "base/rng.h"
#include "sim/bench_testing.h"

namespace evros::sim {
namespace {

constexpr size_t kSessions = 3;

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  int32_t below(int64_t n) { return static_cast<int32_t>(uniform(seed_, 7, at_++) * static_cast<double>(n)); }

 private:
  uint64_t seed_;
  uint64_t at_ = 0;
};

std::vector<int32_t> some_tokens(Dice& dice, int32_t most) {
  std::vector<int32_t> tokens(static_cast<size_t>(1 + dice.below(most)));
  for (int32_t& token : tokens) token = dice.below(4096);
  return tokens;
}

/// A script's world with the tokens that each session must hold.
struct Round {
  Dice dice;
  World world;
  std::vector<std::vector<int32_t>> tokens;
};

/// An operation and what the sessions hold after it.
struct Step {
  Operation operation;
  std::vector<std::vector<int32_t>> after;
};

Step random_chunk(Round& round) {
  Step step{{}, round.tokens};
  std::vector<std::vector<int32_t>> tokens{some_tokens(round.dice, 5), {}};
  const bool both = round.dice.below(2) == 0;
  if (both) tokens[1] = some_tokens(round.dice, 3);
  step.operation = chunk(tokens);
  if (!both) step.operation.which = {0};
  for (const size_t i : step.operation.which)
    step.after[i].insert(step.after[i].end(), tokens[i].begin(), tokens[i].end());
  return step;
}

// A prefix is kept and something else follows, in several chunks: an append when all is kept, a rewind when nothing follows.
Step random_rewrite(Round& round) {
  Step step{{}, round.tokens};
  std::vector<int32_t>& history = step.after[0];
  const int32_t keep = round.dice.below(static_cast<int64_t>(history.size()) + 1);
  const std::vector<int32_t> tokens = some_tokens(round.dice, 12);
  history.resize(static_cast<size_t>(keep));
  history.insert(history.end(), tokens.begin(), tokens.end());
  step.operation = single(cat("rewrite from ", keep), [keep, tokens](World& world) -> Status {
    const MemoryFaults memory(*world.faults);
    EVROS_TRY(world.engine->rewrite(world.sessions[0], keep, tokens, {.cancel = &world.faults->cancel_flag()}));
    return {};
  });
  step.operation.retried = true;
  return step;
}

FaultPlan random_plan(Dice& dice, const Oracle& oracle) {
  static const std::vector<FaultPlan> kinds = [] {
    std::vector<FaultPlan> all = chunk_faults();
    all.push_back({.kind = FaultKind::host_memory});
    return all;
  }();
  FaultPlan plan = kinds[static_cast<size_t>(dice.below(static_cast<int64_t>(kinds.size())))];
  const uint64_t count = oracle.occurrences(plan.kind);
  if (count == 0) plan.kind = FaultKind::launch;
  plan.at = static_cast<uint64_t>(dice.below(static_cast<int64_t>(oracle.occurrences(plan.kind))));
  const bool rows = plan.kind == FaultKind::status_word || plan.kind == FaultKind::non_finite;
  plan.persistent = !rows && dice.below(2) == 0;
  return plan;
}

// The sessions trade places, so that both rows of a batch and all slots get their turn.
void shuffle(Round& round) {
  const auto i = static_cast<size_t>(round.dice.below(kSessions));
  std::swap(round.world.sessions[0], round.world.sessions[i]);
  std::swap(round.tokens[0], round.tokens[i]);
}

void change_shape(Round& round) {
  engine::Engine& engine = *round.world.engine;
  switch (round.dice.below(6)) {
    case 0:
      ASSERT_TRUE(engine.reset(round.world.sessions[2]).ok());
      round.tokens[2].clear();
      break;
    case 1: {
      ASSERT_TRUE(engine.close(round.world.sessions[2]).ok());
      auto fork = engine.fork(round.world.sessions[0]);
      ASSERT_TRUE(fork.ok()) << fork.error().message;
      round.world.sessions[2] = *fork;
      round.tokens[2] = round.tokens[0];
      break;
    }
    default:
      break;
  }
}

void run_step(Round& round, Totals& totals) {
  change_shape(round);
  shuffle(round);
  const Step step = round.dice.below(3) == 0 ? random_rewrite(round) : random_chunk(round);
  const Operation& operation = step.operation;
  Oracle oracle(round.world);
  ASSERT_TRUE(oracle.learn(operation)) << oracle.findings().back();
  for (int i = 0; i < 3; ++i) oracle.trial(operation, random_plan(round.dice, oracle));
  for (const std::string& finding : oracle.findings()) ADD_FAILURE() << finding;
  totals.injected += oracle.totals().injected;
  totals.unchanged += oracle.totals().unchanged;
  totals.absorbed += oracle.totals().absorbed;
  ASSERT_TRUE(operation.run(round.world, operation.which).ok());
  round.tokens = step.after;
}

// S3: in the end each session holds what its tokens alone give, in another session and in other chunks.
void expect_histories(Round& round) {
  engine::Engine& engine = *round.world.engine;
  for (size_t i = 0; i < kSessions; ++i) {
    EXPECT_EQ(*engine.tokens(round.world.sessions[i]), round.tokens[i]);
    const engine::SessionId alone = *engine.open();
    if (!round.tokens[i].empty()) {
      ASSERT_TRUE(engine.append(alone, round.tokens[i]).ok());
      EXPECT_EQ(*digests_of(engine, alone), *digests_of(engine, round.world.sessions[i])) << "session " << i;
    }
    ASSERT_TRUE(engine.close(alone).ok());
  }
}

void run_round(Bench& bench, uint64_t seed, Totals& totals) {
  SCOPED_TRACE("replay: EVROS_SIM_SEED=" + std::to_string(seed) + " sim_test --gtest_filter='RandomFaults.*'");
  Round round{Dice(seed), bench.world(kSessions, 0), std::vector<std::vector<int32_t>>(kSessions)};
  for (int step = 0; step < 4 && !testing::Test::HasFailure(); ++step) run_step(round, totals);
  if (!testing::Test::HasFailure()) expect_histories(round);
  for (const engine::SessionId session : round.world.sessions) EXPECT_TRUE(bench.engine->close(session).ok());
  EXPECT_EQ(bench.engine->store().usage().slots, 1);  // the engine's own
  EXPECT_EQ(bench.engine->store().usage().banks, 0);
  EXPECT_EQ(bench.engine->store().usage().pages, 0);
}

TEST(RandomFaults, NoScriptOfTheBundledModelShowsATraceOfAFault) {
  const char* one = std::getenv("EVROS_SIM_SEED");
  const char* seconds = std::getenv("EVROS_SIM_SECONDS");
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds == nullptr ? 20 : std::atoi(seconds));
  Bench bench(small_options(), std::string(EVROS_SOURCE_DIR) + "/models/evros-tiny");
  Totals totals;
  uint64_t seed = one == nullptr ? 1 : std::strtoull(one, nullptr, 10);
  do {
    run_round(bench, seed++, totals);
  } while (one == nullptr && !HasFailure() && std::chrono::steady_clock::now() < end);
  EXPECT_GT(totals.injected, 0u);
  EXPECT_EQ(totals.injected, totals.unchanged);
  count_in(totals);
}

}  // namespace
}  // namespace evros::sim
