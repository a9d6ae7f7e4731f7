// CUDA kernel: matrix product, a block per strip of 32 output rows and tile of up to eight rows of activations.
#include "kernels/cuda/product.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

/// Blocks of one strip lie side by side, so that its weights come from the cache after the first.
template <typename Codec, bool kIntegers, int kTokens>
__global__ void __launch_bounds__(kWarp* kProductWarps<kTokens>, kProductBlocks<Codec, kTokens>)
    matmul_kernel(Batch batch, MatmulArgs a) {
  const int64_t tiles = round_up_div(batch.rows, kTokens), index = blockIdx.x / tiles,
                first = blockIdx.x % tiles * kTokens;
  Columns<kTokens> columns{
      a.x, a.x_stride, a.xq.segments, a.y, a.y_stride, static_cast<int>(smaller(kTokens, batch.rows - first)), {}, {}};
  EVROS_UNROLL
  for (int t = 0; t < kTokens; ++t)
    columns.in[t] = columns.out[t] = static_cast<int32_t>(first + (t < columns.count ? t : 0));
  multiply_strip<Codec, kIntegers>(a.w, index, columns);
}

template <typename Codec, bool kIntegers, int kTokens>
void launch_matmul(device::Queue& queue, const Batch& batch, const MatmulArgs& a) {
  const int64_t blocks = round_up_div(a.w.rows, kStripRows) * round_up_div(batch.rows, kTokens);
  launch(queue, blocks, product_threads<kTokens>(a.w.cols), matmul_kernel<Codec, kIntegers, kTokens>, batch, a);
}

template <typename Codec, bool kIntegers>
void matmul_of(device::Queue& queue, const Batch& batch, const MatmulArgs& a) {
  if (batch.rows == 1 || !kTiles<Codec, kIntegers>) return launch_matmul<Codec, kIntegers, 1>(queue, batch, a);
  if constexpr (!HasGroups<Codec>) {
    if (batch.rows <= 4) return launch_matmul<Codec, kIntegers, 4>(queue, batch, a);
  }
  if constexpr (kTiles<Codec, kIntegers>) launch_matmul<Codec, kIntegers, 8>(queue, batch, a);
}

}  // namespace

void matmul(device::Queue& queue, const Batch& batch, const MatmulArgs& a) {
  with_codec(a.w.type, [&]<typename Codec>() {
    if constexpr (Codec::kQuantised) {
      if (!a.xq.empty()) return matmul_of<Codec, true>(queue, batch, a);
    }
    matmul_of<Codec, false>(queue, batch, a);
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
