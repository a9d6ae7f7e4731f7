// One turn after another: a token for every reply, then a chunk of what there is to compute.
#include <algorithm>
#include <chrono>
#include <new>

#include "base/str.h"
#include "engine/scheduler_impl.h"

namespace evros::engine {

Scheduler::Impl::Impl(Engine& engine_, io::Io& clock_, text::Tokenizer tokenizer_, const SchedulerOptions& options_)
    : engine(engine_),
      clock(clock_),
      tokenizer(std::move(tokenizer_)),
      options(options_),
      context(engine.info().plan.context),
      batch(std::min(engine.info().plan.pass.sequences, engine.info().plan.sessions)),
      chunk(engine.info().plan.pass.rows),
      page_tokens(engine.info().plan.page_tokens),
      sessions(engine.info().plan.sessions),
      logits(static_cast<size_t>(engine.model().hyper.vocab)),
      free_places(batch) {
  show_state();
}

bool Scheduler::Impl::step() try {
  take_news();
  draw_all();
  admit_waiting();
  const std::vector<Part> parts = next_parts();
  show_state();
  if (!parts.empty()) {
    run_parts(parts);
  } else if (running.empty() && !waiting.empty()) {
    // Nothing that could end would make room: what was promised by check() is not there.
    const Error error{Code::out_of_memory, "no sequence or no pages could be had for the request"};
    end(*waiting.front(), &error);
    waiting.pop_front();
  } else if (!may_draw()) {
    {
      const std::lock_guard lock(mutex);
      if (stopping && running.empty() && inbox.empty()) return false;
    }
    wait();
  }
  std::erase_if(running, [](const auto& job) { return job->ended; });
  if (!work.healthy && running.empty()) probe();
  return true;
} catch (const std::bad_alloc&) {
  const Error error{Code::out_of_memory, "out of memory"};
  for (auto& job : running) end(*job, &error);
  std::erase_if(running, [](const auto& job) { return job->ended; });
  return true;
}

bool Scheduler::Impl::may_draw() const {
  for (const auto& job : running) {
    for (const Reply& reply : job->replies) {
      if (!reply.over && !reply.drawn && job->listener->has_room()) return true;
    }
  }
  return false;
}

void Scheduler::Impl::draw_all() {
  for (auto& job : running) {
    for (size_t i = 0; i < job->replies.size() && !job->ended; ++i) {
      const Reply& reply = job->replies[i];
      if (!reply.over && !reply.drawn && job->listener->has_room()) draw(*job, i);
    }
  }
  std::erase_if(running, [](const auto& job) { return job->ended; });
}

// Draws from the published image and shows what that settles.
void Scheduler::Impl::draw(Job& job, size_t choice) {
  Reply& reply = job.replies[choice];
  const Status read = engine.logits(reply.session, logits);
  if (!read.ok()) return end(job, &read.error());
  const std::optional<Finish> finish = reply.state.draw(logits, reply.frontier);
  const auto index = static_cast<int32_t>(choice);
  for (const Piece& piece : reply.state.take()) job.listener->piece(index, piece);
  reply.drawn = true;
  if (!finish.has_value()) return;
  reply.over = true;
  const auto tokens = static_cast<int64_t>(reply.state.tokens().size());
  work.drawn_tokens += static_cast<uint64_t>(tokens);
  keep_or_close(reply.session);
  job.listener->ended({index, *finish, reply.state.stop(), tokens, reply.state.thinking_tokens()});
  if (job.places() == 0) end(job, nullptr);
}

// How many tokens of prompts go into a chunk. One that others wait for is kept short, so that replies go on and news are
// heard; how the tokens are cut changes no result (S3).
int64_t Scheduler::Impl::prompt_tokens_of_step(bool shared, int64_t room) const {
  if (prompt_token_ns == 0) return std::min<int64_t>(room, 16);
  const double allowed = static_cast<double>(shared ? options.step_ns : options.step_ns * 4) / prompt_token_ns;
  return std::clamp<int64_t>(static_cast<int64_t>(std::min(allowed, 1e9)), std::min<int64_t>(room, 8), room);
}

// Replies first, one token each; the rest of the chunk is shared evenly by the prompts, who take turns in going first.
std::vector<Scheduler::Impl::Part> Scheduler::Impl::next_parts() {
  std::vector<Part> parts;
  std::vector<Job*> prompts;
  for (const auto& job : running) {
    if (job->prefilling()) prompts.push_back(job.get());
    for (Reply& reply : job->replies) {
      if (!reply.over && reply.drawn) parts.push_back({job.get(), &reply, 1});
    }
  }
  if (prompts.empty()) return parts;
  std::rotate(prompts.begin(), prompts.begin() + static_cast<std::ptrdiff_t>(turn++ % prompts.size()), prompts.end());
  const bool shared = !parts.empty() || prompts.size() > 1 || !waiting.empty();
  int64_t left = prompt_tokens_of_step(shared, chunk - static_cast<int64_t>(parts.size()));
  for (size_t i = 0; i < prompts.size() && left > 0; ++i) {
    const auto others = static_cast<int64_t>(prompts.size() - i);
    const int64_t share = std::min((left + others - 1) / others, prompts[i]->next_stop() - prompts[i]->frontier);
    parts.push_back({prompts[i], nullptr, share});
    left -= share;
  }
  return parts;
}

Result<std::vector<Status>> Scheduler::Impl::run_chunk(const std::vector<Part>& parts) {
  std::vector<int32_t> pending(parts.size());
  std::vector<ChunkRow> rows;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [job, reply, tokens] = parts[i];
    if (reply != nullptr) {
      pending[i] = reply->state.pending();
      rows.push_back({reply->session, {&pending[i], 1}});
    } else {
      const auto from = static_cast<size_t>(job->frontier);
      rows.push_back({job->session, std::span(job->request.prompt).subspan(from, static_cast<size_t>(tokens))});
    }
  }
  return engine.run_chunk(rows, {.cancel = &cancel_chunk});
}

