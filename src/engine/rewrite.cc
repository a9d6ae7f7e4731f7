// Changes of a session's history that may take many chunks: append, rewind, and both in one. All of them prepare the
// new history in the spare sequence and replace the session's image with one publication, so that nothing has to be
// undone.
#include <algorithm>

#include "base/str.h"
#include "engine/engine_impl.h"

namespace evros::engine {

Result<int64_t> Engine::Impl::start_spare(SessionId session, int64_t most) {
  EVROS_ASSIGN(const int64_t frontier, store->frontier(session));
  if (most == frontier) {
    EVROS_TRY(store->assign(spare, session));
    return frontier;
  }
  const Result<CheckpointId> nearest = store->nearest_checkpoint(session, most);
  if (nearest.ok()) {
    EVROS_ASSIGN(const int64_t at, store->frontier(*nearest));
    EVROS_TRY(store->rewind(spare, *nearest));
    return at;
  }
  if (nearest.error().code != Code::not_found) return nearest.error();
  EVROS_TRY(store->reset(spare));
  return 0;
}

Status Engine::append_chunks(SessionId session, std::span<const int32_t> tokens, const ChunkOptions& options) {
  return impl_->in_chunks(session, tokens, [&](const ChunkRow& row) { return run_chunk({&row, 1}, options); });
}

Status Engine::append(SessionId session, std::span<const int32_t> tokens, const ChunkOptions& options) try {
  EVROS_TRY(impl_->check_tokens(tokens));
  EVROS_ASSIGN(const int64_t frontier, impl_->store->frontier(session));
  EVROS_TRY(rewrite(session, frontier, tokens, options));
  return {};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Engine::rewind(SessionId session, int64_t n, const ChunkOptions& options) try {
  EVROS_TRY(rewrite(session, n, {}, options));
  return {};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<int64_t> Engine::rewrite(SessionId session, int64_t keep, std::span<const int32_t> tokens,
                                const ChunkOptions& options) try {
  if (!tokens.empty()) EVROS_TRY(impl_->check_tokens(tokens));
  EVROS_ASSIGN(state::View seen, impl_->store->view(session));
  const int64_t frontier = seen.frontier();
  if (keep < 0 || keep > frontier) {
    return Error{Code::invalid_argument,
                 cat("the session holds ", frontier, " tokens; it cannot keep the first ", keep)};
  }
  const auto asked = static_cast<int64_t>(tokens.size());
  if (asked > impl_->info.plan.context - keep) {
    return Error{Code::invalid_argument, cat("the session holds ", keep, " tokens and ", asked,
                                             " more were asked for; its context holds ", impl_->info.plan.context)};
  }
  if (keep == frontier && tokens.size() <= static_cast<size_t>(impl_->options.chunk)) {
    seen = state::View();
    EVROS_TRY(append_chunks(session, tokens, options));  // at most one chunk is a transaction by itself
    return keep;
  }
  std::vector<int32_t> history(static_cast<size_t>(keep));
  seen.tokens(0, history);
  const uint64_t changed = seen.changed();
  seen = state::View();  // the work may be long, and a view keeps the images of all sequences
  return rewrite_hidden(session, changed, std::move(history), tokens, options);
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<int64_t> Engine::rewrite_hidden(SessionId session, uint64_t seen, std::vector<int32_t> history,
                                       std::span<const int32_t> tokens, const ChunkOptions& options) {
  const auto keep = static_cast<int64_t>(history.size());
  history.insert(history.end(), tokens.begin(), tokens.end());
  EVROS_TRY(impl_->present());
  const int64_t losses = impl_->losses;
  EVROS_ASSIGN(const int64_t ready, impl_->start_spare(session, keep));
  const Status made = guarded([&]() -> Status {
    EVROS_TRY(append_chunks(impl_->spare, std::span(history).subspan(static_cast<size_t>(ready)), options));
    // A device lost on the way has given every session a new image with the same content.
    if (impl_->losses != losses) {
      EVROS_ASSIGN(seen, impl_->image_number(session));
    }
    return impl_->store->replace(session, impl_->spare, seen);
  });
  if (made.ok()) return ready;
  (void)impl_->store->reset(impl_->spare);  // gives its pages back now; if that is refused, the next user does
  return made.error();
}

}  // namespace evros::engine
