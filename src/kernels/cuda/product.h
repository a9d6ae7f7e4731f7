// A strip of weights times up to kTokens rows of activations, by a block: lanes are the strip's rows, warps take the segments of
// k in turn, and the segments' sums meet in shared memory, where they are added in ascending order. A weight is read once for
// all the rows.
#pragma once

#include "kernels/cuda/block_words.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Warps of a block, at most, and blocks that a multiprocessor's registers should hold. One row of activations waits for memory:
/// many threads; more rows, or blocks of 256 weights, need more registers a thread.
template <int kTokens>
constexpr int kProductWarps = kTokens == 1 ? 10 : 8;
template <typename Codec, int kTokens>
constexpr int kProductBlocks = kTokens == 1 && Codec::kBlock < kSegment ? 2 : 1;
constexpr int kRound = 32;  // segments whose sums are in shared memory at a time

/// Are there kernels for several rows of activations? For the formats of codec/lane.h, which are many, only of the integer chain,
/// and then for eight alone.
template <typename Codec, bool kIntegers>
constexpr bool kTiles = kIntegers || !HasGroups<Codec>;

/// Threads of a block for rows of k elements.
template <int kTokens>
int product_threads(int64_t k) {
  return static_cast<int>(kWarp * smaller(quant_segments(k), kProductWarps<kTokens>));
}

/// The rows of activations and of outputs that a block works on: `count` of kTokens.
template <int kTokens>
struct Columns {
  const float* x;
  int64_t x_stride;
  const QuantSegment* q;  // rows of quant_segments(k); read by the integer chain only
  float* y;               // of the whole matrix
  int64_t y_stride;
  int count;
  int32_t in[kTokens], out[kTokens];  // numbers of rows; those from `count` on repeat the first
};

/// One block of the integer chain, whose first element is `first` of the segment.
template <typename Codec, int kTokens>
__device__ void add_block(const BlockWords<Codec>& block, int first, int64_t segment, int64_t segments,
                          const Columns<kTokens>& columns, float (&acc)[kTokens]) {
  EVROS_UNROLL
  for (int g = 0; g < Codec::kBlock / Codec::kGroup; ++g) {
    GroupWords<Codec> group;
    group_of(block, g, group);
    const int at = first + g * Codec::kGroup;
    EVROS_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const QuantSegment& x = columns.q[columns.in[t] * segments + segment];
      const float d = x.d[at / 32];
      int32_t sum = 0;
      if constexpr (Codec::kMinimum || kOffset<Codec> != 0) {
        sum = x.sum[at / 16];
        if constexpr (Codec::kGroup == 32) sum += x.sum[at / 16 + 1];
      }
      acc[t] = fma(group.scale * d, static_cast<float>(group_dot(group, x, at, sum)), acc[t]);
      if constexpr (Codec::kMinimum) acc[t] = fma(-(group.minimum * d), static_cast<float>(sum), acc[t]);
    }
  }
}

/// Segment `segment` of the integer chain, `n` elements. Weights are on their way a few blocks before they are used; with many
/// rows of activations there is work to hide the wait, and registers are scarce.
template <typename Codec, int kTokens>
__device__ void integer_segment(const Strip& strip, int lane, bool aligned, int64_t segment, int64_t segments, int n,
                                const Columns<kTokens>& columns, float (&acc)[kTokens]) {
  constexpr int kBlocks = static_cast<int>(kSegment) / Codec::kBlock;
  constexpr int kAhead = kBlocks == 1 ? 1 : kTokens == 1 ? 4 : 2;
  for (int b0 = 0; b0 * Codec::kBlock < n; b0 += kAhead) {
    BlockWords<Codec> block[kAhead];
    EVROS_UNROLL
    for (int b = 0; b < kAhead; ++b) {
      if ((b0 + b) * Codec::kBlock < n) block[b].load(strip, lane, segment * kBlocks + b0 + b, aligned);
    }
    EVROS_UNROLL
    for (int b = 0; b < kAhead; ++b) {
      const int first = (b0 + b) * Codec::kBlock;
      if (first < n) add_block(block[b], first, segment, segments, columns, acc);
    }
  }
}

