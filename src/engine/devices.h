// Which device an engine runs on: by name, and again after one was lost.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "device/device.h"
#include "engine/engine.h"

namespace evros::engine {

/// The device that options.device names. "auto" takes the GPU when there is one; else it hands one line that says why to
/// options.notice and takes the machine's cores.
Result<std::unique_ptr<device::Device>> open_device(const EngineOptions& options);

/// The table of this name, or the fastest that runs on the device when it is empty.
Result<const kernels::Kernels*> choose_kernels(const device::Device& device, const std::string& name);

}  // namespace evros::engine
