// How kernels are launched, and what the threads of a block or a warp do together. Grids have one dimension, whose limit
// (2^31 blocks) no batch reaches; blocks consist of whole warps; no kernel uses more than 48 KiB of shared memory. A launch
// that CUDA refuses leaves its error where cudaGetLastError() finds it: the caller of the table looks there.
#pragma once

#include <cstdint>

#ifdef EVROS_EMULATE_CUDA
#include "kernels/cuda/emulate.h"
#define EVROS_UNROLL
#define EVROS_UNROLL_8
#else
#include <cuda_runtime.h>
#define EVROS_UNROLL _Pragma("unroll")
#define EVROS_UNROLL_8 _Pragma("unroll 8")
#endif

#include "device/device.h"
#include "kernels/ref/chains.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

constexpr int kWarp = 32;
constexpr int kThreads = 256;  // of a block, where nothing asks for another size
constexpr unsigned kAllLanes = 0xffffffffu;

/// Of this thread in the whole grid.
__device__ inline int64_t thread_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int lane_index() { return static_cast<int>(threadIdx.x % kWarp); }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x / kWarp); }
__device__ inline int warp_count() { return static_cast<int>(blockDim.x / kWarp); }

EVROS_HD constexpr int64_t round_up_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

/// Enqueues kernel(args...) on the queue's stream; nothing when there are no blocks.
template <typename... Params, typename... Args>
void launch(device::Queue& queue, int64_t blocks, int threads, void (*kernel)(Params...), const Args&... args) {
  if (blocks <= 0) return;
#ifdef EVROS_EMULATE_CUDA
  static_cast<void>(queue);
  emulated_cuda::run(blocks, threads, [&] { kernel(args...); });
#else
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = static_cast<cudaStream_t>(queue.stream);
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, args...));
#endif
}

template <typename Body>
__global__ void __launch_bounds__(kThreads) each_kernel(uint32_t rows, uint32_t width, Body body) {
  const uint64_t i = static_cast<uint64_t>(thread_index());
  if (i >= uint64_t{rows} * width) return;
  if (uint64_t{rows} * width <= 0xffffffffu) {  // division of 32 bits is several times cheaper
    const uint32_t n = static_cast<uint32_t>(i);
    body(static_cast<int64_t>(n / width), static_cast<int64_t>(n % width));
  } else {
    body(static_cast<int64_t>(i / width), static_cast<int64_t>(i % width));
  }
}

/// body(row, i) in a thread of its own for every row of [0, rows) and i of [0, width); neighbours in i are neighbouring lanes.
/// body is a __device__ lambda that captures by value.
template <typename Body>
void for_each_element(device::Queue& queue, int64_t rows, int64_t width, const Body& body) {
  launch(queue, round_up_div(rows * width, kThreads), kThreads, each_kernel<Body>, static_cast<uint32_t>(rows),
         static_cast<uint32_t>(width), body);
}

/// The sum over 64 strided partials: step(p, i) is partial i % 64 after element i. Every thread of the block (64 at least)
/// calls it and gets the sum; `shared` is 64 floats of the block.
template <typename Step>
__device__ float strided_sum(int64_t n, float (&shared)[kStrides], const Step& step) {
  __syncthreads();  // an earlier sum may still be read
  if (threadIdx.x < kStrides) {
    float p = 0.0f;
    EVROS_UNROLL_8
    for (int64_t i = threadIdx.x; i < n; i += kStrides) p = step(p, i);
    shared[threadIdx.x] = p;
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    float p = shared[threadIdx.x] + shared[threadIdx.x + kWarp];
    EVROS_UNROLL
    for (int h = kWarp / 2; h >= 1; h /= 2) p += __shfl_down_sync(kAllLanes, p, h);
    if (threadIdx.x == 0) shared[0] = p;
  }
  __syncthreads();
  return shared[0];
}

/// strided_sum of squares.
__device__ inline float block_sum_squares(const float* x, int64_t n, float (&shared)[kStrides]) {
  return strided_sum(n, shared, [&](float p, int64_t i) { return fma(x[i], x[i], p); });
}

/// The largest of x[0 .. n), for every thread of the block; finite values. `shared` is one float per warp.
__device__ inline float block_max(const float* x, int64_t n, float (&shared)[kWarp]) {
  float m = x[0];
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) m = x[i] > m ? x[i] : m;
  for (int h = kWarp / 2; h >= 1; h /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, m, h);
    m = other > m ? other : m;
  }
  __syncthreads();  // an earlier maximum may still be read
  if (lane_index() == 0) shared[warp_index()] = m;
  __syncthreads();
  for (int w = 0; w < warp_count(); ++w) m = shared[w] > m ? shared[w] : m;
  return m;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
