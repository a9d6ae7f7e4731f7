// CUDA kernel: rows of the K/V cache, a thread per element.
#include "kernels/cuda/grid.h"
#include "kernels/ref/cache_value.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

void store_rows(device::Queue& queue, const Batch& batch, const StoreRowsArgs& a) {
  for_each_element(queue, batch.rows, a.width, [=] __device__(int64_t r, int64_t i) {
    const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
    std::byte* out = page_row(batch, sequence, a.page, batch.row_position[r]);
    const float x = a.x[r * a.x_stride + i];
    if (!is_finite(x)) set_status(batch, r, kNonFinite);
    if (a.type == CacheType::f32) {
      reinterpret_cast<float*>(out)[i] = x;
    } else if (!round_to_cache(a.type, x, reinterpret_cast<uint16_t*>(out) + i)) {
      set_status(batch, r, kCacheOverflow);
    }
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
