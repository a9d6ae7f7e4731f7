// Faults under a scheduler with several requests: each request is its solo reply or an error, nothing else is lost, and the
// next clean run is right.
#include "engine/scheduler.h"

#include <map>

#include "engine/text_kit.h"
#include "sim/bench_testing.h"

namespace evros::sim {
namespace {

struct Outcome {
  std::map<int32_t, std::string> text;
  std::map<int32_t, engine::ReplyEnd> ends;
  std::optional<Error> error;
  int last_events = 0;
};

class Recorder : public engine::Listener {
 public:
  Recorder(Outcome& outcome, std::function<void()> on_last) : outcome_(outcome), on_last_(std::move(on_last)) {}
  void started(const engine::Started&) override {}
  void piece(int32_t choice, const engine::Piece& piece) override { outcome_.text[choice] += piece.text; }
  void ended(const engine::ReplyEnd& end) override { outcome_.ends[end.choice] = end; }
  void done() override {
    ++outcome_.last_events;
    on_last_();
  }
  void failed(const Error& error) override {
    outcome_.error = error;
    ++outcome_.last_events;
    on_last_();
  }

 private:
  Outcome& outcome_;
  std::function<void()> on_last_;
};

engine::EngineOptions serving_options() {
  engine::EngineOptions options = small_options();
  options.context = 64;
  options.sessions = 6;
  options.batch = 3;
  options.chunk = 8;
  return options;
}

std::string tiny_model() { return std::string(EVROS_SOURCE_DIR) + "/models/evros-tiny"; }

std::vector<engine::Request> requests() {
  std::vector<engine::Request> all(3);
  all[0].prompt = {300, 17, 4, 911, 35, 8, 77, 1200, 5, 6, 901};
  all[0].reply.max_tokens = 4;
  all[1].prompt = {42, 7};
  all[1].reply.max_tokens = 6;
  all[1].reply.sampling.temperature = 1;
  all[2].prompt = {300, 17, 9};
  all[2].reply.max_tokens = 3;
  all[2].n = 2;
  all[2].reply.sampling.temperature = 1;
  for (engine::Request& one : all) one.reply.ignore_eos = true;
  return all;
}

// All requests handed in at once and worked off on this thread.
std::vector<Outcome> work_off(Bench& bench, const FaultPlan* plan, std::vector<engine::Request> wanted,
                              engine::SchedulerStats* stats = nullptr) {
  std::vector<Outcome> outcomes(wanted.size());
  engine::Scheduler scheduler(*bench.engine, bench.io, *engine::load_tokenizer(bench.engine->file()), {});
  size_t left = wanted.size();
  const auto one_less = [&] {
    if (--left == 0) scheduler.drain();
  };
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(scheduler.submit(std::move(wanted[i]), std::make_shared<Recorder>(outcomes[i], one_less)).ok());
  }
  if (plan != nullptr) bench.faults.arm(*plan);
  scheduler.run();
  if (plan != nullptr) bench.faults.disarm();
  if (stats != nullptr) *stats = scheduler.stats();
  return outcomes;
}

void expect_equal(const Outcome& outcome, const Outcome& solo) {
  EXPECT_EQ(outcome.text, solo.text);
  EXPECT_EQ(outcome.ends.size(), solo.ends.size());
}

class SchedulerFaults : public ::testing::Test {
 protected:
  SchedulerFaults() : bench_(serving_options(), tiny_model()) {
    for (const engine::Request& one : requests()) {
      solo_.push_back(work_off(bench_, nullptr, {one})[0]);
      EXPECT_FALSE(solo_.back().error.has_value());
    }
  }

  // One fault while all three run; then all three again.
  void strike(const FaultPlan& plan) {
    SCOPED_TRACE(describe(plan));
    engine::SchedulerStats stats;
    const std::vector<Outcome> struck = work_off(bench_, &plan, requests(), &stats);
    if (bench_.faults.fired() == 0) return;
    ++struck_;
    for (size_t i = 0; i < struck.size(); ++i) {
      EXPECT_EQ(struck[i].last_events, 1) << i;
      if (struck[i].error.has_value()) {
        ++failed_;
      } else {
        expect_equal(struck[i], solo_[i]);
      }
    }
    const std::vector<Outcome> after = work_off(bench_, nullptr, requests());
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_FALSE(after[i].error.has_value()) << i;
      expect_equal(after[i], solo_[i]);
    }
    const state::Usage usage = bench_.engine->store().usage();
    EXPECT_EQ(usage.slots, 1) << "the spare one";
    EXPECT_EQ(usage.pages, 0);
    EXPECT_EQ(bench_.engine->table_frames_held(), 0);
  }

  Bench bench_;
  std::vector<Outcome> solo_;
  uint64_t struck_ = 0, failed_ = 0;
};

TEST_F(SchedulerFaults, ARequestThatIsPoisonedFailsAloneAndTheOthersAreTheirSoloReplies) {
  for (const bool last : {false, true}) {
    for (const FaultKind kind : {FaultKind::non_finite, FaultKind::status_word}) {
      for (uint64_t at = 3; at < 900; at += 151) {
        const uint64_t before = failed_;
        strike({.kind = kind, .at = at, .last_row = last});
        EXPECT_LE(failed_ - before, 1u) << "only the request of the row that was struck";
      }
    }
  }
  EXPECT_GT(struck_, 12u);
  EXPECT_GT(failed_, 12u);
}

TEST_F(SchedulerFaults, AFaultOfTheDeviceThatHappensOnceIsNotSeenByAnyRequest) {
  for (const FaultKind kind : {FaultKind::launch, FaultKind::completion}) {
    for (uint64_t at = 5; at < 600; at += 149) strike({.kind = kind, .at = at});
  }
  EXPECT_GT(struck_, 4u);
  EXPECT_EQ(failed_, 0u);
}

TEST_F(SchedulerFaults, ADeviceThatRefusesForGoodFailsEveryRequestAndHealthIsRed) {
  engine::SchedulerStats stats;
  const FaultPlan plan{.kind = FaultKind::launch, .at = 40, .persistent = true};
  const std::vector<Outcome> struck = work_off(bench_, &plan, requests(), &stats);
  for (const Outcome& outcome : struck) EXPECT_TRUE(outcome.error.has_value());
  EXPECT_FALSE(stats.healthy);
  const std::vector<Outcome> after = work_off(bench_, nullptr, requests(), &stats);
  for (size_t i = 0; i < after.size(); ++i) expect_equal(after[i], solo_[i]);
  EXPECT_TRUE(stats.healthy);
}

TEST_F(SchedulerFaults, LogitsAndTableRowsThatCannotBeReadAreErrorsOfTheirRequests) {
  for (const FaultKind kind : {FaultKind::download, FaultKind::upload, FaultKind::copy, FaultKind::fill}) {
    for (uint64_t at = 1; at < 60; at += 13) strike({.kind = kind, .at = at});
  }
  EXPECT_GT(struck_, 4u);
}

}  // namespace
}  // namespace evros::sim
