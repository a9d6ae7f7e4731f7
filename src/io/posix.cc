// The machine's own files and clock, on POSIX: the only file of Evros that calls the operating system's file functions.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/str.h"
#include "io/io.h"

namespace evros::io {
namespace {

/// What the system said, thread-safely.
std::string system_word(int error) { return std::generic_category().message(error); }

Error failure(std::string_view what, const std::string& path, int error) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::not_found : Code::io;
  return {code, cat("cannot ", what, " ", path, ": ", system_word(error))};
}

/// Linux moves at most 2^31 - 4096 bytes a call; asking for less keeps the loop's arithmetic simple everywhere.
constexpr size_t kMaxTransfer = size_t{1} << 30;
/// off_t is signed: a position beyond this cannot be expressed.
constexpr uint64_t kMaxOffset = uint64_t{1} << 62;

class PosixFile final : public File {
 public:
  PosixFile(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  ~PosixFile() override { ::close(fd_); }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_.load(std::memory_order_relaxed); }

  Status read_at(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > kMaxOffset || out.size() > kMaxOffset) return ends_early(offset, out.size(), 0);
    size_t done = 0;
    while (done < out.size()) {
      const size_t want = std::min(out.size() - done, kMaxTransfer);
      const ssize_t got = ::pread(fd_, out.data() + done, want, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure("read", path_, errno);
      if (got == 0) return ends_early(offset, out.size(), done);
      done += static_cast<size_t>(got);
    }
    return {};
  }

  void will_read(uint64_t offset, uint64_t bytes) const override {
    if (offset > kMaxOffset || bytes > kMaxOffset) return;
    ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
  }

  Status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
    if (offset > kMaxOffset || bytes.size() > kMaxOffset) return failure("write", path_, EFBIG);
    size_t done = 0;
    while (done < bytes.size()) {
      const size_t want = std::min(bytes.size() - done, kMaxTransfer);
      const ssize_t put = ::pwrite(fd_, bytes.data() + done, want, static_cast<off_t>(offset + done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return failure("write", path_, errno);
      if (put == 0) return failure("write", path_, ENOSPC);
      done += static_cast<size_t>(put);
    }
    if (!bytes.empty()) grow_to(offset + bytes.size());
    return {};
  }

  Status truncate(uint64_t size) override {
    if (size > kMaxOffset) return failure("set the length of", path_, EFBIG);
    while (::ftruncate(fd_, static_cast<off_t>(size)) != 0) {
      if (errno != EINTR) return failure("set the length of", path_, errno);
    }
    size_.store(size, std::memory_order_relaxed);
    return {};
  }

  Status sync() override {
    while (::fsync(fd_) != 0) {
      if (errno != EINTR) return failure("flush", path_, errno);
    }
    return {};
  }

  uint64_t allocated_bytes() const override {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) return size();
    constexpr uint64_t kStatBlock = 512;  // POSIX leaves the unit open; Linux counts 512 bytes whatever the file system
    return static_cast<uint64_t>(info.st_blocks) * kStatBlock;
  }

 private:
  Error ends_early(uint64_t offset, uint64_t wanted, uint64_t got) const {
    return {Code::bad_file, cat(path_, " ends early: wanted ", wanted, " bytes at offset ", offset, ", found ", got)};
  }

  void grow_to(uint64_t end) {
    uint64_t seen = size_.load(std::memory_order_relaxed);
    while (seen < end && !size_.compare_exchange_weak(seen, end, std::memory_order_relaxed)) {
    }
  }

  std::string path_;
  int fd_;
  std::atomic<uint64_t> size_;
};

/// What stands in the way where a regular file was wanted.
const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return S_ISSOCK(mode) ? "a socket" : "no regular file";
}

/// The folder that a file lies in.
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

int open_retry(const std::string& path, int flags) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EINTR) return fd;
  }
}

