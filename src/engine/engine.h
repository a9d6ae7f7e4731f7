// The engine: a model made resident, sequences of tokens, and chunks as transactions. This is the C++ API.
//
//   EVROS_ASSIGN(auto engine, Engine::load(io::real_io(), "model.gguf", {}));
//   EVROS_ASSIGN(SessionId session, engine->open());
//   EVROS_TRY(engine->append(session, prompt));          // all of it published, or nothing
//   EVROS_TRY(engine->logits(session, logits));          // of the newest token
//   EVROS_TRY(engine->rewind(session, 10));              // to any position, as if the rest had never been
//   EVROS_TRY(engine->save(session, "talk.evros"));      // and restore() in another process goes on with the same bits
//
// Thread rule: one thread at a time, whatever the method; others may set the flag that cancels. (A scheduler with a
// thread of its own is what shares an engine; state::Store allows more, but a view that somebody holds keeps banks from
// their reuse, and the plan has none to spare.) Effect of failure, for every method: an error, a
// cancellation included, leaves every session and every caller's buffer as they were.
//
// A device that is lost with all its memory (device::Device::lost) costs time: the call that finds out, or the next one,
// opens it again or goes on on the CPU, loads the weights, and computes every session from its tokens, which lie on the
// host; the bits are the same. Checkpoints are gone then. If that fails the call's error says why, sessions keep their
// tokens, and the next call tries again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/plan.h"
#include "format/model_file.h"
#include "io/io.h"
#include "model/pass.h"
#include "pages/row_store.h"
#include "state/store.h"

namespace evros::engine {

/// Address of a sequence; stale after close().
using SessionId = state::SlotId;
/// Address of a checkpoint; stale after release() and when its session leaves it behind (state::Store::checkpoint).
using CheckpointId = state::CheckpointId;

struct EngineOptions {
  std::string numerics = "N1";  // or "N1-f32"
  std::string kv = "f16";       // K/V cache type: f32, f16, bf16
  std::string kernels;          // table by name; empty: the fastest that this machine runs
  int threads = 0;              // 0: one per core
  int64_t context = 0;        // longest sequence in tokens; 0: the model's own, kDefaultContext, or what fits in memory
  int32_t sessions = 1;       // sequences alive at once
  int64_t pool_tokens = 0;    // tokens of all sequences together; 0: pool_contexts says
  int32_t pool_contexts = 0;  // whole contexts that all sequences may hold together; 0: each may fill its own
  int32_t checkpoints = 0;    // held at once; each costs a bank and a page
  int32_t batch = 1;          // sequences in one chunk at most
  int32_t chunk = 128;        // tokens in one chunk at most, all sequences together
  bool all_logits = false;    // observers may ask for the logits of every row (costs chunk x vocabulary floats)
  bool draft_head = false;    // makes the MTP head's weights resident too; nothing drafts with it yet (model/mtp.h)
  bool trace = false;         // observers may read what the PLE adds
  pages::RowStoreOptions table;  // how the n-gram table is kept
  std::string device = "cpu";    // or "cuda" (an error where there is none), or "auto" (then the CPU)
  /// Opens the device again after it was lost, or says why it cannot; unset: the engine goes on on the CPU. load() by name
  /// sets it for the GPU.
  std::function<Result<std::unique_ptr<device::Device>>()> reopen;
  /// Hears of what costs speed and nothing else: why there is no GPU, that a device was lost and where it goes on. One
  /// sentence each, on the engine's thread; may be unset.
  std::function<void(const std::string& sentence)> notice;
  uint64_t memory_bytes = 0;  // what the process may have resident in all; 0: what io::measure_memory() finds
  uint64_t caller_bytes = 0;  // of it, what the caller takes beside the engine: requests, results
  Progress progress;          // of load(), in bytes of weights
  /// load() calls it before it takes memory or refuses.
  std::function<void(const Plan&)> on_plan;
};
constexpr int64_t kDefaultContext = 32768;

constexpr const char* kTableName = "per_layer_token_embd.weight";

/// What was asked for and what was done; inspect and run print it.
struct EngineInfo {
  std::string model, container, numerics;
  std::string kernels, device;  // of the device that it runs on now
  int threads = 0;
  Plan plan;
};

/// Values of EngineOptions::kernels that this machine can run, slowest first.
std::vector<std::string> kernel_names();

/// One sequence's tokens in a chunk.
struct ChunkRow {
  SessionId session;
  std::span<const int32_t> tokens;  // at least one, each below the vocabulary
};

/// Called between the stages of a chunk, on the running thread: `next` is about to run, null after the last. An error
/// stops the chunk there and drops it.
using Observer = std::function<Status(const model::Pass& pass, const model::Stage* next)>;

struct ChunkOptions {
  bool all_logits = false;                    // needs EngineOptions::all_logits
  const std::atomic<bool>* cancel = nullptr;  // looked at before every stage
  const Observer* observer = nullptr;
};

/// Digests of all owners of a session (docs/state.md "Digests"), 32 hexadecimal digits each, with the numerics id mixed
/// in: equal for equal histories, wherever and however they were computed.
struct Digests {
  struct Entry {
    std::string owner, hex;
  };
  std::string numerics;
  std::vector<Entry> owners;  // in the order of state::Owner
  std::string combined;       // one over all owners but mtp_rows
};

class Engine {
 public:
  /// Opens the model (headers), checks that it can run here and that it fits (check_fits()), and makes its weights
  /// resident.
  static Result<std::unique_ptr<Engine>> load(io::Io& io, const std::string& path, const EngineOptions& options);
  /// The same on a given device instead of options.device; kernels must be able to run there.
  static Result<std::unique_ptr<Engine>> load(io::Io& io, std::unique_ptr<device::Device> device,
                                              const std::string& path, const EngineOptions& options);
  ~Engine();

