// Tests of the tester: for each thing that the oracle checks, a small bug that it must report.
#include <cstring>

#include "sim/bench_testing.h"

namespace evros::sim {
namespace {

bool reported(const Oracle& oracle, std::string_view words) {
  return std::any_of(oracle.findings().begin(), oracle.findings().end(),
                     [&](const std::string& finding) { return finding.find(words) != std::string::npos; });
}

std::string all(const Oracle& oracle) {
  std::string text;
  for (const std::string& finding : oracle.findings()) text += finding + "\n";
  return text.empty() ? "nothing was reported" : text;
}

/// A device with a bug that shows in the moment of a fault.
class BuggyDevice final : public FaultyDevice {
 public:
  using FaultyDevice::FaultyDevice;
  std::function<void(device::Device& inner)> on_failure;
  bool swallow = false;      // a failed completion is not reported
  bool forget_rows = false;  // a refused launch claims that it ran

  Status launch(const device::StageInfo& stage, const std::function<void(device::Queue&)>& body) override {
    Status status = FaultyDevice::launch(stage, body);
    if (!status.ok() && on_failure) on_failure(inner());
    if (forget_rows) return {};
    return status;
  }
  Status finish() override {
    Status status = FaultyDevice::finish();
    if (swallow) return {};
    return status;
  }
};

struct Canary {
  Bench bench{small_options(), micro_model(), [](Faults& faults, Held& held) -> std::unique_ptr<device::Device> {
                return std::make_unique<BuggyDevice>(device::make_host_device(1), faults, &held);
              }};
  World world = bench.world(2, 21);
  Oracle oracle{world};
  BuggyDevice& device() { return static_cast<BuggyDevice&>(bench.engine->device()); }

  /// One trial; the oracle must find something that contains `words`.
  void expect(const Operation& operation, const FaultPlan& plan, std::string_view words) {
    ASSERT_TRUE(oracle.learn(operation)) << all(oracle);
    oracle.trial(operation, plan);
    EXPECT_TRUE(reported(oracle, words)) << "wanted: " << words << "\nreported:\n" << all(oracle);
    EXPECT_LT(oracle.totals().unchanged, oracle.totals().injected);
  }
};

const Operation kChunk = chunk({{7, 2, 300}});
constexpr FaultPlan kRefused{.kind = FaultKind::launch, .at = 40, .persistent = true};

TEST(Canary, AByteScribbledIntoAPublicBankIsReported) {
  Canary canary;
  canary.device().on_failure = [&](device::Device& inner) {
    const auto view = canary.bench.engine->store().view(canary.world.sessions[0]);  // the fork shares it
    const state::BankSlice& slice = canary.bench.engine->store().layout().slice(state::Owner::gdn_state);
    auto* at = const_cast<std::byte*>(view->bank()) + slice.offset + slice.bytes / 2;
    std::byte byte;
    CHECK(inner.download({&byte, 1}, at).ok());
    byte ^= std::byte{1};
    CHECK(inner.upload(at, {&byte, 1}).ok());
    canary.device().on_failure = nullptr;
  };
  canary.expect(kChunk, kRefused, "after the failure, session 0: gdn_state");
}

TEST(Canary, AByteScribbledIntoAPublicPageIsReported) {
  Canary canary;
  canary.device().on_failure = [&](device::Device& inner) {
    const auto view = canary.bench.engine->store().view(canary.world.sessions[1]);  // not even the one at work
    CHECK(inner.fill(view->pages()[0] + canary.bench.engine->store().layout().page[0].offset, 0x11, 1).ok());
  };
  canary.expect(kChunk, kRefused, "session 1: kv_rows");
}

TEST(Canary, AFailedCompletionThatNobodyReportsIsReported) {
  Canary canary;
  canary.device().swallow = true;
  canary.expect(kChunk, {.kind = FaultKind::completion, .at = 40, .persistent = true}, "the operation claims success");
}

TEST(Canary, ALaunchThatDidNotRunAndClaimsToIsReported) {
  Canary canary;
  canary.device().forget_rows = true;
  canary.expect(kChunk, {.kind = FaultKind::launch, .at = 40}, "after the clean run, session 0: ");
}

TEST(Canary, AMissingRetryIsReported) {
  Canary canary;
  Operation twice = kChunk;
  twice.run = [](World& world, std::span<const size_t> which) {
    auto statuses = kChunk.run(world, which);
    if (world.faults->fired() > 0) statuses = Error{Code::device, "given up"};
    return statuses;
  };
  canary.expect(twice, {.kind = FaultKind::launch, .at = 40}, "was to be absorbed");
}

TEST(Canary, AViewHeldAfterAFailureIsReportedAsALeak) {
  Canary canary;
  state::View kept;
  Operation leaky = kChunk;
  leaky.run = [&](World& world, std::span<const size_t> which) {
    auto view = world.engine->store().view(world.sessions[0]);
    auto statuses = kChunk.run(world, which);
    if (!statuses.ok()) kept = std::move(*view);
    return statuses;
  };
  canary.expect(leaky, kRefused, "in use: ");
  kept = {};
}

TEST(Canary, ASessionLeftBehindIsReported) {
  Canary canary;
  Operation leaky = kChunk;
  leaky.run = [](World& world, std::span<const size_t> which) {
    auto statuses = kChunk.run(world, which);
    if (!statuses.ok()) world.sessions.push_back(*world.engine->open());
    return statuses;
  };
  canary.expect(leaky, kRefused, "left a session behind");
}

TEST(Canary, AWrittenBufferIsReported) {
  Canary canary;
  Operation writes = kChunk;
  writes.run = [](World& world, std::span<const size_t> which) {
    world.buffer[3] = 7;
    return kChunk.run(world, which);
  };
  canary.expect(writes, kRefused, "wrote to the caller's buffer");
}

TEST(Canary, AnOperationThatRemembersItsFailureIsReported) {
  Canary canary;
  Operation remembers = kChunk;
  bool failed = false;
  remembers.run = [&](World& world, std::span<const size_t> which) {
    auto statuses = failed ? chunk({{7, 2, 301}}).run(world, which) : kChunk.run(world, which);
    failed = !statuses.ok();
    return statuses;
  };
  canary.expect(remembers, kRefused, "after the clean run, session 0: tokens");
}

TEST(Canary, ANeighbourThatFailsTooIsReported) {
  Canary canary;
  const Operation both = chunk({{7, 2}, {300}});
  Operation drops_all = both;
  drops_all.run = [&](World& world, std::span<const size_t> which) -> Result<std::vector<Status>> {
    const FaultPlan plan = world.faults->plan();
    if (which.size() == 2 && plan.kind == FaultKind::non_finite) {
      for (int i = 0; i < 60; ++i) world.faults->fires(FaultKind::non_finite);
      return Error{Code::non_finite, "somewhere"};
    }
    return both.run(world, which);
  };
  canary.expect(drops_all, {.kind = FaultKind::non_finite, .at = 50}, "session 1 should not have");
}

TEST(Canary, AWrongCodeIsReported) {
  Canary canary;
  Operation renamed = kChunk;
  renamed.run = [](World& world, std::span<const size_t> which) {
    auto statuses = kChunk.run(world, which);
    if (!statuses.ok()) statuses = Error{Code::busy, "try later"};
    return statuses;
  };
  canary.expect(renamed, kRefused, "is reported as busy; wanted device");
}

TEST(Canary, AFaultThatNeverStrikesIsReported) {
  Canary canary;
  canary.expect(kChunk, {.kind = FaultKind::launch, .at = 1000000}, "never struck");
}

}  // namespace
}  // namespace evros::sim
