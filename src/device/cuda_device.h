// The GPU behind a Device: a shared library, libevros_cuda.so, that is opened at run time, so that the program starts on
// machines without a driver and is built on machines without CUDA.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/cuda_backend.h"
#include "device/device.h"

namespace evros::device {

constexpr const char* kCudaLibrary = "libevros_cuda.so";

/// Opens GPU 0 as "cuda:0", with the library from the first of `folders` that has one. Code::unsupported when this machine has
/// no library, no driver or no GPU, and Code::device when CUDA refuses; the sentence says which. Ordered copies and launches on
/// one stream. After a sticky error (an illegal address, a launch that failed, an uncorrectable memory error) the device is
/// lost(): it answers everything with the same sentence at once, and calling this again tries to open it anew, also before the
/// lost one is destroyed.
Result<std::unique_ptr<Device>> open_cuda_device(const std::vector<std::string>& folders);

/// The same with a backend in hand; `kernels` may be null. For the function above and for tests.
Result<std::unique_ptr<Device>> make_cuda_device(const EvrosCudaBackend& backend, const kernels::Kernels* kernels);

}  // namespace evros::device