class PosixIo final : public Io {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path) override {
    // A pipe opens at once, with or without a writer; regular files do not know the flag.
    const int fd = open_retry(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0) return failure("open", path, errno);
    struct stat info {};
    if (::fstat(fd, &info) != 0) return close_with(fd, failure("look at", path, errno));
    if (S_ISDIR(info.st_mode)) return close_with(fd, failure("open", path, EISDIR));
    if (!S_ISREG(info.st_mode)) {
      return close_with(fd, {Code::bad_file, cat(path, " is ", kind_of(info.st_mode), "; wanted a regular file")});
    }
    return {std::make_unique<PosixFile>(path, fd, static_cast<uint64_t>(info.st_size))};
  }

  Result<std::unique_ptr<File>> create(const std::string& path) override { return open_to_write(path, false); }
  Result<std::unique_ptr<File>> create_or_keep(const std::string& path) override { return open_to_write(path, true); }

  Status check_target(const std::string& path) const override {
    if (path.empty()) return Error{Code::invalid_argument, "the name of the file to write is empty"};
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      return Error{Code::invalid_argument,
                   cat(path, " is ", kind_of(info.st_mode), "; wanted the name of a regular file to write")};
    }
    const std::string folder = folder_of(path);  // which the file is made in, under another name first
    if (::stat(folder.c_str(), &info) != 0) return failure(cat("write ", path, ": cannot enter folder"), folder, errno);
    if (!S_ISDIR(info.st_mode)) return failure(cat("write ", path, ": cannot enter folder"), folder, ENOTDIR);
    if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
    return failure(cat("write ", path, ": cannot make files in folder"), folder, errno);
  }

  uint64_t free_bytes(const std::string& path) const override {
    struct statvfs info {};
    if (::statvfs(folder_of(path).c_str(), &info) != 0 || info.f_blocks == 0) return Io::free_bytes(path);
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }

  bool same_file(const std::string& a, const std::string& b) const override {
    struct stat first {
    }, second{};
    return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && is_same(first, second);
  }

  Status rename(const std::string& from, const std::string& to) override {
    EVROS_TRY(check_target(to));
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    return failure("rename", cat(from, " to ", to), errno);
  }

  Status remove(const std::string& path) override {
    if (std::remove(path.c_str()) == 0) return {};
    return failure("remove", path, errno);
  }

  Status sync_folder(const std::string& path) override {
    const int fd = open_retry(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return failure("open folder", path, errno);
    int error = 0;
    while (::fsync(fd) != 0) {
      if (errno == EINTR) continue;
      error = errno;
      break;
    }
    ::close(fd);
    if (error != 0) return failure("flush folder", path, error);
    return {};
  }

  Status make_folder(const std::string& path) override {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string part = path.substr(0, end);
      if (!part.empty() && ::mkdir(part.c_str(), 0777) != 0 && !is_folder(part)) {
        return failure("make folder", part, errno == EEXIST ? ENOTDIR : errno);
      }
      if (end == std::string::npos) return {};
    }
  }

  bool exists(const std::string& path) const override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0;
  }

  bool is_folder(const std::string& path) const override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  Result<std::vector<std::string>> list(const std::string& path) const override {
    DIR* folder = ::opendir(path.empty() ? "." : path.c_str());
    if (folder == nullptr) return failure("list folder", path, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(folder)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    const int error = errno;
    ::closedir(folder);
    if (error != 0) return failure("list folder", path, error);
    std::sort(names.begin(), names.end());
    return names;
  }

  uint64_t now_ns() const override {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
  }

 private:
  // Locked first and emptied then, so that a file that somebody else is writing is not touched. Its writer may rename it
  // between our open and our lock; what is locked is then no longer what the path names, and the path is opened again.
  Result<std::unique_ptr<File>> open_to_write(const std::string& path, bool keep) {
    EVROS_TRY(check_target(path));
    for (;;) {
      const int fd = open_retry(path, O_RDWR | O_CREAT);
      if (fd < 0) return failure("create", path, errno);
      if (!lock(fd)) return close_with(fd, {Code::busy, cat(path, " is being written by another process")});
      if (!names(path, fd)) {
        ::close(fd);
        continue;
      }
      struct stat info {};
      if (::fstat(fd, &info) != 0) return close_with(fd, failure("look at", path, errno));
      auto file = std::make_unique<PosixFile>(path, fd, static_cast<uint64_t>(info.st_size));
      if (!keep) EVROS_TRY(file->truncate(0));
      return {std::move(file)};
    }
  }

  static Error close_with(int fd, Error error) {
    ::close(fd);
    return error;
  }

  /// False when another open file holds the lock. The system drops it with the last descriptor, so also when a program
  /// is killed. A file system without locks is not refused for that.
  static bool lock(int fd) {
    while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      if (errno != EINTR) return true;
    }
    return true;
  }

  static bool is_same(const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  }

  static bool names(const std::string& path, int fd) {
    struct stat named {
    }, opened{};
    return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 && is_same(named, opened);
  }
};

}  // namespace

Io& real_io() {
  static PosixIo io;
  return io;
}

}  // namespace evros::io
