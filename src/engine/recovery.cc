// After the loss of a device: another one, the weights again, and every session computed from its tokens (docs/state.md,
// "Losing a device"). Until all of it is done the old index stays, and with it every session's tokens.
#include <algorithm>
#include <utility>

#include "base/str.h"
#include "engine/engine_impl.h"

namespace evros::engine {
namespace {

struct Lost {
  SessionId id;
  std::vector<int32_t> tokens;
};

/// Appends tokens to a session of the new store.
using Append = std::function<Status(SessionId session, std::span<const int32_t> tokens)>;

// Gives sessions, sorted by their tokens and all holding the first `at` of them, the same ones, the rest. What several begin
// with is computed once and shared, so that they need no more pages than before.
Status replay(state::Store& store, const Append& append, std::span<const Lost> group, size_t at) {
  while (!group.empty() && group.front().tokens.size() == at) group = group.subspan(1);  // complete
  if (group.empty()) return {};
  const std::vector<int32_t>&first = group.front().tokens, &last = group.back().tokens;
  const size_t most = std::min(first.size(), last.size());
  size_t common = at;  // sorted: what the first and the last share, all share
  while (common < most && first[common] == last[common]) ++common;
  if (common > at) {
    EVROS_TRY(append(group.front().id, std::span(first).subspan(at, common - at)));
    for (const Lost& other : group.subspan(1)) EVROS_TRY(store.assign(other.id, group.front().id));
    return replay(store, append, group, common);
  }
  while (!group.empty()) {
    const int32_t next = group.front().tokens[at];
    size_t count = 1;
    while (count < group.size() && group[count].tokens[at] == next) ++count;
    EVROS_TRY(replay(store, append, group.first(count), at));
    group = group.subspan(count);
  }
  return {};
}

}  // namespace

Status Engine::Impl::recover(std::unique_ptr<device::Device> to) {
  std::vector<Lost> all;
  for (const SessionId id : store->live()) {
    EVROS_ASSIGN(const state::View view, store->view(id));
    Lost& lost = all.emplace_back(Lost{id, std::vector<int32_t>(static_cast<size_t>(view.frontier()))});
    view.tokens(0, lost.tokens);
  }
  std::sort(all.begin(), all.end(), [](const Lost& a, const Lost& b) { return a.tokens < b.tokens; });
  EVROS_ASSIGN(Residence home, move_to(std::move(to), store.get()));
  const Append append = [&](SessionId session, std::span<const int32_t> tokens) {
    return in_chunks(session, tokens, [&](const ChunkRow& row) {
      return transact(*home.store, *home.forward, {&row, 1}, {});
    });
  };
  EVROS_TRY(replay(*home.store, append, all, 0));
  settle(std::move(home));
  ++losses;
  return {};
}

Status Engine::Impl::present() {
  if (!device->lost()) return {};
  const Status loss = device->finish();
  CHECK(!loss.ok());
  const std::string name(device->name()), what = loss.error().message;
  const auto say = [&](const std::string& where) {
    if (options.notice)
      options.notice(cat(what, "; ", where, ", and its sessions were computed again from their tokens"));
  };
  std::string why = "nothing opens it again";
  if (options.reopen) {
    auto again = options.reopen();
    const Status back = again.ok() ? recover(std::move(*again)) : Status(again.error());
    if (back.ok()) {
      say(cat(name, " was opened again"));
      return {};
    }
    why = back.error().message;
  }
  if (device->kernels() != nullptr) options.kernels.clear();  // a table of the lost device's own
  EVROS_TRY(recover(device::make_host_device(device::thread_count(options.threads))));
  say(cat("it is not opened again in this process (", why, "), the engine goes on on the CPU"));
  return {};
}

}  // namespace evros::engine
