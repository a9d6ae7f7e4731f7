#include "sim/faulty_io.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/str.h"

namespace evros::sim {
namespace {

constexpr std::byte kRubbish{0xA5};

Error injected(FaultKind kind, const std::string& path) {
  return {Code::io, cat("injected: ", fault_name(kind), " of ", path, " failed")};
}

// Before a step that changes a file. Nothing is flushed and no destructor runs, as when the process is killed.
void may_die(Faults& faults) {
  if (faults.fires(FaultKind::death)) std::_Exit(kDeathStatus);
}

class FaultyFile final : public io::File {
 public:
  FaultyFile(std::unique_ptr<io::File> inner, Faults& faults, Held* held)
      : inner_(std::move(inner)), faults_(faults), held_(held) {
    if (held_ != nullptr) ++held_->files;
  }
  ~FaultyFile() override {
    if (held_ != nullptr) --held_->files;
  }
  const std::string& path() const override { return inner_->path(); }
  uint64_t size() const override { return inner_->size(); }
  uint64_t allocated_bytes() const override { return inner_->allocated_bytes(); }

  Status read_at(uint64_t offset, std::span<std::byte> out) const override {
    if (faults_.fires(FaultKind::read_error)) return injected(FaultKind::read_error, path());
    if (!out.empty() && faults_.fires(FaultKind::read_short)) {
      std::fill_n(out.begin(), out.size() / 2, kRubbish);
      return Error{Code::bad_file,
                   cat("injected: ", path(), " ends early: wanted ", out.size(), " bytes at offset ", offset)};
    }
    if (faults_.fires(FaultKind::read_late)) std::this_thread::sleep_for(std::chrono::microseconds(300));
    EVROS_TRY(inner_->read_at(offset, out));
    // The sign and the highest mantissa bits of whatever it is: the value stays finite and is another one.
    if (!out.empty() && faults_.fires(FaultKind::read_corrupt)) out[out.size() / 2] ^= std::byte{0x11};
    return {};
  }

  void will_read(uint64_t offset, uint64_t bytes) const override { inner_->will_read(offset, bytes); }

  Status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
    may_die(faults_);
    if (faults_.fires(FaultKind::write)) {
      EVROS_TRY(inner_->write_at(offset, bytes.first(bytes.size() / 2)));
      return injected(FaultKind::write, path());
    }
    if (bytes.size() > 1) {
      const std::span<const std::byte> half = bytes.first(bytes.size() / 2);
      EVROS_TRY(inner_->write_at(offset, half));
      may_die(faults_);
      return inner_->write_at(offset + half.size(), bytes.subspan(half.size()));
    }
    return inner_->write_at(offset, bytes);
  }

  Status truncate(uint64_t size) override {
    may_die(faults_);
    if (faults_.fires(FaultKind::truncate)) return injected(FaultKind::truncate, path());
    return inner_->truncate(size);
  }

  Status sync() override {
    may_die(faults_);
    if (faults_.fires(FaultKind::sync)) return injected(FaultKind::sync, path());
    return inner_->sync();
  }

 private:
  std::unique_ptr<io::File> inner_;
  Faults& faults_;
  Held* held_;
};

}  // namespace

Result<std::unique_ptr<io::File>> FaultyIo::open(const std::string& path) {
  if (faults_.fires(FaultKind::open)) return injected(FaultKind::open, path);
  EVROS_ASSIGN(std::unique_ptr<io::File> file, inner_.open(path));
  return {std::make_unique<FaultyFile>(std::move(file), faults_, held_)};
}

Result<std::unique_ptr<io::File>> FaultyIo::create(const std::string& path) {
  may_die(faults_);
  if (faults_.fires(FaultKind::create)) return injected(FaultKind::create, path);
  EVROS_ASSIGN(std::unique_ptr<io::File> file, inner_.create(path));
  return {std::make_unique<FaultyFile>(std::move(file), faults_, held_)};
}

Status FaultyIo::rename(const std::string& from, const std::string& to) {
  may_die(faults_);
  if (faults_.fires(FaultKind::rename)) return injected(FaultKind::rename, cat(from, " to ", to));
  return inner_.rename(from, to);
}

Status FaultyIo::remove(const std::string& path) {
  may_die(faults_);
  if (faults_.fires(FaultKind::remove)) return injected(FaultKind::remove, path);
  return inner_.remove(path);
}

Status FaultyIo::sync_folder(const std::string& path) {
  may_die(faults_);
  if (faults_.fires(FaultKind::sync_folder)) return injected(FaultKind::sync_folder, path);
  return inner_.sync_folder(path);
}

}  // namespace evros::sim
