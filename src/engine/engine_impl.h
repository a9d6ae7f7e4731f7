// What is behind Engine. Internal to engine/.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "engine/engine.h"
#include "engine/forward.h"
#include "engine/weight_loader.h"
#include "state/digest.h"
#include "state/snapshot.h"

namespace evros::engine {

/// Raw digests under the names and the numerics id that callers see.
Digests name_digests(const std::string& numerics, const std::vector<state::OwnerDigest>& all);
/// std::bad_alloc crosses folders and ends at the entries of engine.h, as this error. What it unwound was private, so
/// nothing has to be restored. The sentence is short enough to need no memory itself.
inline Error no_memory() { return {Code::out_of_memory, "out of memory"}; }

/// For entries that are one call; longer ones are function-try-blocks.
template <typename Work>
auto guarded(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

struct Engine::Impl {
  EngineOptions options;
  EngineInfo info;
  std::unique_ptr<format::ModelFile> file;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<WeightLoader> weights;
  std::unique_ptr<pages::RowStore> table;
  model::Model model;
  std::unique_ptr<state::Store> store;
  std::unique_ptr<Forward> forward;
  /// A sequence that no caller knows: what takes more than one publication is done here and then replaces the session's
  /// image. Its content between calls is nobody's; whoever needs it gives it an image first.
  SessionId spare;
  std::optional<Sha256Digest> identity;  // of the model, once somebody asked

  int64_t losses = 0;  // devices that were lost

  /// Makes what lies on a device, there: weights, state (with the addresses of `lost`, when that is given) and scratch. The
  /// model points to the new weights and kernels.
  struct Residence {
    std::unique_ptr<device::Device> device;
    std::unique_ptr<WeightLoader> weights;
    std::unique_ptr<state::Store> store;
    std::unique_ptr<Forward> forward;
  };
  Result<Residence> move_to(std::unique_ptr<device::Device> to, const state::Store* lost);
  void settle(Residence home);
  /// After this the device is not lost and every session has its image; or why not (recovery.cc).
  Status present();
  Status recover(std::unique_ptr<device::Device> to);
  /// `work`, which a loss of the device stops, once more after such a loss.
  template <typename Work>
  auto surviving(const Work& work) -> decltype(work()) {
    EVROS_TRY(present());
    auto result = work();
    if (result.ok() || !device->lost()) return result;
    EVROS_TRY(present());
    return work();
  }

  /// Appends `tokens` to a session in chunks, each by run_one(ChunkRow) -> Result<std::vector<Status>>; the first that fails
  /// ends it.
  template <typename Run>
  Status in_chunks(SessionId session, std::span<const int32_t> tokens, const Run& run_one) const {
    const auto chunk = static_cast<size_t>(options.chunk);
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      EVROS_ASSIGN(const std::vector<Status> statuses,
                   run_one(ChunkRow{session, tokens.subspan(at, std::min(chunk, tokens.size() - at))}));
      EVROS_TRY(statuses[0]);
    }
    return {};
  }

  /// Error unless each is an id of the vocabulary.
  Status check_tokens(std::span<const int32_t> tokens) const;
  /// Raw ids before the public frontier, newest first, as ForwardRow wants them.
  Result<std::vector<int64_t>> history(const state::Store& in, SessionId session) const;
  Result<state::SnapshotIdentity> snapshot_identity();
  /// View::changed() of the session.
  Result<uint64_t> image_number(SessionId session) const;
  /// One transaction over the rows: begin, stages, publish. An error left nothing behind.
  Result<std::vector<Status>> attempt(state::Store& in, Forward& on, std::span<const ChunkRow> rows,
                                      const ChunkOptions& chunk);
  /// The same, and once more from the start when the device, which is not lost, reports a failure.
  Result<std::vector<Status>> transact(state::Store& in, Forward& on, std::span<const ChunkRow> rows,
                                       const ChunkOptions& chunk);
  /// Gives the spare the longest image known that is the session's first tokens, at most `most`; returns how many.
  Result<int64_t> start_spare(SessionId session, int64_t most);
};

}  // namespace evros::engine
