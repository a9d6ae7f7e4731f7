// One program at a time works on a session's file.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "io/io.h"

namespace evros::cli {

/// While it lives, no other program gets a lock of the same file. The lock is on FILE.lock beside it, because FILE need not
/// exist yet and is another file after each save. FILE.lock goes with the lock; what a killed program leaves of it hinders nobody.
class SessionLock {
 public:
  /// Holds nothing.
  SessionLock() = default;
  /// Code::busy at once when another program has it; errors of Io::create() for FILE.lock.
  static Result<SessionLock> take(const std::string& file);
  ~SessionLock();
  SessionLock(SessionLock&&) = default;
  SessionLock& operator=(SessionLock&&) = default;  // onto one that holds nothing

 private:
  explicit SessionLock(std::unique_ptr<io::File> lock) : lock_(std::move(lock)) {}
  std::unique_ptr<io::File> lock_;
};

}  // namespace evros::cli
