#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "base/str.h"
#include "device/device.h"

namespace evros::device {

namespace {

constexpr uint64_t kAlignment = 64;
// From here on memory is mapped directly: it costs nothing until touched, goes back to the system when freed, and may use
// huge pages. Pools of banks and pages are planned for the worst case and rarely filled.
constexpr uint64_t kMapFrom = 1u << 20;
constexpr uint64_t kLargest = uint64_t{1} << 62;

std::byte* map(uint64_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);  // advice only: a kernel without huge pages works as well
  return static_cast<std::byte*>(data);
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(int threads) : pool_(threads) {}

  std::string_view name() const override { return "cpu"; }
  bool host_addressable() const override { return true; }

  Result<Buffer> allocate(uint64_t bytes, std::string_view what) override {
    const uint64_t size = bytes > kLargest ? 0 : align_up(bytes == 0 ? 1 : bytes, kAlignment);
    std::byte* data = nullptr;
    if (size >= kMapFrom)
      data = map(size);
    else if (size > 0)
      data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
    if (data == nullptr) {
      return Error{Code::out_of_memory, cat("cpu: the system has no ", bytes, " bytes of memory for ", what)};
    }
    return Buffer(this, data, bytes);
  }

  void free(std::byte* data, uint64_t bytes) noexcept override {
    const uint64_t size = align_up(bytes == 0 ? 1 : bytes, kAlignment);
    if (size >= kMapFrom)
      munmap(data, size);
    else
      std::free(data);
  }

  Status upload(std::byte* to, std::span<const std::byte> from) override { return copy(to, from.data(), from.size()); }
  Status download(std::span<std::byte> to, const std::byte* from) override { return copy(to.data(), from, to.size()); }
  Status copy(std::byte* to, const std::byte* from, uint64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return {};
  }
  Status fill(std::byte* to, uint8_t value, uint64_t bytes) override {
    if (bytes > 0) std::memset(to, value, bytes);
    return {};
  }

  Status launch(const StageInfo&, const std::function<void(Queue&)>& body) override {
    Queue queue{&pool_, nullptr};
    body(queue);
    return {};
  }
  Status finish() override { return {}; }

 private:
  Pool pool_;
};

}  // namespace

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  CHECK(device_ != nullptr);
  device_->free(data_, bytes_);
}

std::unique_ptr<Device> make_host_device(int threads) { return std::make_unique<HostDevice>(threads); }

}  // namespace evros::device
