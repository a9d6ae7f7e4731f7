// A device on which one token cannot be computed: wherever its embedding appears, a NaN does. What a request with a poisoned
// prompt costs the others is what the load tests ask.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "device/forwarding_device.h"

namespace evros::sim {

class PoisonedDevice : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  /// The first row of the next chunk shows what the poisoned token looks like. While nothing else runs.
  void learn() { learning_ = true; }

  Status launch(const device::StageInfo& stage, const std::function<void(device::Queue&)>& body) override {
    EVROS_TRY(inner().launch(stage, body));
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

  bool learning_ = false;
  std::vector<float> poison_;
};

}  // namespace evros::sim
