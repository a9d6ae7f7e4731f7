#include "engine/devices.h"

#include "base/str.h"
#include "device/cuda_device.h"
#include "io/io.h"
#include "io/process.h"

namespace evros::engine {
namespace {

// Beside the program, as the build leaves it, or in the lib folder beside the program's, as packages do.
Result<std::unique_ptr<device::Device>> open_cuda() {
  EVROS_ASSIGN(const std::string folder, io::program_folder());
  return device::open_cuda_device({folder, io::join(folder, "../lib")});
}

}  // namespace

Result<std::unique_ptr<device::Device>> open_device(const EngineOptions& options) {
  if (options.device != "cpu" && options.device != "cuda" && options.device != "auto") {
    return Error{Code::invalid_argument, cat("device \"", options.device, "\" is none of cpu, cuda and auto")};
  }
  if (options.device != "cpu") {
    auto cuda = open_cuda();
    if (cuda.ok() || options.device == "cuda") return cuda;
    if (options.notice) options.notice(cat(cuda.error().message, "; going on on the CPU"));
  }
  return device::make_host_device(device::thread_count(options.threads));
}

Result<const kernels::Kernels*> choose_kernels(const device::Device& device, const std::string& name) {
  if (const kernels::Kernels* own = device.kernels(); own != nullptr) {
    if (name.empty() || name == own->name) return own;
    return Error{Code::unsupported,
                 cat("kernels \"", name, "\" do not run on ", device.name(), ", which has \"", own->name, "\" alone")};
  }
  if (name.empty()) return &kernels::best_host_kernels();
  const kernels::Kernels* table = kernels::host_kernels(name.c_str());
  if (table != nullptr) return table;
  return Error{Code::unsupported,
               cat("kernels \"", name, "\" are unknown or cannot run on this machine; the default here is \"",
                   kernels::best_host_kernels().name, "\"")};
}

}  // namespace evros::engine
