// evros verify: proves on a user's own model and machine what docs/state.md and docs/numerics.md promise, within a time
// budget: every way of cutting, mixing, forking, rewinding and restoring a history gives the same digests of every
// owner, and a sample of the faults of sim/ changes nothing. What the budget did not reach is said, not passed over.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "engine/engine.h"
#include "io/io.h"

namespace evros::ops {

struct VerifyOptions {
  engine::EngineOptions engine;  // numerics, kv, kernels, threads, table; sizes are chosen by verify
  double budget_seconds = 60;
  int64_t tokens =
      0;              // of the longest text, 24 up to 16 less than the model's context; 0: as many as the budget allows
  uint64_t seed = 1;  // of the texts and of the random cuts
  /// Opens the device that is verified; unset: engine.device says which. Anything but the CPU is also compared with the CPU.
  std::function<Result<std::unique_ptr<device::Device>>()> open;
};

enum class Outcome { passed, failed, not_checked };

/// One line of the table.
struct VerifyRow {
  std::string check;
  std::string proves;  // invariants: "S3"
  Outcome outcome = Outcome::not_checked;
  uint64_t cases = 0;  // comparisons that were made
  std::string note;    // what failed first, or why it was not checked
};

/// How often an owner's digest was compared, and how often it was equal.
struct VerifyOwner {
  std::string owner;
  uint64_t compared = 0, equal = 0;
};

struct VerifyReport {
  std::string model, identity, numerics, kernels, device;
  int64_t tokens = 0;  // of the longest text
  std::vector<VerifyRow> rows;
  std::vector<VerifyOwner> owners;
  /// Of the longest text, run alone: the same on every machine and build for equal model, numerics, seed and tokens.
  engine::Digests digests;
  uint64_t faults = 0, faults_unchanged = 0;
  double seconds = 0;

  bool passed() const;  // something passed and nothing failed (what was not checked counts for neither)
};

/// An error when the model cannot be opened or run at all; a failed check is a row of the report.
Result<VerifyReport> verify(io::Io& io, const std::string& path, const VerifyOptions& options,
                            const Progress& progress);

}  // namespace evros::ops