/// Element k of one lane's row, of a format whose blocks are single numbers.
template <typename Codec>
__device__ float plain_weight(const Strip& strip, int64_t lane, int64_t k) {
  const std::byte* at = strip.data + (k * strip.width + lane) * Codec::kBytes;
  float w;
  if constexpr (Codec::kBytes == 4) {
    w = *reinterpret_cast<const float*>(at);
  } else {
    const uint16_t bits = *reinterpret_cast<const uint16_t*>(at);
    Codec::decode(reinterpret_cast<const std::byte*>(&bits), &w);
  }
  return w;
}

/// Elements [begin, end) of the float chain, within one segment.
template <typename Codec, int kTokens>
__device__ void float_segment(format::TensorType type, const Strip& strip, int64_t lane, int64_t begin, int64_t end,
                              const Columns<kTokens>& columns, float (&acc)[kTokens]) {
  const float* x[kTokens];
  for (int t = 0; t < kTokens; ++t) x[t] = columns.x + columns.in[t] * columns.x_stride;
  if constexpr (Codec::kBlock == 1) {
    EVROS_UNROLL_8
    for (int64_t k = begin; k < end; ++k) {
      const float w = plain_weight<Codec>(strip, lane, k);
      EVROS_UNROLL
      for (int t = 0; t < kTokens; ++t) acc[t] = fma(w, x[t][k], acc[t]);
    }
  } else {  // quantised weights under the float rule: for comparisons, not for speed
    for (int64_t k = begin; k < end; k += Codec::kBlock) {
      std::byte bytes[Codec::kBytes];
      float w[Codec::kBlock];
      gather_block(strip, lane, k / Codec::kBlock, pieces_of(type, Codec::kBytes), bytes);
      Codec::decode(bytes, w);
      for (int i = 0; i < Codec::kBlock; ++i) {
        for (int t = 0; t < kTokens; ++t) acc[t] = fma(w[i], x[t][k + i], acc[t]);
      }
    }
  }
}

/// All rows of the strip `index` of w times the columns. The whole block calls it.
template <typename Codec, bool kIntegers, int kTokens>
__device__ void multiply_strip(const Matrix& w, int64_t index, const Columns<kTokens>& columns) {
  __shared__ float part[kRound][kTokens][kWarp];
  const Strip strip = strip_of(w, index);
  const int lane = lane_index(), warp = warp_index(), warps = warp_count();
  const int source = lane < strip.width ? lane : strip.width - 1;
  const bool aligned = strip.width % 2 == 0 && reinterpret_cast<uintptr_t>(strip.data) % 4 == 0;
  const int64_t segments = quant_segments(w.cols);
  const float scale = w.scale != nullptr ? *w.scale : 1.0f;  // 1 changes no bit
  for (int64_t s0 = 0; s0 < segments; s0 += kRound) {
    const int64_t s1 = smaller(s0 + kRound, segments);
    for (int64_t s = s0 + warp; s < s1; s += warps) {
      float acc[kTokens] = {};
      const int64_t begin = s * kSegment, end = smaller(begin + kSegment, w.cols);
      if constexpr (kIntegers) {
        integer_segment<Codec>(strip, source, aligned, s, segments, static_cast<int>(end - begin), columns, acc);
      } else {
        float_segment<Codec>(w.type, strip, source, begin, end, columns, acc);
      }
      EVROS_UNROLL
      for (int t = 0; t < kTokens; ++t) part[s - s0][t][lane] = acc[t];
    }
    __syncthreads();
    EVROS_UNROLL
    for (int t = 0; t < kTokens; ++t) {  // unrolled, because an index known late would put the columns out of registers
      if (t % warps != warp || t >= columns.count || lane >= strip.width) continue;
      float& y = columns.y[int64_t{columns.out[t]} * columns.y_stride + index * kStripRows + lane];
      float sum = s0 == 0 ? part[0][t][lane] : y + part[0][t][lane];
      for (int64_t s = s0 + 1; s < s1; ++s) sum += part[s - s0][t][lane];
      y = s1 == segments ? sum * scale : sum;
    }
    __syncthreads();  // before the next round writes its sums
  }
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
