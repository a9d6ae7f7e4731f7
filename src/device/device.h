// A place where state lives and stages run: the host, or a GPU. Memory, ordered execution, completion. All of it goes
// through this interface so that tests can make every allocation, launch and completion fail (sim/).
//
// Thread rule: one thread at a time drives a Device (the engine's), except allocate/free, which may be called from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "device/pool.h"

namespace evros::kernels {
struct Kernels;
}

namespace evros::device {

class Device;

/// Device memory; freed by its destructor. 64-byte aligned at least. Movable, owned by exactly one holder.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device* device, std::byte* data, uint64_t bytes) : device_(device), data_(data), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer();
  /// Null for an empty buffer. Host code may dereference it only where Device::host_addressable().
  std::byte* data() const { return data_; }
  /// What was asked for; the content is undefined until something is written.
  uint64_t bytes() const { return bytes_; }
  /// The same address as a T.
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

/// What kernels run on: the host's pool, or a GPU stream. Handed to every kernel.
struct Queue {
  Pool* pool = nullptr;    // host
  void* stream = nullptr;  // cudaStream_t
};

/// A block of floats that a stage wrote: `rows` rows of `width`, row r at data + r * stride.
struct StageOutput {
  float* data;
  int64_t rows, width, stride;
};

/// One stage of the forward pass, as the device sees it; sim/ hangs its faults on these.
struct StageInfo {
  std::string_view name;                 // "gdn_delta"
  int32_t layer;                         // -1 where the stage belongs to no layer
  int32_t index;                         // place in the stage list
  std::span<const StageOutput> outputs;  // none for the finite check that follows a stage
  std::span<uint32_t> status;            // one word per sequence of the batch, device memory
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // "cpu", "cuda:0"
  virtual bool host_addressable() const = 0;  // may host code dereference its memory
  /// The kernel table that runs here and nowhere else; null: the tables of the host do.
  virtual const kernels::Kernels* kernels() const { return nullptr; }
  /// A sticky error has destroyed everything that lay here. Every call fails with Code::device from then on, free() does
  /// nothing; what can be done is to destroy it and open another.
  virtual bool lost() const { return false; }
  /// Bytes that are free where allocate() takes them from. None: they are the host's (io/memory.h measures that), or it is
  /// not known.
  virtual std::optional<uint64_t> free_memory() const { return std::nullopt; }
  /// Fails with out_of_memory, naming `what` and the bytes. Content is undefined.
  virtual Result<Buffer> allocate(uint64_t bytes, std::string_view what) = 0;
  /// Gives memory of allocate() back; Buffer is the one that calls it.
  virtual void free(std::byte* data, uint64_t bytes) noexcept = 0;
  /// Ordered copies and fills; host pointers may be reused when the call returns.
  virtual Status upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual Status download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual Status copy(std::byte* to, const std::byte* from, uint64_t bytes) = 0;
  virtual Status fill(std::byte* to, uint8_t value, uint64_t bytes) = 0;
  /// Runs or enqueues a stage. An error means that it was refused and wrote nothing that matters.
  virtual Status launch(const StageInfo& stage, const std::function<void(Queue&)>& body) = 0;
  /// Waits until everything enqueued is done; an asynchronous failure surfaces here.
  virtual Status finish() = 0;
};

/// The machine's own memory and cores. `threads` >= 1.
std::unique_ptr<Device> make_host_device(int threads);

}  // namespace evros::device
