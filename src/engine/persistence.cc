// What leaves the process or compares across processes: digests, the model's identity, snapshots.
#include "engine/engine_impl.h"
#include "engine/identity.h"
#include "state/digest.h"

namespace evros::engine {

Result<Digests> Engine::digests(SessionId session) const try {
  EVROS_ASSIGN(const state::View view, impl_->store->view(session));
  EVROS_ASSIGN(const std::vector<state::OwnerDigest> all, state::owner_digests(*impl_->store, view));
  Digests out;
  out.numerics = impl_->info.numerics;
  for (const auto& [owner, digest] : all) {
    out.owners.push_back({std::string(state::owner_name(owner)), hex(state::under_numerics(out.numerics, digest))});
  }
  out.combined = hex(state::combined(out.numerics, all));
  return out;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::string> Engine::model_identity() try {
  if (!impl_->identity.has_value()) {
    EVROS_ASSIGN(impl_->identity, engine::model_identity(*impl_->file));
  }
  return hex(*impl_->identity);
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace evros::engine
