#include "device/cuda_device.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/str.h"

namespace evros::device {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(const EvrosCudaBackend& backend, void* stream, const kernels::Kernels* kernels)
      : backend_(backend), stream_(stream), kernels_(kernels) {}
  ~CudaDevice() override {
    if (!lost_) backend_.close(stream_);  // a lost one's went with its context, which may have been made anew since
  }

  std::string_view name() const override { return "cuda:0"; }
  bool host_addressable() const override { return false; }
  const kernels::Kernels* kernels() const override { return kernels_; }
  bool lost() const override { return lost_; }

  Result<Buffer> allocate(uint64_t bytes, std::string_view what) override {
    if (lost_) return loss_;
    void* data = nullptr;
    const EvrosCudaResult made = backend_.allocate(bytes == 0 ? 1 : bytes, &data);
    if (made.out_of_memory) {
      uint64_t free_bytes = 0, total = 0;
      const bool known = backend_.memory(&free_bytes, &total).name == nullptr;
      return Error{Code::out_of_memory, cat("cuda:0 has no ", bytes, " bytes of memory for ", what, " (", made.name,
                                            known ? cat("; ", free_bytes, " of ", total, " bytes are free") : "", ")")};
    }
    EVROS_TRY(check(made, "an allocation"));
    return Buffer(this, static_cast<std::byte*>(data), bytes);
  }

  std::optional<uint64_t> free_memory() const override {
    uint64_t free_bytes = 0, total = 0;
    if (lost_ || backend_.memory(&free_bytes, &total).name != nullptr) return std::nullopt;
    return free_bytes;
  }

  void free(std::byte* data, uint64_t) noexcept override {
    if (lost_) return;
    if (const EvrosCudaResult gone = backend_.release(data); gone.lost) remember(gone, "freeing memory");
  }

  Status upload(std::byte* to, std::span<const std::byte> from) override {
    if (lost_) return loss_;
    if (from.empty()) return {};
    return check(backend_.upload(stream_, to, from.data(), from.size()), "an upload");
  }
  Status download(std::span<std::byte> to, const std::byte* from) override {
    if (lost_) return loss_;
    if (to.empty()) return {};
    return check(backend_.download(stream_, to.data(), from, to.size()), "a download");
  }
  Status copy(std::byte* to, const std::byte* from, uint64_t bytes) override {
    if (lost_) return loss_;
    if (bytes == 0) return {};
    return check(backend_.copy(stream_, to, from, bytes), "a copy");
  }
  Status fill(std::byte* to, uint8_t value, uint64_t bytes) override {
    if (lost_) return loss_;
    if (bytes == 0) return {};
    return check(backend_.fill(stream_, to, value, bytes), "a fill");
  }
  Status launch(const StageInfo& stage, const std::function<void(Queue&)>& body) override {
    if (lost_) return loss_;
    Queue queue{nullptr, stream_};
    body(queue);
    return check(backend_.launched(), stage.name);
  }
  Status finish() override {
    if (lost_) return loss_;
    return check(backend_.finish(stream_), "the work in flight");
  }

 private:
  Status check(const EvrosCudaResult& result, std::string_view what) {
    if (result.name == nullptr) return {};
    if (result.lost) return remember(result, what);
    return Error{result.out_of_memory ? Code::out_of_memory : Code::device,
                 cat("cuda:0: ", what, " failed with ", result.name, " (", result.text, ")")};
  }
  Error remember(const EvrosCudaResult& result, std::string_view what) {
    lost_ = true;
    loss_ = {Code::device, cat("cuda:0 is lost: ", what, " failed with ", result.name, " (", result.text, ")")};
    return loss_;
  }

  const EvrosCudaBackend& backend_;
  void* stream_;
  const kernels::Kernels* kernels_;
  bool lost_ = false;
  Error loss_{};
};

// Never closed: code of the library may run until the process ends.
Result<void*> open_library(const std::vector<std::string>& folders) {
  std::string looked;
  for (const std::string& folder : folders) {
    const std::string path = cat(folder, "/", kCudaLibrary);
    looked += cat(looked.empty() ? "" : " and ", path);
    if (access(path.c_str(), F_OK) != 0) continue;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
    const char* why = dlerror();
    return Error{Code::unsupported, cat("the CUDA library cannot be opened: ", why == nullptr ? path : why)};
  }
  return Error{Code::unsupported,
               cat("this program has no CUDA library: there is no ", looked.empty() ? kCudaLibrary : looked)};
}

}  // namespace

Result<std::unique_ptr<Device>> make_cuda_device(const EvrosCudaBackend& backend, const kernels::Kernels* kernels) {
  if (backend.version != kEvrosCudaVersion) {
    return Error{Code::unsupported, cat(kCudaLibrary, " is of version ", backend.version, "; this program needs ",
                                        kEvrosCudaVersion, ", from the same build")};
  }
  void* stream = nullptr;
  const EvrosCudaResult opened = backend.open(0, &stream);
  if (opened.name == nullptr) return {std::make_unique<CudaDevice>(backend, stream, kernels)};
  const std::string_view name = opened.name;
  if (name == "cudaErrorInsufficientDriver") {
    return Error{Code::unsupported, cat("this machine has no NVIDIA driver, or one too old for CUDA 13 (", name, ")")};
  }
  if (name == "cudaErrorNoDevice") return Error{Code::unsupported, cat("this machine has no NVIDIA GPU (", name, ")")};
  return Error{Code::device, cat("CUDA cannot open GPU 0: ", name, " (", opened.text, ")")};
}

Result<std::unique_ptr<Device>> open_cuda_device(const std::vector<std::string>& folders) {
  EVROS_ASSIGN(void* const library, open_library(folders));
  using Backend = const EvrosCudaBackend* (*)();
  using Kernels = const kernels::Kernels* (*)();
  const auto backend = reinterpret_cast<Backend>(dlsym(library, "evros_cuda_backend"));
  const auto kernels = reinterpret_cast<Kernels>(dlsym(library, "evros_cuda_kernels"));
  if (backend == nullptr || kernels == nullptr) {
    return Error{Code::unsupported,
                 cat(kCudaLibrary, " lacks ", backend == nullptr ? "evros_cuda_backend" : "evros_cuda_kernels",
                     "; it is not the library of this program")};
  }
  return make_cuda_device(*backend(), kernels());
}

}  // namespace evros::device