  const EngineInfo& info() const;
  const format::ModelFile& file() const;
  const model::Model& model() const;
  device::Device& device() const;
  /// The tensor that every address of model().weights holds; they move when a device is lost.
  const std::map<const std::byte*, std::string>& weight_names() const;
  const state::Store& store() const;
  /// Frames of the n-gram table that somebody holds: zero between calls.
  int32_t table_frames_held() const;

  /// A new empty session; Code::busy when all are taken.
  Result<SessionId> open();
  Status close(SessionId session);
  Status reset(SessionId session);
  /// A second session with the same history; copies nothing.
  Result<SessionId> fork(SessionId session);

  /// Holds the session's image, so that rewinding to it or beyond it costs no replay up to there. Copies nothing.
  Result<CheckpointId> checkpoint(SessionId session);
  Status release(CheckpointId checkpoint);

  /// Tokens that the session holds.
  Result<int64_t> frontier(SessionId session) const;
  Result<std::vector<int32_t>> tokens(SessionId session) const;
  /// Logits of the newest token into `out` [vocab]; Code::invalid_argument for a session without tokens.
  Status logits(SessionId session, std::span<float> out) const;

  /// Runs one transaction over the rows: each row's status, or an error for all of them. A row that failed was dropped;
  /// the others are published. A fault of the device that no row is to blame for (Code::device) is retried once, so
  /// that `observer` may see the stages twice.
  Result<std::vector<Status>> run_chunk(std::span<const ChunkRow> rows, const ChunkOptions& options = {});

  /// Appends any number of tokens. Refused before any work when they cannot fit. What needs more than one chunk is
  /// computed in a hidden sequence and shown at once; `options` hold for each chunk.
  Status append(SessionId session, std::span<const int32_t> tokens, const ChunkOptions& options = {});

  /// The session becomes what it was after its first `n` tokens, 0 <= n <= frontier, logits included; bit for bit what
  /// a session is that never had more. The tokens since the nearest checkpoint (of any session with that beginning), or
  /// since the start, are computed again, hidden; n == frontier does nothing.
  Status rewind(SessionId session, int64_t n, const ChunkOptions& options = {});

  /// rewind(keep) and append(tokens) in one step: the session goes from the old history to the new one, or stays.
  /// Returns how many of the first `keep` tokens needed no computing.
  Result<int64_t> rewrite(SessionId session, int64_t keep, std::span<const int32_t> tokens,
                          const ChunkOptions& options = {});

  /// Reads everything that the session owns: 150 MB and more for a real model.
  Result<Digests> digests(SessionId session) const;

  /// Writes the session and `attachment` (bytes of the caller's, at most 64 MiB) as one file that is whole or not there
  /// (S9). The session stays as it is.
  Status save(io::Io& io, SessionId session, const std::string& path, std::string_view attachment = {});
  /// A new session, or the given one instead of what it held, from a file; it goes on with the same bits. Everything in
  /// the file is checked first: damage is bad_file; another model, other numerics (K/V type included) or a longer
  /// history than the context are refused. Returns the attachment.
  struct Restored {
    SessionId session;
    std::string attachment;
  };
  Result<Restored> restore(io::Io& io, const std::string& path);
  Result<std::string> restore(io::Io& io, const std::string& path, SessionId session);

  /// SHA-256 of what makes the model this model (docs/state.md "Model identity"), 64 hexadecimal digits. Reads 8 KiB of
  /// each tensor the first time.
  Result<std::string> model_identity();

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  /// Appends chunk by chunk, publishing each.
  Status append_chunks(SessionId session, std::span<const int32_t> tokens, const ChunkOptions& options);
  /// Puts the file's image into the spare sequence; returns the attachment.
  Result<std::string> restore_spare(io::Io& io, const std::string& path);
  /// Makes `history` and `tokens` in the spare sequence and lets that replace the image that was `seen`.
  Result<int64_t> rewrite_hidden(SessionId session, uint64_t seen, std::vector<int32_t> history,
                                 std::span<const int32_t> tokens, const ChunkOptions& options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace evros::engine
