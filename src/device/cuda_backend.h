// What crosses the border between the program and its CUDA library, libevros_cuda.so: one plain struct of functions, so
// that the two share no allocator, no exception and no C++ runtime. The library exports
//
//   extern "C" const EvrosCudaBackend* evros_cuda_backend();      // device/cuda/backend.cu
//   extern "C" const evros::kernels::Kernels* evros_cuda_kernels();   // kernels/cuda
//
// and nothing else; cuda_device.cc opens it. Every function returns a result that names what went wrong, with strings that
// live as long as the library. Thread rule: as Device.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Of this struct and of the kernel table's arguments together: the two files come from one build.
constexpr uint32_t kEvrosCudaVersion = 1;

/// What one call came to. `name` is null when all is well, else the CUDA error's name, "cudaErrorMemoryAllocation", and
/// `text` is CUDA's sentence about it.
struct EvrosCudaResult {
  const char* name;
  const char* text;
  bool out_of_memory;
  bool lost;  // sticky: the context is destroyed and every allocation with it
};

struct EvrosCudaBackend {
  uint32_t version;
  /// Opens GPU `index` with one ordered stream; `stream` is what kernels launch on. When an earlier opening was lost, the
  /// GPU's context in this process is reset first, which CUDA may refuse.
  EvrosCudaResult (*open)(int index, void** stream);
  void (*close)(void* stream);
  /// Free memory of the opened GPU.
  EvrosCudaResult (*memory)(uint64_t* free_bytes, uint64_t* total_bytes);
  EvrosCudaResult (*allocate)(uint64_t bytes, void** data);
  EvrosCudaResult (*release)(void* data);
  /// Ordered on the stream; host memory may be reused when the call returns.
  EvrosCudaResult (*upload)(void* stream, void* to, const void* from, uint64_t bytes);
  EvrosCudaResult (*download)(void* stream, void* to, const void* from, uint64_t bytes);
  EvrosCudaResult (*copy)(void* stream, void* to, const void* from, uint64_t bytes);
  EvrosCudaResult (*fill)(void* stream, void* to, uint8_t value, uint64_t bytes);
  /// Waits for everything enqueued.
  EvrosCudaResult (*finish)(void* stream);
  /// Did a launch since the last call fail? Waits for nothing.
  EvrosCudaResult (*launched)();
};

}  // extern "C"
