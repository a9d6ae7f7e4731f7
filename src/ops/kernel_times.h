// Time by kernel: a device around another whose table of kernels is the other's, and which, while it is told to, waits for
// each kernel and adds its time up. Waiting costs a few microseconds a kernel, so the sums say which kernels cost most, not
// how fast a token is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "io/io.h"
#include "kernels/kernels.h"

namespace evros::ops {

struct KernelTime {
  std::string name;
  uint64_t calls = 0, ns = 0;
};

/// At most one at a time in a process: entries of a table are plain functions.
class TimedDevice final : public device::Device {
 public:
  /// `table` is what runs on `inner`. `clock` outlives it.
  TimedDevice(std::unique_ptr<device::Device> inner, const kernels::Kernels& table, io::Io& clock);
  ~TimedDevice() override;
  TimedDevice(const TimedDevice&) = delete;
  TimedDevice& operator=(const TimedDevice&) = delete;

  /// From now on kernels are timed, or not.
  void measure(bool on) { measuring_ = on; }
  /// What was measured, the most expensive first.
  std::vector<KernelTime> times() const;

  std::string_view name() const override { return inner_->name(); }
  bool host_addressable() const override { return inner_->host_addressable(); }
  const kernels::Kernels* kernels() const override;
  bool lost() const override { return inner_->lost(); }
  Result<device::Buffer> allocate(uint64_t bytes, std::string_view what) override {
    return inner_->allocate(bytes, what);
  }
  void free(std::byte* data, uint64_t bytes) noexcept override { inner_->free(data, bytes); }
  Status upload(std::byte* to, std::span<const std::byte> from) override { return inner_->upload(to, from); }
  Status download(std::span<std::byte> to, const std::byte* from) override { return inner_->download(to, from); }
  Status copy(std::byte* to, const std::byte* from, uint64_t bytes) override { return inner_->copy(to, from, bytes); }
  Status fill(std::byte* to, uint8_t value, uint64_t bytes) override { return inner_->fill(to, value, bytes); }
  Status launch(const device::StageInfo& stage, const std::function<void(device::Queue&)>& body) override {
    return inner_->launch(stage, body);
  }
  Status finish() override { return inner_->finish(); }

 private:
  friend struct TimedEntry;
  std::unique_ptr<device::Device> inner_;
  const kernels::Kernels& table_;
  io::Io& clock_;
  bool measuring_ = false;
  std::vector<KernelTime> times_;  // of every entry
};

}  // namespace evros::ops
