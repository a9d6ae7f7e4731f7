#include "engine/scheduler.h"

#include <new>

#include "base/str.h"
#include "engine/scheduler_impl.h"

namespace evros::engine {

Scheduler::Scheduler(Engine& engine, io::Io& clock, text::Tokenizer tokenizer, const SchedulerOptions& options)
    : impl_(std::make_unique<Impl>(engine, clock, std::move(tokenizer), options)) {}
Scheduler::~Scheduler() = default;

Status Scheduler::Impl::check(const Request& request) const {
  const int32_t vocab = engine.model().hyper.vocab;
  const auto refuse = [](auto... parts) { return Error{Code::invalid_argument, cat(parts...)}; };
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) return refuse("the prompt is empty; at least one token is needed");
  for (const int32_t id : request.prompt) {
    if (id < 0 || id >= vocab)
      return refuse("the prompt holds token ", id, "; the vocabulary has ids 0 to ", vocab - 1);
  }
  EVROS_TRY(validate(request.reply, vocab));
  if (request.n < 1 || request.n > batch) {
    return refuse("n is ", request.n, "; this engine computes 1 to ", batch, " replies at once");
  }
  const int64_t least = request.reply.max_tokens < 0 ? 1 : request.reply.max_tokens;
  if (least > context - length) {
    return refuse("the prompt has ", length, " tokens",
                  request.reply.max_tokens > 0 ? cat(" and max_tokens is ", request.reply.max_tokens) : "",
                  "; the context holds ", context, ", the reply included");
  }
  int64_t before = 0;
  for (const int64_t at : request.keep_at) {
    if (at <= before || at > length)
      return refuse("keep_at holds ", at, " after ", before, "; the prompt has ", length);
    before = at;
  }
  const int64_t needed = pages_to_go(1, 0, length, page_tokens) +
                         pages_to_go(request.n, length, target_tokens(request, context), page_tokens);
  if (needed > engine.info().plan.limits.pages) {
    return Error{Code::out_of_memory, cat("the request needs ", needed, " pages of ", page_tokens,
                                          " tokens; there are ", engine.info().plan.limits.pages)};
  }
  return {};
}

Result<RequestId> Scheduler::submit(Request request, std::shared_ptr<Listener> listener) {
  const Status checked = impl_->check(request);
  const std::lock_guard lock(impl_->mutex);
  Status admitted = checked;
  const auto waiting = static_cast<int32_t>(impl_->inbox.size()) + impl_->queued;
  if (admitted.ok() && impl_->stopping) admitted = Error{Code::busy, "the engine is shutting down"};
  if (admitted.ok() && waiting >= impl_->options.queue + impl_->free_places) {
    admitted = Error{Code::busy, cat(waiting, " requests wait already, and ", impl_->options.queue, " may")};
  }
  if (!admitted.ok()) {
    ++impl_->refused;
    return admitted.error();
  }
  auto job = std::make_unique<Job>();
  job->target = target_tokens(request, impl_->context);
  job->request = std::move(request);
  job->id = ++impl_->last_id;
  job->listener = std::move(listener);
  job->submitted_ns = impl_->clock.now_ns();
  ++impl_->requests;
  const RequestId id = job->id;
  impl_->inbox.push_back(std::move(job));
  impl_->changed.notify_all();
  return id;
}

void Scheduler::cancel(RequestId request) {
  const std::lock_guard lock(impl_->mutex);
  impl_->cancelled.push_back(request);
  if (impl_->alone == request) impl_->cancel_chunk = true;
  impl_->changed.notify_all();
}

void Scheduler::wake() {
  const std::lock_guard lock(impl_->mutex);
  impl_->woken = true;
  impl_->changed.notify_all();
}

void Scheduler::drain() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stopping = true;
  impl_->changed.notify_all();
}

void Scheduler::stop() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stopping = impl_->stop_now = true;
  impl_->cancel_chunk = true;
  impl_->changed.notify_all();
}

SchedulerStats Scheduler::stats() const {
  const std::lock_guard lock(impl_->mutex);
  SchedulerStats stats = impl_->shown;
  stats.requests = impl_->requests;
  stats.refused = impl_->refused;
  stats.waiting = static_cast<int32_t>(impl_->inbox.size()) + impl_->queued;
  stats.draining = impl_->stopping;
  stats.chunk_started_ns = impl_->chunk_started_ns;
  return stats;
}

void Scheduler::run() {
  const device::FloatEnvironment environment;
  while (impl_->step()) {
  }
  while (impl_->drop_oldest_kept()) {
  }
  impl_->show_state();
}

}  // namespace evros::engine
