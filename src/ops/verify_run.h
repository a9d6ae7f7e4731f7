// The running part of verify: one engine, histories run in different ways, digests compared per owner. Internal to
// verify*.cc.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "ops/verify.h"

namespace evros::ops {

/// Sequences that are alive at once: four interleaved ones, and the forks and restored ones beside them.
constexpr int32_t kVerifySessions = 6, kVerifyBatch = 4;

class VerifyRun {
 public:
  VerifyRun(io::Io& clock, const VerifyOptions& options, VerifyReport& report, const Progress& progress)
      : clock_(clock), options_(options), report_(report), progress_(progress), start_(clock.now_ns()) {}

  void use(engine::Engine& engine) { engine_ = &engine; }
  engine::Engine& engine() { return *engine_; }
  const VerifyOptions& options() const { return options_; }
  VerifyReport& report() { return report_; }
  double seconds() const { return static_cast<double>(clock_.now_ns() - start_) * 1e-9; }
  bool out_of_time() const { return seconds() > options_.budget_seconds; }

  /// Adds a row: runs `body` unless the time is over. A body that returns an error fails the row with its sentence.
  void check(const std::string& name, const std::string& proves, const std::function<Status(VerifyRow& row)>& body);
  void skip(const std::string& name, const std::string& proves, const std::string& why);

  /// Counts a comparison; a difference becomes the row's failure, `what` saying where.
  void compare(VerifyRow& row, const engine::Digests& seen, const engine::Digests& wanted, const std::string& what);

  /// Appends `tokens` to the session in chunks of the given sizes, which add up to them.
  Status feed(engine::SessionId session, std::span<const int32_t> tokens, std::span<const int64_t> cuts);
  /// Digests of `tokens` run in a session of its own, cut so.
  Result<engine::Digests> solo(std::span<const int32_t> tokens, std::span<const int64_t> cuts);
  /// All at once, or in chunks of the engine's largest.
  Result<engine::Digests> solo(std::span<const int32_t> tokens);

 private:
  io::Io& clock_;
  const VerifyOptions& options_;
  VerifyReport& report_;
  const Progress& progress_;
  uint64_t start_;
  engine::Engine* engine_ = nullptr;
};

/// A session that closes itself.
class Scoped {
 public:
  Scoped(engine::Engine& engine, Result<engine::SessionId> opened) : engine_(engine), opened_(std::move(opened)) {}
  ~Scoped() {
    if (opened_.ok()) static_cast<void>(engine_.close(*opened_).ok());
  }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  Status status() const { return opened_.ok() ? Status{} : Status{opened_.error()}; }
  engine::SessionId id() const { return *opened_; }

 private:
  engine::Engine& engine_;
  Result<engine::SessionId> opened_;
};

using Texts = std::vector<std::vector<int32_t>>;

/// The partition table: cuts, EOS borders, mixed batches, turns that alternate. `wanted[i]` are the digests of texts[i].
void verify_partitions(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted);
/// The same on the CPU, `cpu`, and on the device of the run: every owner, every logit, snapshots that go from one to the other
/// and back. `wanted` comes from the CPU.
void verify_devices(VerifyRun& run, engine::Engine& cpu, const Texts& texts,
                    const std::vector<engine::Digests>& wanted);
/// Fork, rewind, snapshot and restore, the same prompt again, refusals.
void verify_operations(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted);

}  // namespace evros::ops
