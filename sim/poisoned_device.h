// A device on which one token cannot be computed: wherever its embedding appears, a NaN does. What a request with a poisoned
// prompt costs the others is what the load tests ask.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "device/device.h"

namespace evros::sim {

class PoisonedDevice : public device::Device {
 public:
  explicit PoisonedDevice(std::unique_ptr<device::Device> inner) : inner_(std::move(inner)) {}

  /// The first row of the next chunk shows what the poisoned token looks like. While nothing else runs.
  void learn() { learning_ = true; }

  std::string_view name() const override { return inner_->name(); }
  bool host_addressable() const override { return inner_->host_addressable(); }
  Result<device::Buffer> allocate(uint64_t bytes, std::string_view what) override {
    return inner_->allocate(bytes, what);
  }
  void free(std::byte* data, uint64_t bytes) noexcept override { inner_->free(data, bytes); }
  Status upload(std::byte* to, std::span<const std::byte> from) override { return inner_->upload(to, from); }
  Status download(std::span<std::byte> to, const std::byte* from) override { return inner_->download(to, from); }
  Status copy(std::byte* to, const std::byte* from, uint64_t bytes) override { return inner_->copy(to, from, bytes); }
  Status fill(std::byte* to, uint8_t value, uint64_t bytes) override { return inner_->fill(to, value, bytes); }
  Status finish() override { return inner_->finish(); }
  Status launch(const device::StageInfo& stage, const std::function<void(device::Queue&)>& body) override {
    EVROS_TRY(inner_->launch(stage, body));
    if (stage.name == "embed" && !stage.outputs.empty()) look_at(stage.outputs[0]);
    return {};
  }

 private:
  void look_at(const device::StageOutput& rows) {
    for (int64_t r = 0; r < rows.rows; ++r) {
      float* row = rows.data + r * rows.stride;
      if (std::exchange(learning_, false)) poison_.assign(row, row + rows.width);
      if (poison_.empty() || !std::equal(poison_.begin(), poison_.end(), row)) continue;
      row[0] = std::numeric_limits<float>::quiet_NaN();
    }
  }

  std::unique_ptr<device::Device> inner_;
  bool learning_ = false;
  std::vector<float> poison_;
};

}  // namespace evros::sim
