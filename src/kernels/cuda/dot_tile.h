// Float chains of cached rows (keys of attention, block keys of QSA) with up to eight vectors, by a block of 256 threads: lanes
// are 32 rows that lie apart, warps are vectors. The block brings the rows into shared memory piece by piece, so that
// neighbouring threads read neighbouring elements.
#pragma once

#include "kernels/codec/bf16.h"
#include "kernels/codec/f16.h"
#include "kernels/codec/f32.h"
#include "kernels/cuda/grid.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

constexpr int kTileRows = kWarp;
constexpr int kTileVectors = kThreads / kWarp;
constexpr int kPiece = 64;  // elements of every row; divides a segment
static_assert(kSegment % kPiece == 0);

struct DotTile {
  const std::byte* row[kTileRows];     // null: none
  float value[kTileRows][kPiece + 1];  // one column more: lanes that go down a column meet different banks
};

/// Element i of a cached row.
template <typename Codec>
__device__ float element(const std::byte* row, int64_t i) {
  if constexpr (Codec::kBytes == 4) {
    return reinterpret_cast<const float*>(row)[i];
  } else {
    const uint16_t bits = reinterpret_cast<const uint16_t*>(row)[i];
    float x;
    Codec::decode(reinterpret_cast<const std::byte*>(&bits), &x);
    return x;
  }
}

/// tile.row[lane] . x over k elements, for this lane and its warp's vector x; 0 where either is null. Every thread of the block
/// calls it, with tile.row written before. Begins and ends with a barrier.
template <typename Codec>
__device__ float dot_tile(DotTile& tile, int64_t k, const float* x) {
  float y = 0.0f, acc = 0.0f;
  const bool mine = x != nullptr;
  for (int64_t k0 = 0; k0 < k; k0 += kPiece) {
    const int n = static_cast<int>(smaller(kPiece, k - k0));
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kPiece; i += kThreads) {
      const std::byte* row = tile.row[i / kPiece];
      if (row != nullptr && i % kPiece < n) tile.value[i / kPiece][i % kPiece] = element<Codec>(row, k0 + i % kPiece);
    }
    __syncthreads();
    if (mine && tile.row[lane_index()] != nullptr) {
      for (int i = 0; i < n; ++i) acc = fma(tile.value[lane_index()][i], x[k0 + i], acc);
    }
    if ((k0 + kPiece) % kSegment == 0 || k0 + kPiece >= k) {
      y = k0 < kSegment ? acc : y + acc;
      acc = 0.0f;
    }
  }
  __syncthreads();
  return y;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
