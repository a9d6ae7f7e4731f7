// CUDA kernels: attention in three steps. Scores: a block per row, K/V head and tile of 32 visible entries. Probabilities: a
// block per row and head. Values: a block per row, head and 32 columns, whose warps each sum a tile of 64 entries.
#include "kernels/cuda/dot_tile.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/visible.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

/// Where an entry's row of one K/V head lies; rows of a head have `width` elements of `bytes` each.
__device__ const std::byte* cached(const Visible& visible, const Batch& batch, const SequenceRows& sequence,
                                   const PageRows& page, int64_t entry, int64_t kv_head, int64_t width, int64_t bytes) {
  return page_row(batch, sequence, page, visible.position(entry)) + kv_head * width * bytes;
}

/// score = scale * (q . k): warps take the query heads of the K/V head, eight at a time.
template <typename Codec>
__global__ void __launch_bounds__(kThreads) scores_kernel(Batch batch, AttentionArgs a, float scale) {
  __shared__ DotTile tile;
  const int64_t tiles = round_up_div(a.score_stride, kTileRows), unit = blockIdx.x / tiles;
  const int64_t r = unit / a.kv_heads, kv_head = unit % a.kv_heads, e0 = blockIdx.x % tiles * kTileRows;
  const Visible visible(batch, a, r);
  if (e0 >= visible.count) return;  // the whole block
  const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
  const int64_t entry = e0 + lane_index(), group = a.heads / a.kv_heads;
  if (warp_index() == 0) {
    tile.row[lane_index()] = entry < visible.count
                                 ? cached(visible, batch, sequence, a.k, entry, kv_head, a.key_dim, Codec::kBytes)
                                 : nullptr;
  }
  __syncthreads();
  for (int64_t h0 = 0; h0 < group; h0 += kTileVectors) {
    const bool mine = h0 + warp_index() < group;
    const int64_t head = kv_head * group + h0 + warp_index();
    const float score =
        scale * dot_tile<Codec>(tile, a.key_dim, mine ? a.q + r * a.q_stride + head * a.key_dim : nullptr);
    if (!mine || entry >= visible.count) continue;
    if (!is_finite(score)) set_status(batch, r, kNonFinite);
    a.scores[(r * a.heads + head) * a.score_stride + entry] = score;
  }
}

/// Scores become p = exp(score - m).
__global__ void __launch_bounds__(kThreads) probabilities_kernel(Batch batch, AttentionArgs a) {
  __shared__ float shared[kWarp];
  const int64_t r = blockIdx.x / a.heads;
  const Visible visible(batch, a, r);
  if (visible.count == 0) return;  // the whole block
  float* scores = a.scores + blockIdx.x * a.score_stride;
  const float m = block_max(scores, visible.count, shared);
  for (int64_t e = threadIdx.x; e < visible.count; e += kThreads) scores[e] = exp(scores[e] - m);
}

/// out = (sum of p * v by tiles) / (sum of p by tiles). Each lane of a warp has a column; the tiles' sums are added in
/// order by warp 0.
template <typename Codec>
__global__ void __launch_bounds__(kThreads) values_kernel(Batch batch, AttentionArgs a) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ float values[kWarps][kWarp], sums[kWarps], weight[kWarps][kWarp];
  __shared__ const std::byte* row[kWarps][kWarp];
  const int64_t pieces = round_up_div(a.value_dim, kWarp), unit = blockIdx.x / pieces;
  const int64_t r = unit / a.heads, head = unit % a.heads, kv_head = head / (a.heads / a.kv_heads);
  const int lane = lane_index(), warp = warp_index();
  const int64_t column = blockIdx.x % pieces * kWarp + lane;
  const Visible visible(batch, a, r);
  const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
  const float* p = a.scores + unit * a.score_stride;
  float total = 0.0f, l = 0.0f;
  for (int64_t round = 0; round < visible.count; round += kWarps * kTile) {
    const int64_t begin = round + warp * kTile, end = smaller(begin + kTile, visible.count);
    float acc = 0.0f, sum = 0.0f;
    for (int64_t e0 = begin; e0 < end; e0 += kWarp) {
      // Each lane finds one entry; all take them in turn.
      const int64_t entry = e0 + lane;
      if (entry < end) {
        row[warp][lane] = cached(visible, batch, sequence, a.v, entry, kv_head, a.value_dim, Codec::kBytes);
        weight[warp][lane] = p[entry];
      }
      __syncwarp();
      const int n = static_cast<int>(smaller(kWarp, end - e0));
      EVROS_UNROLL_8
      for (int i = 0; i < n; ++i) {
        sum += weight[warp][i];
        if (column < a.value_dim) acc = fma(weight[warp][i], element<Codec>(row[warp][i], column), acc);
      }
      __syncwarp();
    }
    values[warp][lane] = acc;
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
      for (int w = 0; w < kWarps && round + w * kTile < visible.count; ++w) {
        const bool first = round == 0 && w == 0;
        total = first ? values[w][lane] : total + values[w][lane];
        l = first ? sums[w] : l + sums[w];
      }
    }
    __syncthreads();
  }
  if (warp == 0 && column < a.value_dim) a.out[r * a.out_stride + head * a.value_dim + column] = total / l;
}

template <typename Codec>
void attend(device::Queue& queue, const Batch& batch, const AttentionArgs& a) {
  const int64_t heads = int64_t{batch.rows} * a.heads;
  launch(queue, int64_t{batch.rows} * a.kv_heads * round_up_div(a.score_stride, kTileRows), kThreads,
         scores_kernel<Codec>, batch, a, inverse_sqrt(a.key_dim));
  launch(queue, heads, kThreads, probabilities_kernel, batch, a);
  launch(queue, heads * round_up_div(a.value_dim, kWarp), kThreads, values_kernel<Codec>, batch, a);
}

}  // namespace

void attention(device::Queue& queue, const Batch& batch, const AttentionArgs& a) {
  switch (a.type) {
    case CacheType::f32:
      return attend<F32>(queue, batch, a);
    case CacheType::f16:
      return attend<F16>(queue, batch, a);
    case CacheType::bf16:
      return attend<Bf16>(queue, batch, a);
  }
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
