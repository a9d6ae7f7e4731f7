// A device whose calls fail by plan. Everything else is the device underneath.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "device/device.h"
#include "sim/fault_plan.h"

namespace evros::sim {

class FaultyDevice : public device::Device {
 public:
  /// `faults` and `held` (may be null) outlive it.
  FaultyDevice(std::unique_ptr<device::Device> inner, Faults& faults, Held* held = nullptr)
      : inner_(std::move(inner)), faults_(faults), held_(held) {}

  std::string_view name() const override { return inner_->name(); }
  bool host_addressable() const override { return inner_->host_addressable(); }
  const kernels::Kernels* kernels() const override { return inner_->kernels(); }
  bool lost() const override { return gone_ || inner_->lost(); }
  Result<device::Buffer> allocate(uint64_t bytes, std::string_view what) override;
  void free(std::byte* data, uint64_t bytes) noexcept override;
  Status upload(std::byte* to, std::span<const std::byte> from) override;
  Status download(std::span<std::byte> to, const std::byte* from) override;
  Status copy(std::byte* to, const std::byte* from, uint64_t bytes) override;
  Status fill(std::byte* to, uint8_t value, uint64_t bytes) override;
  Status launch(const device::StageInfo& stage, const std::function<void(device::Queue&)>& body) override;
  Status finish() override;

 protected:
  Faults& faults() { return faults_; }
  device::Device& inner() { return *inner_; }

 private:
  /// Error for good once the plan has taken the device away, with all that lay on it.
  Status alive();
  Status after_launch(const device::StageInfo& stage);
  Status set_status(std::span<uint32_t> words);

  std::unique_ptr<device::Device> inner_;
  Faults& faults_;
  Held* held_;
  std::mutex mutex_;
  std::map<std::byte*, device::Buffer> memory_;  // of the device underneath
  bool untold_ = false;                          // a launch failed and nobody has been told yet
  bool gone_ = false;
};

}  // namespace evros::sim
