// What is behind Scheduler. Internal to engine/. Members above `mutex` belong to the thread in run(); those below it are
// shared.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/scheduler.h"

namespace evros::engine {

/// One reply being made: a sequence of its own, and the fold over its tokens.
struct Reply {
  SessionId session;
  ReplyState state;
  int64_t frontier = 0;  // published tokens
  bool drawn = false;    // state.pending() waits to be appended
  bool over = false;     // ended; `session` is gone
};

/// The most tokens that a reply's sequence may come to hold.
int64_t target_tokens(const Request& request, int64_t context);
/// Pages that `replies` sequences at `frontier` may take until each holds `target` tokens: an upper bound, the page at the
/// frontier being one that others may hold too.
int64_t pages_to_go(int64_t replies, int64_t frontier, int64_t target, int32_t page_tokens);

/// A request from its submission to its last event.
struct Job {
  /// Pages that it may still take, from where it stands. What was admitted never runs out of them.
  int64_t pages_to_go(int32_t page_tokens) const;
  /// Replies, begun or to begin: as many slots and rows of a chunk are set aside for it.
  int32_t places() const;
  bool prefilling() const { return replies.empty(); }
  int64_t length() const { return static_cast<int64_t>(request.prompt.size()); }
  /// The next length of the prompt at which it stops: to be kept, or because that is all.
  int64_t next_stop() const { return kept < request.keep_at.size() ? request.keep_at[kept] : length(); }

  Request request;
  int64_t target = 0;  // target_tokens()
  RequestId id = 0;
  std::shared_ptr<Listener> listener;
  uint64_t submitted_ns = 0, admitted_ns = 0;
  bool ended = false;  // the listener knows; forget_ended() takes it away

  // While the prompt is computed.
  SessionId session;
  int64_t frontier = 0;
  Started started;
  size_t kept = 0;  // of request.keep_at, reached already

  std::vector<Reply> replies;  // empty until then
};

/// A sequence that stays for later prompts.
struct Kept {
  SessionId session;
  std::vector<int32_t> tokens;
  uint64_t used_ns;
};

struct Scheduler::Impl {
  Impl(Engine& engine, io::Io& clock, text::Tokenizer tokenizer, const SchedulerOptions& options);

  /// One turn: news, admissions, one token for every reply, one chunk. False when there is nothing left to do for good.
  bool step();

  // scheduler_admit.cc: which requests run, and what is kept for later ones.
  Status check(const Request& request) const;
  void take_news();
  void admit_waiting();
  bool admit(Job& job);
  bool make_room(int32_t places, int64_t pages);
  int64_t pages_free() const;  // and not set aside
  bool drop_oldest_kept();
  Kept* best_kept(Job& job);
  void keep(SessionId session, std::span<const int32_t> tokens);
  void keep_or_close(SessionId session);
  void end(Job& job, const Error* error);

  // scheduler_step.cc: what is computed next.
  struct Part {  // of a chunk
    Job* job;
    Reply* reply;    // null: a part of the prompt
    int64_t tokens;  // 1 of a reply
  };
  void draw_all();
  void draw(Job& job, size_t choice);
  bool may_draw() const;
  std::vector<Part> next_parts();
  int64_t prompt_tokens_of_step(bool shared, int64_t room) const;
  void run_parts(const std::vector<Part>& parts);
  Result<std::vector<Status>> run_chunk(const std::vector<Part>& parts);
  void settle(const Part& part, const Status& status);
  void prompt_grew(Job& job);
  void start_replies(Job& job);
  void chunk_failed(const std::vector<Part>& parts, const Error& error);
  void probe();
  void wait();
  void show_state();

  Engine& engine;
  io::Io& clock;
  const text::Tokenizer tokenizer;
  const SchedulerOptions options;
  const int64_t context;
  const int32_t batch, chunk, page_tokens, sessions;
  std::deque<std::unique_ptr<Job>> waiting;   // admitted in this order
  std::vector<std::unique_ptr<Job>> running;  // admitted
  std::vector<Kept> all_kept;
  std::vector<float> logits;
  double prompt_token_ns = 0;  // what a token of a prompt took lately; 0: not known yet
  size_t turn = 0;             // whose prompt goes first in the next chunk
  uint64_t probe_at_ns = 0;
  SchedulerStats work;  // what this thread counts; `shown` is a copy
  std::atomic<bool> cancel_chunk = false;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Job>> inbox;
  std::vector<RequestId> cancelled;
  RequestId last_id = 0;
  RequestId alone = 0;  // whose chunk runs, when it is nobody else's
  int32_t queued = 0;   // waiting.size()
  int32_t free_places;  // for requests that will not have to wait, as nobody does: they are not in the queue's bound
  bool woken = false, stopping = false, stop_now = false;
  uint64_t chunk_started_ns = 0;
  uint64_t requests = 0, refused = 0;
  SchedulerStats shown;
};

}  // namespace evros::engine
