// Which requests run, and what is kept of them for later ones.
#include <algorithm>

#include "base/str.h"
#include "engine/scheduler_impl.h"

namespace evros::engine {

int64_t target_tokens(const Request& request, int64_t context) {
  const auto length = static_cast<int64_t>(request.prompt.size());
  return request.reply.max_tokens < 0 ? context : std::min(context, length + request.reply.max_tokens);
}

int64_t pages_to_go(int64_t replies, int64_t frontier, int64_t target, int32_t page_tokens) {
  return replies * ((target + page_tokens - 1) / page_tokens - frontier / page_tokens);
}

int64_t Job::pages_to_go(int32_t page_tokens) const {
  if (prefilling()) {
    return engine::pages_to_go(1, frontier, length(), page_tokens) +
           engine::pages_to_go(request.n, length(), target, page_tokens);
  }
  int64_t pages = 0;
  for (const Reply& reply : replies) {
    if (!reply.over) pages += engine::pages_to_go(1, reply.frontier, target, page_tokens);
  }
  return pages;
}

int32_t Job::places() const {
  if (prefilling()) return request.n;
  return static_cast<int32_t>(std::count_if(replies.begin(), replies.end(), [](const Reply& r) { return !r.over; }));
}

// Everything that others asked for since the last turn.
void Scheduler::Impl::take_news() {
  std::vector<RequestId> gone;
  bool refuse_waiting = false, fail_running = false;
  {
    const std::lock_guard lock(mutex);
    for (auto& job : inbox) waiting.push_back(std::move(job));
    inbox.clear();
    queued = static_cast<int32_t>(waiting.size());
    gone.swap(cancelled);
    woken = false;
    refuse_waiting = stopping;
    fail_running = stop_now;
  }
  const auto each = [&](const auto& act) {
    for (auto& job : waiting) act(*job, true);
    for (auto& job : running) act(*job, false);
  };
  const uint64_t now = clock.now_ns();
  each([&](Job& job, bool queued_still) {
    const Error closing{Code::busy, "the engine is shutting down"};
    const Error stopped{Code::cancelled, "the engine was stopped"};
    const Error left{Code::cancelled, "the request was cancelled"};
    if (std::find(gone.begin(), gone.end(), job.id) != gone.end()) {
      end(job, &left);
    } else if (queued_still && refuse_waiting) {
      end(job, &closing);
    } else if (fail_running) {
      end(job, &stopped);
    } else if (job.request.deadline_ns != 0 && now >= job.request.deadline_ns) {
      const Error late{Code::timeout, cat("the request's time was used up after ", (now - job.submitted_ns) / 1'000'000,
                                          " ms, ", queued_still ? "while it waited" : "while it was computed")};
      end(job, &late);
    }
  });
  std::erase_if(waiting, [](const auto& job) { return job->ended; });
  std::erase_if(running, [](const auto& job) { return job->ended; });
}

// In the order of their arrival: nobody overtakes a large request, so each comes to its turn.
void Scheduler::Impl::admit_waiting() {
  while (!waiting.empty() && admit(*waiting.front())) {
    running.push_back(std::move(waiting.front()));
    waiting.pop_front();
    prompt_grew(*running.back());
  }
  int32_t places = 0;
  for (const auto& job : running) places += job->places();
  const std::lock_guard lock(mutex);
  queued = static_cast<int32_t>(waiting.size());
  free_places = waiting.empty() ? batch - places : 0;
}

bool Scheduler::Impl::admit(Job& job) {
  int32_t places = job.request.n;
  for (const auto& other : running) places += other->places();
  if (places > batch) return false;
  const Kept* from = best_kept(job);
  job.frontier = from == nullptr ? 0 : static_cast<int64_t>(from->tokens.size());
  // The sequence it starts from was used last, so it is the last to give way.
  if (!make_room(job.request.n, job.pages_to_go(page_tokens))) return false;
  from = best_kept(job);
  const Result<SessionId> session = from == nullptr ? engine.open() : engine.fork(from->session);
  if (!session.ok()) return false;
  job.session = *session;
  job.frontier = from == nullptr ? 0 : static_cast<int64_t>(from->tokens.size());
  job.admitted_ns = clock.now_ns();
  job.started.prompt_tokens = job.length();
  job.started.reused_tokens = job.frontier;
  job.started.queue_ns = job.admitted_ns - job.submitted_ns;
  while (job.kept < job.request.keep_at.size() && job.request.keep_at[job.kept] <= job.frontier) ++job.kept;
  work.prompt_tokens += static_cast<uint64_t>(job.length());
  work.reused_tokens += static_cast<uint64_t>(job.frontier);
  return true;
}

// The longest kept sequence that the prompt begins with. Notes in the job where the most similar one parts from it.
Kept* Scheduler::Impl::best_kept(Job& job) {
  const std::vector<int32_t>& prompt = job.request.prompt;
  Kept* best = nullptr;
  size_t parts_at = 0;
  for (Kept& kept : all_kept) {
    const auto split = std::mismatch(kept.tokens.begin(), kept.tokens.end(), prompt.begin(), prompt.end());
    const auto common = static_cast<size_t>(split.first - kept.tokens.begin());
    if (common == kept.tokens.size()) {
      if (best == nullptr || common > best->tokens.size()) best = &kept;
    } else if (common < prompt.size()) {
      parts_at = std::max(parts_at, common);
    }
  }
  const bool nearer = parts_at > (best == nullptr ? 0 : best->tokens.size());
  job.started.diverged_at = nearer ? static_cast<int64_t>(parts_at) : -1;
  if (best != nullptr) best->used_ns = clock.now_ns();
  return best;
}

int64_t Scheduler::Impl::pages_free() const {
  int64_t pages = engine.store().limits().pages - engine.store().usage().pages;
  for (const auto& job : running) pages -= job->pages_to_go(page_tokens);
  return pages;
}

bool Scheduler::Impl::make_room(int32_t places, int64_t pages) {
  const auto open = [&] {
    auto slots = static_cast<int32_t>(all_kept.size());
    for (const auto& job : running) slots += job->places();
    return slots;
  };
  while (open() + places > sessions || pages_free() < pages) {
    if (!drop_oldest_kept()) return false;
  }
  return true;
}

bool Scheduler::Impl::drop_oldest_kept() {
  const auto oldest = std::min_element(all_kept.begin(), all_kept.end(),
                                       [](const Kept& a, const Kept& b) { return a.used_ns < b.used_ns; });
  if (oldest == all_kept.end()) return false;
  const Status closed = engine.close(oldest->session);
  if (!closed.ok()) return false;
  all_kept.erase(oldest);
  return true;
}

// Keeps a copy of the sequence, where there is room: one slot, and the page at its frontier, which the sequence will copy.
void Scheduler::Impl::keep(SessionId session, std::span<const int32_t> tokens) {
  for (Kept& kept : all_kept) {
    if (!std::equal(kept.tokens.begin(), kept.tokens.end(), tokens.begin(), tokens.end())) continue;
    kept.used_ns = clock.now_ns();
    return;
  }
  if (!make_room(1, 1)) return;
  const Result<SessionId> copy = engine.fork(session);
  if (copy.ok()) all_kept.push_back({*copy, {tokens.begin(), tokens.end()}, clock.now_ns()});
}

// A sequence that nobody works on any more stays, unless there is one like it.
void Scheduler::Impl::keep_or_close(SessionId session) {
  Result<std::vector<int32_t>> tokens = engine.tokens(session);
  const auto same = [&](const Kept& kept) { return kept.tokens == *tokens; };
  if (!tokens.ok() || tokens->empty() || std::any_of(all_kept.begin(), all_kept.end(), same)) {
    const Status closed = engine.close(session);
    CHECK(closed.ok());  // it is nobody's but ours, and no chunk runs
    return;
  }
  all_kept.push_back({session, std::move(*tokens), clock.now_ns()});
}

// The last event of a request. What it has published is whole, also when it was cancelled, and stays; after a failure
// nothing does.
void Scheduler::Impl::end(Job& job, const Error* error) {
  if (job.ended) return;
  job.ended = true;
  const bool usable = error == nullptr || error->code == Code::cancelled || error->code == Code::timeout;
  const auto leave = [&](SessionId session) {
    if (usable) return keep_or_close(session);
    const Status closed = engine.close(session);
    CHECK(closed.ok());
  };
  if (job.prefilling() && job.admitted_ns != 0) leave(job.session);
  for (Reply& reply : job.replies) {
    if (!std::exchange(reply.over, true)) leave(reply.session);
  }
  if (error == nullptr) {
    ++work.done;
    job.listener->done();
  } else {
    ++(error->code == Code::cancelled ? work.cancelled : work.failed);
    job.listener->failed(*error);
  }
  job.listener.reset();
}

}  // namespace evros::engine
