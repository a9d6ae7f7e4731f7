// The one oracle of all fault tests: S2 (after a failure every public digest and the caller's buffers are what they
// were) and then S7 (the same operation, run clean afterwards, gives what the never-faulted run gives), both by the
// digests of docs/state.md over the canonical bytes of every owner of every session.
//
// What it does not see: scratch and private images (nobody may read them), request state above the engine, timing.
//
// Thread rule: one thread; nothing else uses the engine meanwhile.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "engine/engine.h"
#include "sim/fault_plan.h"

namespace evros::sim {

/// One digest per owner, in the order of state::Owner; those a model does not have are digests of nothing.
using Digests = std::array<Digest, state::kOwnerCount>;

/// The tree digests of a session's public image in canonical byte order, read through a view and the engine's device.
Result<Digests> digests_of(const engine::Engine& engine, engine::SessionId session);

/// What an operation may change: sessions, and a buffer of the caller's.
struct World {
  engine::Engine* engine = nullptr;
  Faults* faults = nullptr;
  std::vector<engine::SessionId> sessions;
  std::vector<float> buffer;
};

/// One call of the engine's API, repeatable: given equal images and equal `which` it must do the same.
struct Operation {
  std::string name;
  /// Does its work for those of its sessions that `which` names (places in World::sessions, ascending) and says how
  /// each went, or an error for all. May add sessions to the world when it succeeds. Passes
  /// World::faults->cancel_flag() on.
  std::function<Result<std::vector<Status>>(World& world, std::span<const size_t> which)> run;
  std::vector<size_t> which{0};               // the sessions it works on
  bool retried = false;                       // a device fault that happens once is absorbed by the engine's retry
  std::function<void(World& world)> prepare;  // before every run, faults off; may be empty
};

struct Totals {
  uint64_t injected = 0;  // faults that struck
  uint64_t unchanged =
      0;  // after which S2 and S7 held; for an absorbed fault: the digests of the never-faulted run at once
  uint64_t absorbed = 0;  // among them: the operation succeeded all the same
};

/// Tries faults on forks of a world, so that the world itself stays where it is and is itself watched.
class Oracle {
 public:
  /// The engine's Io and device are decorators that ask `world.faults`. Needs as many free slots as the world has
  /// sessions. Both outlive it.
  explicit Oracle(const World& world) : start_(world) {}

  /// Runs the operation clean and keeps what comes out and how often each kind of fault could have struck. False and a
  /// finding when it fails.
  bool learn(const Operation& operation);
  uint64_t occurrences(FaultKind kind) const { return counts_[static_cast<size_t>(kind)]; }

  /// One fault on the operation that was learned. Appends to findings() what did not hold.
  void trial(const Operation& operation, const FaultPlan& plan);

  /// Every occurrence from the first on, `stride` apart, each once and then persistently.
  void exhaust(const Operation& operation, FaultPlan plan, uint64_t stride = 1);

  const std::vector<std::string>& findings() const { return findings_; }
  const Totals& totals() const { return totals_; }

 private:
  struct Snapshot {  // of a world, as digests
    std::vector<Digests> sessions;
    std::vector<float> buffer;
  };
  struct Attempt {             // what a faulted run did to the forks
    std::vector<bool> failed;  // by place in the world
    bool any_failed = false, any_passed = false;
    std::optional<Code> code;
  };
  World forked();
  void close(World& world);
  Snapshot look(const World& world);
  Attempt attempt(const Operation& operation, const FaultPlan& plan, World& world);
  void expect_outcome(const Operation& operation, const FaultPlan& plan, const Attempt& attempt);
  void expect_images(const char* when, const Snapshot& seen, const Snapshot& wanted, const std::vector<bool>* only,
                     bool value);
  void expect_usage(const char* when, const state::Usage& before);
  void finding(std::string what);

  const World& start_;
  Snapshot original_, clean_;
  std::array<uint64_t, kFaultKinds> counts_{};
  std::string about_;  // the trial at hand, for findings
  bool clear_ = true;  // nothing was found in it so far
  std::vector<std::string> findings_;
  Totals totals_;
};

/// Every kind that a running chunk can meet, with each value of NaN and infinity and both rows where the kind has rows.
std::vector<FaultPlan> chunk_faults();

}  // namespace evros::sim
