// Files of a machine that loses its power: what a program wrote and did not sync may be on the disk afterwards, or not, or
// in part; the same for names that were created, renamed or removed and whose folder was not synced. Memory only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/str.h"
#include "io/io.h"

namespace evros::sim {

/// What of the unsynced is on the disk after the loss.
enum class Kept { nothing, everything, names, content, torn };
constexpr Kept kAllKept[] = {Kept::nothing, Kept::everything, Kept::names, Kept::content, Kept::torn};

/// One thread. Files opened from it must not outlive it.
class CrashIo final : public io::Io {
 public:
  /// The power fails before step `step` (from 0) that changes something: that one and all later calls are errors.
  void fail_at(uint64_t step) { fails_at_ = step; }
  uint64_t steps() const { return steps_; }
  bool off() const { return steps_ > fails_at_; }

  /// The machine is on again and the disk holds what `kept` says.
  void restart(Kept kept) {
    const bool names = kept != Kept::nothing && kept != Kept::content;
    std::map<std::string, std::shared_ptr<Inode>> disk;
    for (const auto& [name, inode] : names ? names_ : synced_names_) {
      std::string bytes = kept == Kept::nothing || kept == Kept::names ? inode->synced : inode->bytes;
      if (kept == Kept::torn && inode->bytes != inode->synced) bytes.resize(bytes.size() / 2);
      disk[name] = std::make_shared<Inode>(Inode{bytes, bytes});
    }
    names_ = synced_names_ = std::move(disk);
    steps_ = 0;
    fails_at_ = UINT64_MAX;
  }

  Result<std::unique_ptr<io::File>> open(const std::string& path) override {
    if (off()) return dead();
    const auto found = names_.find(path);
    if (found == names_.end()) return Error{Code::not_found, cat("cannot open ", path, ": no such file")};
    return {std::make_unique<CrashFile>(*this, path, found->second)};
  }
  Result<std::unique_ptr<io::File>> create(const std::string& path) override {
    EVROS_TRY(step());
    auto& inode = names_[path];
    if (inode == nullptr) inode = std::make_shared<Inode>();
    inode->bytes.clear();
    return {std::make_unique<CrashFile>(*this, path, inode)};
  }
  Status rename(const std::string& from, const std::string& to) override {
    EVROS_TRY(step());
    const auto found = names_.find(from);
    if (found == names_.end()) return Error{Code::not_found, cat("cannot rename ", from, ": no such file")};
    names_[to] = found->second;
    names_.erase(found);
    return {};
  }
  Status remove(const std::string& path) override {
    EVROS_TRY(step());
    if (names_.erase(path) == 0) return Error{Code::not_found, cat("cannot remove ", path, ": no such file")};
    return {};
  }
  Status sync_folder(const std::string&) override {  // one folder is enough for what is tested
    EVROS_TRY(step());
    synced_names_ = names_;
    return {};
  }
  Status make_folder(const std::string&) override { return {}; }
  bool exists(const std::string& path) const override { return names_.contains(path); }
  bool is_folder(const std::string&) const override { return false; }
  Result<std::vector<std::string>> list(const std::string&) const override { return std::vector<std::string>(); }
  uint64_t now_ns() const override { return 0; }

 private:
  struct Inode {
    std::string bytes, synced;
  };

  class CrashFile final : public io::File {
   public:
    CrashFile(CrashIo& io, std::string path, std::shared_ptr<Inode> inode)
        : io_(io), path_(std::move(path)), inode_(std::move(inode)) {}
    const std::string& path() const override { return path_; }
    uint64_t size() const override { return inode_->bytes.size(); }
    Status read_at(uint64_t offset, std::span<std::byte> out) const override {
      if (io_.off()) return dead();
      if (offset > size() || out.size() > size() - offset) return Error{Code::bad_file, cat(path_, " ends early")};
      inode_->bytes.copy(reinterpret_cast<char*>(out.data()), out.size(), offset);
      return {};
    }
    Status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
      EVROS_TRY(io_.step());
      if (size() < offset + bytes.size()) inode_->bytes.resize(offset + bytes.size());
      inode_->bytes.replace(offset, bytes.size(), reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    }
    Status truncate(uint64_t bytes) override {
      EVROS_TRY(io_.step());
      inode_->bytes.resize(bytes);
      return {};
    }
    Status sync() override {
      EVROS_TRY(io_.step());
      inode_->synced = inode_->bytes;
      return {};
    }

   private:
    CrashIo& io_;
    const std::string path_;
    const std::shared_ptr<Inode> inode_;
  };

  static Error dead() { return {Code::io, "injected: the machine has no power"}; }
  Status step() {
    if (steps_ >= fails_at_) {
      steps_ = UINT64_MAX;
      return dead();
    }
    ++steps_;
    return {};
  }

  std::map<std::string, std::shared_ptr<Inode>> names_, synced_names_;
  uint64_t steps_ = 0, fails_at_ = UINT64_MAX;
};

}  // namespace evros::sim
