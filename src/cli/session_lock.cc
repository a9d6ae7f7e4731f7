#include "cli/session_lock.h"

#include "base/str.h"

namespace evros::cli {

Result<SessionLock> SessionLock::take(const std::string& file) {
  auto lock = io::real_io().create(file + ".lock");
  if (lock.ok()) return SessionLock(std::move(*lock));
  if (lock.error().code != Code::busy) return lock.error();
  return Error{Code::busy, cat(file, " is in use: another program holds ", file, ".lock until it ends")};
}

// Removed while it is held: unlocked, it could be another program's already.
SessionLock::~SessionLock() {
  if (lock_ != nullptr) static_cast<void>(io::real_io().remove(lock_->path()).ok());
}

}  // namespace evros::cli
