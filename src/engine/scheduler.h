// Many requests on one engine: continuous batching, admission, reuse of earlier prompts. One thread runs the engine; any
// thread may hand in requests, cancel them and read the numbers.
//
//   Scheduler scheduler(*engine, io, tokenizer, {});
//   std::thread worker([&] { scheduler.run(); });
//   EVROS_ASSIGN(RequestId id, scheduler.submit(std::move(request), listener));   // or refused, with numbers
//   scheduler.drain(); worker.join();
//
// Each request works on sequences of its own, which nobody else sees: a failed, cancelled or refused request costs exactly
// itself (docs/state.md). What requests have computed stays as *kept* sequences: a prompt that begins with all tokens of a
// kept one starts from it. Kept sequences are forks, so keeping copies nothing; the one that was used least recently gives
// way when a slot or pages are needed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/reply.h"
#include "engine/reply_state.h"
#include "io/io.h"
#include "text/tokenizer.h"

namespace evros::engine {

/// Names a request for as long as the process lives; never 0.
using RequestId = uint64_t;

/// One prompt and one or more replies to it. Protocols are made into this; nothing below knows them.
struct Request {
  std::vector<int32_t> prompt;  // at least one token
  ReplyParams reply;            // sampling.choice is set per reply
  int32_t n = 1;                // replies, numbered from 0: reply i draws as sampling.choice = i
  /// Lengths of the prompt's beginnings that later prompts are likely to share (where a message ends): kept like the whole
  /// prompt is. Ascending, each between 1 and the prompt's length.
  std::vector<int64_t> keep_at;
  uint64_t deadline_ns = 0;  // on the clock of Io; 0: none. Code::timeout when it passes
};

/// The prompt has been computed, or reused.
struct Started {
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;  // of them taken from a kept sequence
  /// How many first tokens the prompt shares with the kept sequence most like it, when that is more than could be reused: where
  /// the two part. -1: nothing kept shares more than was reused.
  int64_t diverged_at = -1;
  uint64_t queue_ns = 0, prefill_ns = 0;
};

/// A reply has ended; nothing more comes for it.
struct ReplyEnd {
  int32_t choice = 0;
  Finish finish = Finish::length;
  int32_t stop = -1;            // Finish::stop_string: which of ReplyParams::stop
  int64_t tokens = 0;           // drawn, the stop token not among them
  int64_t thinking_tokens = 0;  // of them inside thinking
};

/// Who is told about a request. Called by the engine's thread, which waits: return soon, throw nothing, call no method of
/// Scheduler but wake(), cancel() and drain(). started(); then piece() and ended() by reply, replies interleaved; then done() once; or
/// failed() once at any point. Nothing comes after done() or failed(), or once cancel() has returned and the chunk that was
/// running then has ended (failed() with Code::cancelled is the last).
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void started(const Started& started) = 0;
  virtual void piece(int32_t choice, const Piece& piece) = 0;
  virtual void ended(const ReplyEnd& end) = 0;
  virtual void done() = 0;
  virtual void failed(const Error& error) = 0;
  /// False: nothing is drawn for this request until Scheduler::wake() was called and it says true. For readers that are slow.
  virtual bool has_room() const { return true; }
};

struct SchedulerOptions {
  int32_t queue = 64;                 // requests that may wait
  uint64_t step_ns = 200'000'000;     // what a chunk should take at most while somebody else waits for it
  uint64_t probe_ns = 1'000'000'000;  // after a chunk that failed with nobody to blame, one is tried this often
};

/// One sequence, as a page or a metric shows it.
struct SequenceInfo {
  enum class State { waiting, prefill, decode, paused, kept };
  State state = State::kept;
  RequestId request = 0;  // 0: kept
  int32_t choice = 0;
  int64_t tokens = 0;  // published
  int64_t target = 0;  // the most that it may hold; of a kept one, its tokens
  uint64_t idle_ns = 0;
};

struct SchedulerStats {
  // Now.
  std::vector<SequenceInfo> sequences;
  int32_t waiting = 0, running = 0;  // requests
  int32_t slots = 0, slots_used = 0, slots_kept = 0;
  int32_t banks = 0, banks_used = 0;
  int32_t pages = 0, pages_used = 0, page_tokens = 0;
  int64_t table_leases = 0;  // frames of the n-gram table held
  bool healthy = true;       // the last chunk did what it should
  bool draining = false;
  uint64_t chunk_started_ns = 0;  // when the chunk that is running began; 0: none
  // Since the start.
  uint64_t requests = 0, done = 0, failed = 0, cancelled = 0, refused = 0;
  uint64_t prompt_tokens = 0, reused_tokens = 0, drawn_tokens = 0;
  uint64_t chunks = 0, chunk_tokens = 0, chunk_ns = 0;
};

class Scheduler {
 public:
  /// `engine` and `clock` outlive it; nobody else calls the engine while run() runs. Sessions and batch of the engine's
  /// options say how many sequences are held, kept ones included, and how many run at once.
  Scheduler(Engine& engine, io::Io& clock, text::Tokenizer tokenizer, const SchedulerOptions& options);
  ~Scheduler();

  /// Queues a request, or refuses it before any work: invalid_argument (a setting, or prompt and max_tokens beyond the
  /// context), out_of_memory (would not fit even alone), busy (the queue is full, or draining); with the numbers.
  Result<RequestId> submit(Request request, std::shared_ptr<Listener> listener);
  /// Ends a request, wherever it stands; nothing for one that has ended.
  void cancel(RequestId request);
  /// A listener has room again.
  void wake();

  /// Takes no more requests and fails those that wait (busy); run() returns when the running ones have ended.
  void drain();
  /// drain(), and running ones fail too (cancelled).
  void stop();

  /// The engine's thread: works until drain() or stop(), and then gives back every sequence, kept ones too.
  void run();

  SchedulerStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace evros::engine
