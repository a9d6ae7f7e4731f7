// The CUDA side of cuda_backend.h: each function is a few calls of the runtime and the name of what they returned.
#include <cuda_runtime.h>

#include "device/cuda_backend.h"

namespace {

// The context of this process was destroyed by a sticky error and not made anew since.
bool g_lost = false;

// Small host buffers are staged by the runtime before an asynchronous copy returns; larger ones are waited for.
constexpr uint64_t kStagedBytes = 64 << 10;

EvrosCudaResult none() { return {nullptr, nullptr, false, false}; }

// A sticky error is one that stays: after it is read away, the next thing that synchronises returns it again.
bool stays(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation || error == cudaErrorInvalidValue) return false;
  cudaGetLastError();
  const cudaError_t again = cudaDeviceSynchronize();
  cudaGetLastError();
  return again != cudaSuccess;
}

EvrosCudaResult result(cudaError_t error) {
  if (error == cudaSuccess) return none();
  const bool lost = stays(error);
  cudaGetLastError();
  g_lost = g_lost || lost;
  return {cudaGetErrorName(error), cudaGetErrorString(error), error == cudaErrorMemoryAllocation, lost};
}

cudaStream_t queue(void* stream) { return static_cast<cudaStream_t>(stream); }

EvrosCudaResult open(int index, void** stream) {
  if (g_lost) {
    // Tells the driver to throw the broken context away; where that helps, the calls below work again.
    if (const cudaError_t reset = cudaDeviceReset(); reset != cudaSuccess) return result(reset);
  }
  cudaGetLastError();
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    cudaGetLastError();
    return {cudaGetErrorName(error), cudaGetErrorString(error), false, false};
  }
  if (index >= count) return {cudaGetErrorName(cudaErrorNoDevice), cudaGetErrorString(cudaErrorNoDevice), false, false};
  if (const cudaError_t error = cudaSetDevice(index); error != cudaSuccess) return result(error);
  cudaStream_t made = nullptr;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking); error != cudaSuccess)
    return result(error);
  if (const cudaError_t error = cudaStreamSynchronize(made); error != cudaSuccess) return result(error);
  g_lost = false;
  *stream = made;
  return none();
}

void close(void* stream) { cudaStreamDestroy(queue(stream)); }

EvrosCudaResult memory(uint64_t* free_bytes, uint64_t* total_bytes) {
  size_t available = 0, total = 0;
  const cudaError_t error = cudaMemGetInfo(&available, &total);
  *free_bytes = available;
  *total_bytes = total;
  return result(error);
}

EvrosCudaResult allocate(uint64_t bytes, void** data) { return result(cudaMalloc(data, bytes)); }
EvrosCudaResult release(void* data) { return result(cudaFree(data)); }

EvrosCudaResult upload(void* stream, void* to, const void* from, uint64_t bytes) {
  cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue(stream));
  if (error == cudaSuccess && bytes > kStagedBytes) error = cudaStreamSynchronize(queue(stream));
  return result(error);
}

EvrosCudaResult download(void* stream, void* to, const void* from, uint64_t bytes) {
  cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue(stream));
  if (error == cudaSuccess) error = cudaStreamSynchronize(queue(stream));
  return result(error);
}

EvrosCudaResult copy(void* stream, void* to, const void* from, uint64_t bytes) {
  return result(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue(stream)));
}

EvrosCudaResult fill(void* stream, void* to, uint8_t value, uint64_t bytes) {
  return result(cudaMemsetAsync(to, value, bytes, queue(stream)));
}

EvrosCudaResult finish(void* stream) { return result(cudaStreamSynchronize(queue(stream))); }
EvrosCudaResult launched() { return result(cudaPeekAtLastError()); }

constexpr EvrosCudaBackend kBackend{kEvrosCudaVersion, open, close, memory, allocate, release, upload,
                                    download,          copy, fill,  finish, launched};

}  // namespace

extern "C" __attribute__((visibility("default"))) const EvrosCudaBackend* evros_cuda_backend() { return &kBackend; }
