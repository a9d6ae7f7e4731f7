// A device whose memory the host cannot touch, made of the host's: between launches every access from outside its calls ends
// the process. What runs on it without a crash runs on a GPU's memory.
#pragma once

#include <sys/mman.h>

#include <map>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/str.h"
#include "device/device.h"

namespace evros::sim {

class RemoteDevice : public device::Device {
 public:
  /// Kernels run on `threads` threads of the host. All allocations together may take `capacity` bytes.
  explicit RemoteDevice(int threads, uint64_t capacity = uint64_t{1} << 32)
      : inner_(device::make_host_device(threads)), capacity_(capacity) {
    void* data = mmap(nullptr, capacity_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(data != MAP_FAILED);
    arena_ = static_cast<std::byte*>(data);
  }
  ~RemoteDevice() override {
    CHECK(held_.empty());
    munmap(arena_, capacity_);
  }
  RemoteDevice(const RemoteDevice&) = delete;
  RemoteDevice& operator=(const RemoteDevice&) = delete;

  std::string_view name() const override { return "remote"; }
  bool host_addressable() const override { return false; }

  Result<device::Buffer> allocate(uint64_t bytes, std::string_view what) override {
    const std::lock_guard lock(mutex_);
    const uint64_t size = (bytes / kPage + 2) * kPage;  // one page of nobody's behind each
    uint64_t at = 0;
    for (const auto& [begin, length] : held_) {
      if (begin - at >= size) break;
      at = begin + length;
    }
    if (size > capacity_ - at)
      return Error{Code::out_of_memory, cat("remote: no ", bytes, " bytes of memory for ", what)};
    held_.emplace(at, size);
    used_ = std::max(used_, at + size);
    return device::Buffer(this, arena_ + at, bytes);
  }
  void free(std::byte* data, uint64_t) noexcept override {
    const std::lock_guard lock(mutex_);
    CHECK(held_.erase(static_cast<uint64_t>(data - arena_)) == 1);
    used_ = held_.empty() ? 0 : held_.rbegin()->first + held_.rbegin()->second;
  }
  Status upload(std::byte* to, std::span<const std::byte> from) override {
    const Open open(*this);
    return inner_->upload(to, from);
  }
  Status download(std::span<std::byte> to, const std::byte* from) override {
    const Open open(*this);
    return inner_->download(to, from);
  }
  Status copy(std::byte* to, const std::byte* from, uint64_t bytes) override {
    const Open open(*this);
    return inner_->copy(to, from, bytes);
  }
  Status fill(std::byte* to, uint8_t value, uint64_t bytes) override {
    const Open open(*this);
    return inner_->fill(to, value, bytes);
  }
  Status launch(const device::StageInfo& stage, const std::function<void(device::Queue&)>& body) override {
    const Open open(*this);
    return inner_->launch(stage, body);
  }
  Status finish() override { return inner_->finish(); }

 private:
  static constexpr uint64_t kPage = 4096;

  // The memory can be touched while one of these lives.
  class Open {
   public:
    explicit Open(RemoteDevice& device) : device_(device), lock_(device.mutex_) { set(PROT_READ | PROT_WRITE); }
    ~Open() { set(PROT_NONE); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    void set(int protection) const {
      if (device_.used_ > 0) CHECK(mprotect(device_.arena_, device_.used_, protection) == 0);
    }
    RemoteDevice& device_;
    const std::lock_guard<std::mutex> lock_;
  };

  std::unique_ptr<device::Device> inner_;
  const uint64_t capacity_;
  std::byte* arena_ = nullptr;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> held_;  // offset and bytes
  uint64_t used_ = 0;                  // the highest end
};

}  // namespace evros::sim
