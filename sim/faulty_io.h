// Files that fail by plan. Everything else is the Io underneath.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/io.h"
#include "sim/fault_plan.h"

namespace evros::sim {

/// Exit status of a process that died by plan (FaultKind::death).
constexpr int kDeathStatus = 77;

class FaultyIo final : public io::Io {
 public:
  /// `inner`, `faults` and `held` (may be null) outlive it and the files that were opened through it.
  FaultyIo(io::Io& inner, Faults& faults, Held* held = nullptr) : inner_(inner), faults_(faults), held_(held) {}

  Result<std::unique_ptr<io::File>> open(const std::string& path) override;
  Result<std::unique_ptr<io::File>> create(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status sync_folder(const std::string& path) override;
  Status make_folder(const std::string& path) override { return inner_.make_folder(path); }
  bool exists(const std::string& path) const override { return inner_.exists(path); }
  bool is_folder(const std::string& path) const override { return inner_.is_folder(path); }
  Result<std::vector<std::string>> list(const std::string& path) const override { return inner_.list(path); }
  uint64_t now_ns() const override { return inner_.now_ns(); }

 private:
  io::Io& inner_;
  Faults& faults_;
  Held* held_;
};

}  // namespace evros::sim
