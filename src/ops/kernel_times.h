// Time by kernel: a device around another whose table of kernels is the other's, and which, while it is told to, waits for
// each kernel and adds its time up. Waiting costs a few microseconds a kernel, so the sums say which kernels cost most, not
// how fast a token is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/forwarding_device.h"
#include "io/io.h"
#include "kernels/kernels.h"

namespace evros::ops {

struct KernelTime {
  std::string name;
  uint64_t calls = 0, ns = 0;
};

/// At most one at a time in a process: entries of a table are plain functions.
class TimedDevice final : public device::ForwardingDevice {
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

  const kernels::Kernels* kernels() const override;

 private:
  friend struct TimedEntry;
  const kernels::Kernels& table_;
  io::Io& clock_;
  bool measuring_ = false;
  std::vector<KernelTime> times_;  // of every entry
};

}  // namespace evros::ops