void Scheduler::Impl::run_parts(const std::vector<Part>& parts) {
  const Job* first = parts.front().job;
  const bool one = std::all_of(parts.begin(), parts.end(), [&](const Part& part) { return part.job == first; });
  const uint64_t start = clock.now_ns();
  {
    const std::lock_guard lock(mutex);
    alone = one ? first->id : 0;
    chunk_started_ns = start;
    cancel_chunk = stop_now || std::find(cancelled.begin(), cancelled.end(), alone) != cancelled.end();
  }
  const Result<std::vector<Status>> statuses = run_chunk(parts);
  const uint64_t ns = clock.now_ns() - start;
  {
    const std::lock_guard lock(mutex);
    alone = 0;
    chunk_started_ns = 0;
  }
  if (!statuses.ok()) return chunk_failed(parts, statuses.error());
  int64_t tokens = 0, of_prompts = 0;
  for (const Part& part : parts) {
    tokens += part.tokens;
    if (part.reply == nullptr) of_prompts += part.tokens;
  }
  ++work.chunks;
  work.chunk_tokens += static_cast<uint64_t>(tokens);
  work.chunk_ns += ns;
  if (of_prompts > 0) {
    const double each = static_cast<double>(ns) / static_cast<double>(tokens);
    prompt_token_ns = prompt_token_ns == 0 ? each : 0.5 * (prompt_token_ns + each);
  }
  work.healthy = std::any_of(statuses->begin(), statuses->end(), [](const Status& status) { return status.ok(); });
  if (!work.healthy) probe_at_ns = clock.now_ns() + options.probe_ns;
  for (size_t i = 0; i < parts.size(); ++i) settle(parts[i], (*statuses)[i]);
}

void Scheduler::Impl::settle(const Part& part, const Status& status) {
  Job& job = *part.job;
  if (job.ended) return;  // another of its replies failed in the same chunk
  if (!status.ok()) return end(job, &status.error());
  if (part.reply != nullptr) {
    ++part.reply->frontier;
    part.reply->drawn = false;
    part.reply->state.published();
    return;
  }
  job.frontier += part.tokens;
  prompt_grew(job);
}

void Scheduler::Impl::prompt_grew(Job& job) {
  const bool keeps_end = job.request.keep_at.empty() && job.frontier == job.length();
  const bool stops = job.kept < job.request.keep_at.size() && job.frontier == job.request.keep_at[job.kept];
  if (stops) ++job.kept;
  if (keeps_end || stops) keep(job.session, std::span(job.request.prompt).first(static_cast<size_t>(job.frontier)));
  if (job.frontier == job.length()) start_replies(job);
}

