// A device around another that does what the other does: decorators override what they change.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "device/device.h"

namespace evros::device {

/// Owns the device underneath; memory of allocate() belongs to that one. Thread rule, errors and effects are the inner's.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  bool host_addressable() const override { return inner_->host_addressable(); }
  const kernels::Kernels* kernels() const override { return inner_->kernels(); }
  bool lost() const override { return inner_->lost(); }
  std::optional<uint64_t> free_memory() const override { return inner_->free_memory(); }
  Result<Buffer> allocate(uint64_t bytes, std::string_view what) override { return inner_->allocate(bytes, what); }
  void free(std::byte* data, uint64_t bytes) noexcept override { inner_->free(data, bytes); }
  Status upload(std::byte* to, std::span<const std::byte> from) override { return inner_->upload(to, from); }
  Status download(std::span<std::byte> to, const std::byte* from) override { return inner_->download(to, from); }
  Status copy(std::byte* to, const std::byte* from, uint64_t bytes) override { return inner_->copy(to, from, bytes); }
  Status fill(std::byte* to, uint8_t value, uint64_t bytes) override { return inner_->fill(to, value, bytes); }
  Status launch(const StageInfo& stage, const std::function<void(Queue&)>& body) override {
    return inner_->launch(stage, body);
  }
  Status finish() override { return inner_->finish(); }

 protected:
  Device& inner() { return *inner_; }

 private:
  std::unique_ptr<Device> inner_;
};

}  // namespace evros::device
