// CUDA kernel: rows of the K/V cache, a thread per element.
#include "kernels/codec/float16.h"
#include "kernels/cuda/grid.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

/// Rounds x to a 16-bit type and stores it; false when a finite value became infinite.
__device__ bool store_half(CacheType type, float x, uint16_t* out) {
  const uint16_t bits = type == CacheType::f16 ? f32_to_f16(x) : f32_to_bf16(x);
  const uint16_t infinity = type == CacheType::f16 ? 0x7c00u : 0x7f80u;
  *out = bits;
  return !is_finite(x) || (bits & 0x7fffu) != infinity;
}

}  // namespace

void store_rows(device::Queue& queue, const Batch& batch, const StoreRowsArgs& a) {
  for_each_element(queue, batch.rows, a.width, [=] __device__(int64_t r, int64_t i) {
    const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
    std::byte* out = page_row(batch, sequence, a.page, batch.row_position[r]);
    const float x = a.x[r * a.x_stride + i];
    if (!is_finite(x)) set_status(batch, r, kNonFinite);
    if (a.type == CacheType::f32) {
      reinterpret_cast<float*>(out)[i] = x;
    } else if (!store_half(a.type, x, reinterpret_cast<uint16_t*>(out) + i)) {
      set_status(batch, r, kCacheOverflow);
    }
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
