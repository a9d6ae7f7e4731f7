// Kernels that go wrong on purpose, for the test program tests/cuda/lost.cc.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void write_to(uint32_t* nowhere) { nowhere[threadIdx.x] = 1; }

}  // namespace

/// Writes to an address that nothing was ever allocated at: a sticky error, seen when somebody waits.
void evros_write_out_of_bounds(void* stream) {
  write_to<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(reinterpret_cast<uint32_t*>(uint64_t{1} << 60));
}

/// A block of more threads than any GPU has: refused at once, the context lives.
void evros_launch_too_wide(void* stream) { write_to<<<1, 1 << 16, 0, static_cast<cudaStream_t>(stream)>>>(nullptr); }
