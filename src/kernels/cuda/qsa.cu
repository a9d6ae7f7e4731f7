// CUDA kernels: the QSA indexer's block keys and the selection of blocks.
#include "kernels/cuda/dot_tile.h"
#include "kernels/ref/index_rows.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

// ---- block keys ----------------------------------------------------------------------------------------------------------

/// A block per row: checks its raw key and, where the row completes a block of positions, makes the block's key.
__global__ void __launch_bounds__(kThreads) block_key_kernel(Batch batch, IndexStoreArgs a) {
  __shared__ float shared[kStrides];
  const int64_t r = blockIdx.x, position = batch.row_position[r];
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) {
    if (!is_finite(a.raw[r * a.raw_stride + i])) set_status(batch, r, kNonFinite);
  }
  if ((position + 1) % a.ratio != 0) return;  // the whole block
  const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
  const int64_t begin = position + 1 - a.ratio;
  float* key = reinterpret_cast<float*>(page_row(batch, sequence, a.page, begin));
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) {
    float sum = raw_key(a, sequence, begin)[i];
    for (int64_t j = 1; j < a.ratio; ++j) sum += raw_key(a, sequence, begin + j)[i];
    key[i] = sum / static_cast<float>(a.ratio);
  }
  // Its barriers also show every thread the whole key, before the sum and after.
  const float scale = 1.0f / sqrt(block_sum_squares(key, a.dim, shared) / static_cast<float>(a.dim) + a.eps);
  if (threadIdx.x == 0 && scale == 0.0f) set_status(batch, r, kNonFinite);  // the squares overflowed
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) key[i] = (key[i] * scale) * a.gain[i];
  __syncthreads();
  const int64_t half = a.rope_dims / 2;
  const float* phases = a.block_rope + r * a.rope_dims;
  for (int64_t i = threadIdx.x; i < half; i += kThreads) {
    const float c = phases[2 * i], s = phases[2 * i + 1], x0 = key[i], x1 = key[i + half];
    key[i] = fma(x0, c, -(x1 * s));
    key[i + half] = fma(x0, s, x1 * c);
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) {
    if (!is_finite(key[i])) set_status(batch, r, kNonFinite);
  }
}

// ---- scores --------------------------------------------------------------------------------------------------------------

/// A block per row and tile of 32 block keys: warps take the heads, eight at a time; warp 0 adds them up in order.
__global__ void __launch_bounds__(kThreads) block_scores_kernel(Batch batch, QsaSelectArgs a, float scale) {
  __shared__ DotTile tile;
  __shared__ float dots[kTileVectors][kTileRows];
  const int64_t tiles = round_up_div(a.score_stride, kTileRows), r = blockIdx.x / tiles;
  const int64_t complete = (batch.row_position[r] + 1) / a.ratio, b0 = blockIdx.x % tiles * kTileRows;
  if (complete <= a.keep || b0 >= complete) return;  // the whole block
  const int lane = lane_index(), warp = warp_index();
  const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
  const int64_t block = b0 + lane;
  if (warp == 0) {
    tile.row[lane] = block < complete ? page_row(batch, sequence, a.page, block * a.ratio) : nullptr;
  }
  __syncthreads();
  float score = 0.0f;
  for (int64_t h0 = 0; h0 < a.heads; h0 += kTileVectors) {
    const int64_t head = h0 + warp;
    dots[warp][lane] = dot_tile<F32>(tile, a.dim, head < a.heads ? a.q + r * a.q_stride + head * a.dim : nullptr);
    if (!is_finite(dots[warp][lane])) set_status(batch, r, kNonFinite);
    __syncthreads();
    if (warp == 0) {
      for (int64_t h = 0; h < smaller(kTileVectors, a.heads - h0); ++h) score += relu(dots[h][lane]);
    }
    __syncthreads();
  }
  if (warp == 0 && block < complete) a.scores[r * a.score_stride + block] = score * scale;
}

// ---- selection -----------------------------------------------------------------------------------------------------------

constexpr int kSelectThreads = 1024;

/// The last block to be taken, by score: all above `score`, and of those at it the first `ties`.
struct Cut {
  uint32_t score;
  int32_t ties;
};

