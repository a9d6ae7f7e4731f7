// The engine: a model made resident, sequences of tokens, and chunks as transactions. This is the C++ API.
//
//   EVROS_ASSIGN(auto engine, Engine::load(io::real_io(), "model.gguf", {}));
//   EVROS_ASSIGN(SessionId session, engine->open());
//   EVROS_TRY(engine->append(session, prompt));          // prefill in chunks, each published or not there at all
//   EVROS_TRY(engine->logits(session, logits));          // of the newest token
//
// Thread rule: one thread at a time runs chunks (append, run_chunk); every other method may be called from any thread
// while it does. Effect of failure: an error leaves every session and every caller's buffer as they were, except that
// append() keeps the chunks that it had already published.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

struct EngineOptions {
  std::string numerics = "N1";   // or "N1-f32"
  std::string kv = "f16";        // K/V cache type: f32, f16, bf16
  std::string kernels;           // table by name; empty: the fastest that this machine runs
  int threads = 0;               // 0: one per core
  int64_t context = 0;           // longest sequence in tokens; 0: the model's own, or kDefaultContext if that is less
  int32_t sessions = 1;          // sequences alive at once
  int32_t batch = 1;             // sequences in one chunk at most
  int32_t chunk = 128;           // tokens in one chunk at most, all sequences together
  bool all_logits = false;       // observers may ask for the logits of every row (costs chunk x vocabulary floats)
  bool trace = false;            // observers may read what the PLE adds
  pages::RowStoreOptions table;  // how the n-gram table is kept
};
constexpr int64_t kDefaultContext = 32768;

constexpr const char* kTableName = "per_layer_token_embd.weight";

/// What was asked for and what was done; inspect and run print it.
struct EngineInfo {
  std::string model, container, numerics, kernels, device;
  int threads = 0;
  Plan plan;
};

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

class Engine {
 public:
  /// Opens the model (headers), checks that it can run here and that it fits, and makes its weights resident.
  static Result<std::unique_ptr<Engine>> load(io::Io& io, const std::string& path, const EngineOptions& options);
  /// The same on a given device instead of the machine's cores; kernels must be able to run there.
  static Result<std::unique_ptr<Engine>> load(io::Io& io, std::unique_ptr<device::Device> device,
                                              const std::string& path, const EngineOptions& options);
  ~Engine();

  const EngineInfo& info() const;
  const format::ModelFile& file() const;
  const model::Model& model() const;
  device::Device& device() const;
  const state::Store& store() const;

  /// A new empty session; Code::busy when all are taken.
  Result<SessionId> open();
  Status close(SessionId session);
  Status reset(SessionId session);
  Result<SessionId> fork(SessionId session);

  /// Tokens that the session holds.
  Result<int64_t> frontier(SessionId session) const;
  Result<std::vector<int32_t>> tokens(SessionId session) const;
  /// Logits of the newest token into `out` [vocab]; Code::invalid_argument for a session without tokens.
  Status logits(SessionId session, std::span<float> out) const;

  /// Runs one transaction over the rows: each row's status, or an error for all of them. A row that failed was dropped;
  /// the others are published. A fault of the device that no row is to blame for (Code::device) is retried once, so
  /// `observer` may see the stages twice.
  Result<std::vector<Status>> run_chunk(std::span<const ChunkRow> rows, const ChunkOptions& options = {});

  /// Appends any number of tokens in chunks. Refused before any work when they cannot fit.
  Status append(SessionId session, std::span<const int32_t> tokens, const ChunkOptions& options = {});

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace evros::engine
