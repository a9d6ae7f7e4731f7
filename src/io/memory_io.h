// An Io whose files live in memory: for tests and fuzz targets, which open thousands of small or damaged files.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "io/io.h"

namespace evros::io {

/// Paths are plain keys; a folder exists when it was made or when some file's path starts with "folder/". The clock
/// stands still until `advance`. No locks: a second writer is not refused. Thread rule of Io. Files opened from it may
/// outlive it.
class MemoryIo final : public Io {
 public:
  /// Puts a file in place, replacing what was there; files already open keep the old content.
  void put(const std::string& path, std::string content) {
    const std::lock_guard lock(mutex_);
    files_[path] = std::make_shared<Content>(std::move(content));
  }
  /// The content of a file that exists (CHECKed).
  std::string get(const std::string& path) const {
    const std::shared_ptr<Content> content = find(path);
    CHECK(content != nullptr);
    const std::lock_guard lock(content->mutex);
    return content->bytes;
  }
  void advance(uint64_t ns) {
    const std::lock_guard lock(mutex_);
    now_ns_ += ns;
  }

  Result<std::unique_ptr<File>> open(const std::string& path) override {
    std::shared_ptr<Content> content = find(path);
    if (content == nullptr) return Error{Code::not_found, cat("cannot open ", path, ": no such file in memory")};
    return {std::make_unique<MemoryFile>(path, std::move(content))};
  }
  Result<std::unique_ptr<File>> create(const std::string& path) override {
    put(path, "");
    return open(path);
  }
  Result<std::unique_ptr<File>> create_or_keep(const std::string& path) override {
    if (find(path) == nullptr) put(path, "");
    return open(path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(from);
    if (found == files_.end()) return Error{Code::not_found, cat("cannot rename ", from, ": no such file in memory")};
    std::shared_ptr<Content> content = found->second;
    files_.erase(found);
    files_[to] = std::move(content);
    return {};
  }
  Status remove(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (files_.erase(path) + folders_.erase(path) > 0) return {};
    return Error{Code::not_found, cat("cannot remove ", path, ": no such file in memory")};
  }
  Status sync_folder(const std::string&) override { return {}; }
  Status make_folder(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    folders_.insert(path);
    return {};
  }
  bool exists(const std::string& path) const override { return find(path) != nullptr || is_folder(path); }
  bool is_folder(const std::string& path) const override {
    const std::lock_guard lock(mutex_);
    const auto first = files_.lower_bound(path + '/');
    return folders_.contains(path) || (first != files_.end() && first->first.starts_with(path + '/'));
  }
  Result<std::vector<std::string>> list(const std::string& path) const override {
    if (!is_folder(path)) return Error{Code::not_found, cat("cannot list folder ", path, ": no such folder in memory")};
    const std::lock_guard lock(mutex_);
    std::set<std::string> names;
    for (const auto& [name, content] : files_) {
      if (name.starts_with(path + '/'))
        names.insert(name.substr(path.size() + 1, name.find('/', path.size() + 1) - path.size() - 1));
    }
    return std::vector<std::string>(names.begin(), names.end());
  }
  uint64_t now_ns() const override {
    const std::lock_guard lock(mutex_);
    return now_ns_;
  }

 private:
  struct Content {
    explicit Content(std::string content) : bytes(std::move(content)) {}
    std::mutex mutex;
    std::string bytes;
  };

  class MemoryFile final : public File {
   public:
    MemoryFile(std::string path, std::shared_ptr<Content> content)
        : path_(std::move(path)), content_(std::move(content)) {}
    const std::string& path() const override { return path_; }
    uint64_t size() const override {
      const std::lock_guard lock(content_->mutex);
      return content_->bytes.size();
    }
    Status read_at(uint64_t offset, std::span<std::byte> out) const override {
      const std::lock_guard lock(content_->mutex);
      const std::string& bytes = content_->bytes;
      if (offset > bytes.size() || out.size() > bytes.size() - offset) {
        return Error{Code::bad_file,
                     cat(path_, " ends early: wanted ", out.size(), " bytes at offset ", offset, " of ", bytes.size())};
      }
      std::copy_n(std::as_bytes(std::span(bytes)).begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
      return {};
    }
    Status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
      const std::lock_guard lock(content_->mutex);
      if (offset + bytes.size() > content_->bytes.size()) content_->bytes.resize(offset + bytes.size());
      std::copy(bytes.begin(), bytes.end(),
                std::as_writable_bytes(std::span(content_->bytes)).begin() + static_cast<ptrdiff_t>(offset));
      return {};
    }
    Status truncate(uint64_t size) override {
      const std::lock_guard lock(content_->mutex);
      content_->bytes.resize(size);
      return {};
    }
    Status sync() override { return {}; }

   private:
    std::string path_;
    std::shared_ptr<Content> content_;
  };

  std::shared_ptr<Content> find(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(path);
    return found == files_.end() ? nullptr : found->second;
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Content>> files_;
  std::set<std::string> folders_;
  uint64_t now_ns_ = 0;
};

}  // namespace evros::io