/// The keep-th largest of more than keep scores, which are never negative: their bits order as integers do. Found byte by byte
/// from the highest, each from a count of the scores that agree in the bytes before.
__device__ Cut cut_scores(const float* scores, int64_t count, int32_t keep, int32_t (&counts)[256], Cut& shared) {
  if (threadIdx.x == 0) shared = {0, keep};
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += kSelectThreads) counts[i] = 0;
    __syncthreads();
    const Cut cut = shared;
    for (int64_t b = threadIdx.x; b < count; b += kSelectThreads) {
      const uint32_t bits = float_bits(scores[b]);
      if ((uint64_t{bits ^ cut.score} >> (shift + 8)) == 0) atomicAdd(&counts[(bits >> shift) & 255u], 1);
    }
    __syncthreads();
    if (warp_index() == 0) {  // a lane for eight bytes: the cut lies in those of just one
      int32_t own = 0;
      for (int i = 0; i < 8; ++i) own += counts[8 * lane_index() + i];
      int32_t from = own;  // scores of these bytes and of all higher ones
      for (int h = 1; h < kWarp; h *= 2) {
        const int32_t higher = __shfl_down_sync(kAllLanes, from, h);
        from += lane_index() + h < kWarp ? higher : 0;
      }
      int32_t ties = cut.ties - (from - own);
      if (ties > 0 && ties <= own) {
        uint32_t byte = 8 * static_cast<uint32_t>(lane_index()) + 7;
        for (; counts[byte] < ties; --byte) ties -= counts[byte];
        shared = {cut.score | (byte << shift), ties};
      }
    }
    __syncthreads();
  }
  return shared;
}

/// A block per row. Takes the blocks in ascending order: a piece of kSelectThreads at a time, one to a thread, whose places
/// follow from how many before them were taken.
__global__ void __launch_bounds__(kSelectThreads) select_kernel(Batch batch, QsaSelectArgs a) {
  __shared__ int32_t counts[256], above_of[kWarp], equal_of[kWarp];
  __shared__ Cut shared;
  const int64_t r = blockIdx.x, complete = (batch.row_position[r] + 1) / a.ratio;
  int32_t* selected = a.selected + r * a.keep;
  if (complete <= a.keep) {
    for (int64_t b = threadIdx.x; b < a.keep; b += kSelectThreads) {
      selected[b] = b < complete ? static_cast<int32_t>(b) : -1;
    }
    return;  // the whole block
  }
  const float* scores = a.scores + r * a.score_stride;
  const Cut cut = cut_scores(scores, complete, a.keep, counts, shared);
  const uint32_t lanes_before = (1u << lane_index()) - 1;
  int32_t above = 0, equal = 0;  // in the pieces before
  for (int64_t b0 = 0; b0 < complete; b0 += kSelectThreads) {
    const int64_t b = b0 + threadIdx.x;
    const uint32_t bits = b < complete ? float_bits(scores[b]) : 0;
    const bool is_above = b < complete && bits > cut.score, is_equal = b < complete && bits == cut.score;
    const uint32_t above_bits = __ballot_sync(kAllLanes, is_above), equal_bits = __ballot_sync(kAllLanes, is_equal);
    if (lane_index() == 0) {
      above_of[warp_index()] = __popc(above_bits);
      equal_of[warp_index()] = __popc(equal_bits);
    }
    __syncthreads();
    int32_t above_before = above + __popc(above_bits & lanes_before);
    int32_t equal_before = equal + __popc(equal_bits & lanes_before);
    for (int w = 0; w < kSelectThreads / kWarp; ++w) {
      above_before += w < warp_index() ? above_of[w] : 0;
      equal_before += w < warp_index() ? equal_of[w] : 0;
      above += above_of[w];
      equal += equal_of[w];
    }
    if (is_above || (is_equal && equal_before < cut.ties)) {
      const int32_t ties_before = equal_before < cut.ties ? equal_before : cut.ties;
      selected[above_before + ties_before] = static_cast<int32_t>(b);
    }
    __syncthreads();
  }
}

}  // namespace

void index_store(device::Queue& queue, const Batch& batch, const IndexStoreArgs& a) {
  launch(queue, batch.rows, kThreads, block_key_kernel, batch, a);
  // The incomplete block's raw rows into the private bank, zeros after them.
  for_each_element(queue, batch.sequences, int64_t{a.ratio - 1} * a.dim, [=] __device__(int64_t s, int64_t i) {
    const SequenceRows& sequence = batch.sequence[s];
    const int64_t end = sequence.position + sequence.rows, position = end / a.ratio * a.ratio + i / a.dim;
    float* out = reinterpret_cast<float*>(sequence.bank_out + a.bank_offset);
    out[i] = position < end ? raw_key(a, sequence, position)[i % a.dim] : 0.0f;
  });
}

void qsa_select(device::Queue& queue, const Batch& batch, const QsaSelectArgs& a) {
  launch(queue, batch.rows * round_up_div(a.score_stride, kTileRows), kThreads, block_scores_kernel, batch, a,
         inverse_sqrt(a.dim));
  launch(queue, batch.rows, kSelectThreads, select_kernel, batch, a);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