// The first reply goes on in the prompt's sequence, the others in forks of it.
void Scheduler::Impl::start_replies(Job& job) {
  job.started.prefill_ns = clock.now_ns() - job.admitted_ns;
  std::vector<SessionId> own = {job.session};
  while (static_cast<int32_t>(own.size()) < job.request.n) {
    const Result<SessionId> copy = engine.fork(job.session);
    if (copy.ok()) {
      own.push_back(*copy);
      continue;
    }
    for (size_t i = 1; i < own.size(); ++i) CHECK(engine.close(own[i]).ok());
    return end(job, &copy.error());
  }
  for (uint32_t i = 0; i < own.size(); ++i) {
    ReplyState state(job.request.reply, tokenizer, job.request.prompt, context, i);
    job.replies.push_back({own[i], std::move(state), job.frontier, false, false});
  }
  job.listener->started(job.started);
}

// An error with no sequence to blame; nothing was published.
void Scheduler::Impl::chunk_failed(const std::vector<Part>& parts, const Error& error) {
  if (error.code == Code::cancelled) return;  // take_news() ends whoever asked; the others try again
  if (error.code == Code::out_of_memory) {
    if (drop_oldest_kept()) return;
    const auto newest = std::max_element(parts.begin(), parts.end(),
                                         [](const Part& a, const Part& b) { return a.job->id < b.job->id; });
    return end(*newest->job, &error);
  }
  work.healthy = false;
  probe_at_ns = clock.now_ns() + options.probe_ns;
  for (const Part& part : parts) end(*part.job, &error);
}

// After a failure that was nobody's: does the engine work again? One token, for nobody.
void Scheduler::Impl::probe() {
  if (clock.now_ns() < probe_at_ns) return;
  probe_at_ns = clock.now_ns() + options.probe_ns;
  if (static_cast<int32_t>(all_kept.size()) >= sessions) drop_oldest_kept();
  const Result<SessionId> session = engine.open();
  if (!session.ok()) return;
  const int32_t token = 0;
  const ChunkRow row{*session, {&token, 1}};
  const auto statuses = engine.run_chunk({&row, 1});
  work.healthy = statuses.ok() && (*statuses)[0].ok();
  CHECK(engine.close(*session).ok());
}

// Until there is news, a deadline, or a probe to make.
void Scheduler::Impl::wait() {
  const uint64_t now = clock.now_ns();
  uint64_t until = now + 1'000'000'000;
  for (const auto& job : running) {
    if (job->request.deadline_ns != 0) until = std::min(until, job->request.deadline_ns);
  }
  if (!work.healthy) until = std::min(until, probe_at_ns);
  std::unique_lock lock(mutex);
  changed.wait_for(lock, std::chrono::nanoseconds(until > now ? until - now : 0), [&] {
    return !inbox.empty() || !cancelled.empty() || woken || stop_now || (stopping && running.empty());
  });
}

void Scheduler::Impl::show_state() {
  const uint64_t now = clock.now_ns();
  using State = SequenceInfo::State;
  work.sequences.clear();
  for (const auto& job : waiting) {
    work.sequences.push_back({State::waiting, job->id, 0, 0, job->target, now - job->submitted_ns});
  }
  for (const auto& job : running) {
    if (job->prefilling()) work.sequences.push_back({State::prefill, job->id, 0, job->frontier, job->length(), 0});
    for (size_t i = 0; i < job->replies.size(); ++i) {
      const Reply& reply = job->replies[i];
      if (reply.over) continue;
      const State state = reply.drawn || job->listener->has_room() ? State::decode : State::paused;
      work.sequences.push_back({state, job->id, static_cast<int32_t>(i), reply.frontier, job->target, 0});
    }
  }
  for (const Kept& kept : all_kept) {
    const auto tokens = static_cast<int64_t>(kept.tokens.size());
    work.sequences.push_back({State::kept, 0, 0, tokens, tokens, now - kept.used_ns});
  }
  const state::Usage usage = engine.store().usage();
  const state::Limits& limits = engine.store().limits();
  work.running = static_cast<int32_t>(running.size());
  work.slots = sessions;
  work.slots_kept = static_cast<int32_t>(all_kept.size());
  work.slots_used = usage.slots - 1;  // the engine's spare one is nobody's
  work.banks = limits.banks;
  work.banks_used = usage.banks;
  work.pages = limits.pages;
  work.pages_used = usage.pages;
  work.page_tokens = page_tokens;
  work.table_leases = engine.table_frames_held();
  const std::lock_guard lock(mutex);
  shown = work;
}

}  // namespace evros::engine
