// The declared fault model: what may go wrong underneath the engine, and what it must survive. sim/ never injects more
// than this, and everything here is injected.
//
// Survived, with the public digests unchanged (docs/state.md, S2) and the next clean run equal to the never-failed one
// (S7):
//
//   device   an allocation is refused. An upload, download, copy or fill fails and leaves rubbish in the first half of
//   its
//            target. A launch is refused. A launch runs, leaves rubbish that is finite, and its failure surfaces at the
//            next finish(). A status word is set after a stage, a bit that no kernel knows included. A value of a
//            stage's output becomes NaN, +inf or -inf, in the first or the last row. Somebody cancels, between any two
//            stages. The device is lost, with everything on it, before any of its calls (loss_test.cc).
//   files    open fails. A read fails; ends early and leaves rubbish in the first half of its target; comes late.
//   Create,
//            write (half of it done), truncate, sync, rename, remove and the sync of a folder fail.
//   process  it dies before or in the middle of any step that changes a file (the step's half is done). What was
//   written and
//            not synced may be there, or not, or in part (crash_io.h).
//   memory   operator new throws on the thread that runs the engine.
//
// A fault happens once, or from its time on always. One that no sequence is to blame for and that the device reports is
// retried once by the engine: happening once, it must not be seen by the caller at all.
//
// Declared and not survived: a byte of a file that changed under way, where the file has no checksum for it. Neither
// GGUF nor safetensors has any, so a corrupt weight or a corrupt row of the n-gram table is another model, and the
// engine does not claim to notice (RowStore in pages/row_store.h). Snapshot files carry digests; there a corrupt byte
// is refused.
//
// Not in the model: memory of the host or of a device that changes after the finite check has read it, kernels that
// write wrong finite values, exceptions of worker threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace evros::sim {

enum class FaultKind : uint8_t {
  // device
  loss,  // of the device and all its memory, before one of its calls; for good
  allocate,
  upload,
  download,
  copy,
  fill,
  launch,       // refused, nothing ran
  completion,   // the launch's failure surfaces at the next finish()
  status_word,  // OR-ed after a launch
  non_finite,   // written after a launch; one occurrence for each block of its outputs
  cancel,       // the flag is set after a launch
  observe,      // the observer between the stages returns an error
  // files
  open,
  read_error,
  read_short,
  read_late,
  read_corrupt,
  create,
  write,
  truncate,
  sync,
  rename,
  remove,
  sync_folder,
  death,  // of the process, before a step that changes a file
  // host
  host_memory,
};
constexpr int kFaultKinds = static_cast<int>(FaultKind::host_memory) + 1;
std::string_view fault_name(FaultKind kind);

/// One fault of a run: the `at`-th occurrence (from 0) of `kind` after arm().
struct FaultPlan {
  FaultKind kind = FaultKind::allocate;
  uint64_t at = 0;
  bool persistent = false;  // that occurrence and all later ones
  bool last_row = false;    // non_finite, status_word: the last row or sequence instead of the first
  float value = std::numeric_limits<float>::quiet_NaN();  // non_finite
  uint32_t word = 0x80000000;                             // status_word
};
std::string describe(const FaultPlan& plan);

/// What is allocated or open and not given back yet: a failed load must bring it to zero.
struct Held {
  std::atomic<int64_t> buffers{0}, files{0};
};

/// Counts occurrences and says which of them is the fault. Shared by the decorators of one engine. Any thread may ask;
/// arm and disarm belong to the thread that drives the test, while nothing else runs.
class Faults {
 public:
  /// From now on occurrences are counted from 0 and the plan holds.
  void arm(const FaultPlan& plan);
  /// Counts from 0 without any fault.
  void count();
  /// No faults and no counting: how oracles look at things.
  void disarm();
  /// One more occurrence of `kind`: is it to fail? Never allocates.
  bool fires(FaultKind kind) noexcept;
  uint64_t occurrences(FaultKind kind) const { return counts_[static_cast<size_t>(kind)].load(); }
  /// How often the plan has struck since arm().
  uint64_t fired() const { return fired_.load(); }
  const FaultPlan& plan() const { return plan_; }
  /// What a run under test hands to the engine as its cancel flag; cleared by arm, count and disarm.
  std::atomic<bool>& cancel_flag() { return cancel_; }

 private:
  void start(bool counting, bool armed);
  FaultPlan plan_;
  std::array<std::atomic<uint64_t>, kFaultKinds> counts_{};
  std::atomic<uint64_t> fired_{0};
  std::atomic<bool> counting_{false}, armed_{false}, cancel_{false};
};

}  // namespace evros::sim
