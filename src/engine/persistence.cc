// What leaves the process or compares across processes: digests, the model's identity, snapshots.
#include "base/str.h"
#include "engine/engine_impl.h"
#include "engine/identity.h"
#include "engine/snapshot_info.h"
#include "state/digest.h"
#include "state/snapshot.h"

namespace evros::engine {

Result<Digests> Engine::digests(SessionId session) const try {
  return impl_->surviving([&]() -> Result<Digests> {
    EVROS_ASSIGN(const state::View view, impl_->store->view(session));
    EVROS_ASSIGN(const std::vector<state::OwnerDigest> all, state::owner_digests(*impl_->store, view));
    return name_digests(impl_->info.numerics, all);
  });
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<state::SnapshotIdentity> Engine::Impl::snapshot_identity() {
  if (!identity.has_value()) {
    EVROS_ASSIGN(identity, engine::model_identity(*file));
  }
  return state::SnapshotIdentity{*identity, info.numerics};
}

Result<uint64_t> Engine::Impl::image_number(SessionId session) const {
  EVROS_ASSIGN(const state::View view, store->view(session));
  return view.changed();
}

Result<std::string> Engine::model_identity() try {
  EVROS_ASSIGN(const state::SnapshotIdentity identity, impl_->snapshot_identity());
  return hex(identity.model);
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Engine::save(io::Io& io, SessionId session, const std::string& path, std::string_view attachment) try {
  EVROS_ASSIGN(const state::SnapshotIdentity identity, impl_->snapshot_identity());
  return impl_->surviving([&]() -> Status {
    EVROS_ASSIGN(const state::View view, impl_->store->view(session));
    return state::save_snapshot(io, path, *impl_->store, view, identity, std::as_bytes(std::span(attachment)));
  });
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::string> Engine::restore_spare(io::Io& io, const std::string& path) {
  EVROS_ASSIGN(const state::Snapshot snapshot, state::Snapshot::open(io, path));
  EVROS_ASSIGN(const state::SnapshotIdentity identity, impl_->snapshot_identity());
  EVROS_ASSIGN(std::string attachment, snapshot.attachment());
  const Status filled = impl_->surviving([&]() -> Status {
    EVROS_TRY(impl_->store->reset(impl_->spare));
    return snapshot.restore(*impl_->store, impl_->spare, identity);
  });
  EVROS_TRY(filled);
  const Status known = guarded([&]() -> Status {
    EVROS_ASSIGN(const std::vector<int32_t> held, tokens(impl_->spare));
    const Status ids = impl_->check_tokens(held);
    return ids.ok() ? Status{} : Error{Code::bad_file, cat(path, ": ", ids.error().message)};
  });
  if (known.ok()) return attachment;
  (void)impl_->store->reset(impl_->spare);
  return known.error();
}

Result<Engine::Restored> Engine::restore(io::Io& io, const std::string& path) try {
  EVROS_ASSIGN(std::string attachment, restore_spare(io, path));
  const Result<SessionId> session = fork(impl_->spare);
  (void)impl_->store->reset(impl_->spare);  // gives its pages back now; if that is refused, the next user does
  if (!session.ok()) return session.error();
  return Restored{*session, std::move(attachment)};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::string> Engine::restore(io::Io& io, const std::string& path, SessionId session) try {
  EVROS_ASSIGN(uint64_t seen, impl_->image_number(session));
  const int64_t losses = impl_->losses;
  EVROS_ASSIGN(std::string attachment, restore_spare(io, path));
  if (impl_->losses != losses) {  // with the same content
    EVROS_ASSIGN(seen, impl_->image_number(session));
  }
  const Status shown = guarded([&] { return impl_->store->replace(session, impl_->spare, seen); });
  if (shown.ok()) return attachment;
  (void)impl_->store->reset(impl_->spare);
  return shown.error();
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace evros::engine
