// The only door to the operating system's files and clock. Everything that reads or writes goes through an Io, so that
// tests can put a decorator in between (sim/). real_io() is the machine itself.
//
// Thread rule: every method may be called from any thread at any time; a File's reads are positional and do not disturb
// each other. Errors carry the path, what was tried and the system's word for the failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evros::io {

/// An open file. Closed by its destructor; a writer that cares about durability calls sync() first.
class File {
 public:
  virtual ~File() = default;
  virtual const std::string& path() const = 0;
  /// Length in bytes when it was opened or last written through this object.
  virtual uint64_t size() const = 0;
  /// Fills `out` from `offset`. A file that ends before that is an error (Code::bad_file), never a short read.
  virtual Status read_at(uint64_t offset, std::span<std::byte> out) const = 0;
  /// A hint that these bytes will be read soon: storage that answers many requests at once may begin with them all. Returns
  /// before they are there; changes no result, and never fails.
  virtual void will_read(uint64_t /*offset*/, uint64_t /*bytes*/) const {}
  /// Writes all of `bytes` at `offset`, extending the file (with a hole, where the system has them) when needed.
  virtual Status write_at(uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Sets the length; growing leaves a hole.
  virtual Status truncate(uint64_t size) = 0;
  /// Returns when the content is on stable storage.
  virtual Status sync() = 0;
  /// Bytes of storage that the content takes now: less than size() where holes are kept. size() when the system does not
  /// tell.
  virtual uint64_t allocated_bytes() const { return size(); }
};

class Io {
 public:
  virtual ~Io() = default;
  /// For reading. Code::bad_file, at once, for what is no regular file: a pipe or a device has no length and no positions,
  /// and opening a pipe would wait for its writer (process.h reads such streams).
  virtual Result<std::unique_ptr<File>> open(const std::string& path) = 0;
  /// For writing; what was there is dropped. One writer at a time: Code::busy, and nothing dropped, while another File,
  /// of any process, that create() gave out for it is open. Refuses what check_target() refuses.
  virtual Result<std::unique_ptr<File>> create(const std::string& path) = 0;
  /// As create(), but what was there is kept: to go on with work that was stopped. Code::unsupported where that is not
  /// possible.
  virtual Result<std::unique_ptr<File>> create_or_keep(const std::string& path);
  /// Replaces `to`; refuses what check_target() refuses. To publish a file that was written, rename it while it is open:
  /// that keeps other writers out.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// May a file be written under this name? Code::invalid_argument for "", a folder, a link, a device or a pipe, which a
  /// rename would silently put out of the way; Code::not_found or Code::io when its folder is not there or may not be
  /// written. Programs ask before they start long work.
  virtual Status check_target(const std::string& path) const;
  /// Bytes that this program may still fill on the file system where `path` is or would be; the largest number when the system
  /// does not tell.
  virtual uint64_t free_bytes(const std::string& /*path*/) const { return ~uint64_t{0}; }
  /// Do both names lead to one existing file, whatever links and spellings are on the way?
  virtual bool same_file(const std::string& a, const std::string& b) const { return a == b && exists(a); }
  virtual Status remove(const std::string& path) = 0;
  virtual Status sync_folder(const std::string& path) = 0;
  virtual Status make_folder(const std::string& path) = 0;  // parents too; existing is fine
  virtual bool exists(const std::string& path) const = 0;
  virtual bool is_folder(const std::string& path) const = 0;
  /// Names (not paths) in a folder, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) const = 0;
  /// Monotonic time in nanoseconds.
  virtual uint64_t now_ns() const = 0;
};

/// The machine's own files and clock.
Io& real_io();

/// The whole file; refused with Code::bad_file when longer than `limit` bytes.
Result<std::string> read_file(Io& io, const std::string& path, uint64_t limit);

/// folder + "/" + name.
std::string join(std::string_view folder, std::string_view name);

}  // namespace evros::io
