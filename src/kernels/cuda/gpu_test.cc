// The tests of the kernels on a GPU: the CUDA table stands in the place of the host's in the tests of the folders ref/ and cpu/
// and of bits_test.cc. Those keep their data in ordinary containers; here everything allocated with new lies in one piece
// of page-locked memory that the GPU addresses under the same pointers, and every entry waits for its kernels.
//
// Without a GPU the program says so in one line and runs nothing.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "kernels/cuda/cuda.h"
#include "kernels/test_support.h"

namespace {

/// Blocks of powers of two, each behind a header of 64 bytes that names its power; freed blocks are used again. Until
/// start(), and for what was allocated before, malloc.
class PageLocked {
 public:
  cudaError_t start(size_t bytes) {
    void* memory = nullptr;
    const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    if (error != cudaSuccess) return error;
    const std::scoped_lock lock(mutex_);
    begin_ = next_ = static_cast<std::byte*>(memory);
    end_ = begin_ + bytes;
    return cudaSuccess;
  }

  void* allocate(size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (begin_ == nullptr) return std::aligned_alloc(kHeader, (bytes + kHeader) / kHeader * kHeader);
    const int power = static_cast<int>(std::bit_width(std::max(bytes, kHeader) - 1));
    if (Free* block = free_[power]; block != nullptr) {
      free_[power] = block->next;
      return block;
    }
    const size_t size = kHeader + (size_t{1} << power);
    if (static_cast<size_t>(end_ - next_) < size) {
      std::fputs("the tests need more page-locked memory than was set aside\n", stderr);
      std::abort();
    }
    std::byte* block = next_ + kHeader;
    next_ += size;
    *reinterpret_cast<int*>(block - kHeader) = power;
    return block;
  }

  void free(void* memory) {
    const std::scoped_lock lock(mutex_);
    std::byte* block = static_cast<std::byte*>(memory);
    if (block < begin_ || block >= end_) return std::free(memory);
    const int power = *reinterpret_cast<int*>(block - kHeader);
    free_[power] = new (memory) Free{free_[power]};
  }

 private:
  static constexpr size_t kHeader = 64;
  struct Free {
    Free* next;
  };
  std::mutex mutex_;
  std::byte *begin_ = nullptr, *end_ = nullptr, *next_ = nullptr;
  Free* free_[64] = {};
};

constinit PageLocked page_locked;

}  // namespace

void* operator new(size_t bytes) { return page_locked.allocate(bytes); }
void* operator new(size_t bytes, std::align_val_t) { return page_locked.allocate(bytes); }
void operator delete(void* memory) noexcept { page_locked.free(memory); }
void operator delete(void* memory, size_t) noexcept { page_locked.free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { page_locked.free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { page_locked.free(memory); }

namespace evros::kernels {
namespace {

template <typename Args>
using Entry = void (*)(device::Queue&, const Batch&, const Args&);

/// An entry of the CUDA table that returns when its kernels are done. After an error nothing on the GPU can be trusted any more.
template <auto kEntry>
struct Waiting;
template <typename Args, Entry<Args> Kernels::*kEntry>
struct Waiting<kEntry> {
  static void run(device::Queue& queue, const Batch& batch, const Args& args) {
    (evros_cuda_kernels()->*kEntry)(queue, batch, args);
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error == cudaSuccess) return;
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "%s.%s: %s: %s\n%s\n", test->test_suite_name(), test->name(), cudaGetErrorName(error),
                 cudaGetErrorString(error), __PRETTY_FUNCTION__);
    std::fflush(stderr);
    std::_Exit(1);
  }
};

constexpr Kernels kWaiting = {
    .name = "cuda",
    .embed = Waiting<&Kernels::embed>::run,
    .quantize = Waiting<&Kernels::quantize>::run,
    .matmul = Waiting<&Kernels::matmul>::run,
    .rms_norm = Waiting<&Kernels::rms_norm>::run,
    .rope = Waiting<&Kernels::rope>::run,
    .swiglu = Waiting<&Kernels::swiglu>::run,
    .keep_last = Waiting<&Kernels::keep_last>::run,
    .gather_last = Waiting<&Kernels::gather_last>::run,
    .check_finite = Waiting<&Kernels::check_finite>::run,
    .hc_low = Waiting<&Kernels::hc_low>::run,
    .hc_mix = Waiting<&Kernels::hc_mix>::run,
    .hc_write = Waiting<&Kernels::hc_write>::run,
    .gdn_conv = Waiting<&Kernels::gdn_conv>::run,
    .gdn_qk_norm = Waiting<&Kernels::gdn_qk_norm>::run,
    .gdn_gates = Waiting<&Kernels::gdn_gates>::run,
    .gdn_delta = Waiting<&Kernels::gdn_delta>::run,
    .gdn_out_norm = Waiting<&Kernels::gdn_out_norm>::run,
    .store_rows = Waiting<&Kernels::store_rows>::run,
    .index_store = Waiting<&Kernels::index_store>::run,
    .qsa_select = Waiting<&Kernels::qsa_select>::run,
    .attention = Waiting<&Kernels::attention>::run,
    .head_gate = Waiting<&Kernels::head_gate>::run,
    .router = Waiting<&Kernels::router>::run,
    .experts = Waiting<&Kernels::experts>::run,
    .shared_add = Waiting<&Kernels::shared_add>::run,
    .keep_routes = Waiting<&Kernels::keep_routes>::run,
    .ple_rows = Waiting<&Kernels::ple_rows>::run,
    .ple_gate = Waiting<&Kernels::ple_gate>::run,
    .ple_conv = Waiting<&Kernels::ple_conv>::run,
};

}  // namespace
}  // namespace evros::kernels

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) error = page_locked.start(size_t{1} << 30);
  if (error != cudaSuccess || devices == 0) {
    std::printf("no CUDA device (%s): %d cases not run\n", cudaGetErrorString(error),
                testing::UnitTest::GetInstance()->total_test_count());
    return 0;
  }
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess) std::printf("on %s\n", properties.name);
  evros::kernels::other_tables() = {&evros::kernels::kWaiting};
  return RUN_ALL_TESTS();
}
