// Vector kernel: scores of the complete blocks and the selection of the best. Lanes are blocks, whose pooled keys are
// transposed once for all the rows that score them.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/for_ranges.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

constexpr int64_t kTileBlocks = 2 * kWidth;  // two vectors of blocks: with four heads, eight chains side by side
constexpr int64_t kRowsPerUnit = 16;         // rows of one sequence that share transposed keys
constexpr int64_t kTilesPerUnit = 8;
constexpr int kHeads = 4;  // heads whose chains run side by side

/// One segment of kTileBlocks keys with blocks as lanes.
struct KeyTile {
  alignas(64) float k[kSegment][kTileBlocks];

  /// Keys at key[i], from element k0 on; blocks from `count` on repeat the last, elements beyond `n` are not used.
  void fill(const float* const* key, int64_t k0, int64_t n) {
    for (int64_t half = 0; half < kTileBlocks; half += kWidth) {
      for (int64_t d = 0; d < n; d += kWidth) {
        Vec row[kWidth];
        if (d + kWidth <= n) {
          for (int64_t i = 0; i < kWidth; ++i) row[i] = load(key[half + i] + k0 + d);
        } else {
          for (int64_t i = 0; i < kWidth; ++i) row[i] = load(key[half + i] + k0 + d, Part(n - d));
        }
        transpose(row);
        for (int64_t i = 0; i < kWidth && d + i < n; ++i) store(&k[d + i][half], row[i]);
      }
    }
  }
};

/// dots (+)= one segment of kCount heads with every block of the tile.
template <int kCount>
EVROS_INLINE void dot_heads(const KeyTile& tile, const float* q, int64_t dim, int64_t n, bool first,
                            float (*dots)[kTileBlocks]) {
  Vec acc[kCount][2];
  for (auto& head : acc) head[0] = head[1] = splat(0.0f);
  for (int64_t k = 0; k < n; ++k) {
    const Vec low = load(tile.k[k]), high = load(tile.k[k] + kWidth);
    for (int h = 0; h < kCount; ++h) {
      const Vec x = splat(q[h * dim + k]);
      acc[h][0] = fma(low, x, acc[h][0]);
      acc[h][1] = fma(high, x, acc[h][1]);
    }
  }
  for (int h = 0; h < kCount; ++h) {
    for (int i = 0; i < 2; ++i) {
      float* to = dots[h] + i * kWidth;
      store(to, first ? acc[h][i] : load(to) + acc[h][i]);
    }
  }
}

/// Rows [begin, end) of one sequence.
struct RowGroup {
  int64_t begin, end;
};

constexpr int kMostHeads = 16;  // more take the reference kernel

/// Scores of one tile of blocks for every row of the group that has them.
void score_tile(const QsaSelectArgs& a, const Batch& batch, const RowGroup& rows, int64_t b0) {
  const SequenceRows& sequence = batch.sequence[batch.row_sequence[rows.begin]];
  const int64_t most = (batch.row_position[rows.end - 1] + 1) / a.ratio;
  const Vec scale = splat(inverse_sqrt(a.dim));
  const float* key[kTileBlocks];
  for (int64_t i = 0; i < kTileBlocks; ++i) {
    const int64_t block = smaller(b0 + i, most - 1);
    key[i] = reinterpret_cast<const float*>(page_row(batch, sequence, a.page, block * a.ratio));
  }
  KeyTile tile;
  float dots[kRowsPerUnit][kMostHeads][kTileBlocks];
  for (int64_t k0 = 0; k0 < a.dim; k0 += kSegment) {
    const int64_t n = smaller(kSegment, a.dim - k0);
    tile.fill(key, k0, n);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* q = a.q + r * a.q_stride + k0;
      float(*to)[kTileBlocks] = dots[r - rows.begin];
      int64_t h = 0;
      for (; h + kHeads <= a.heads; h += kHeads) dot_heads<kHeads>(tile, q + h * a.dim, a.dim, n, k0 == 0, to + h);
      for (; h < a.heads; ++h) dot_heads<1>(tile, q + h * a.dim, a.dim, n, k0 == 0, to + h);
    }
  }
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const int64_t complete = (batch.row_position[r] + 1) / a.ratio;
    if (complete <= a.keep || complete <= b0) continue;
    float* scores = a.scores + r * a.score_stride + b0;
    Mask bad = not_finite(splat(0.0f));
    for_lanes(smaller(kTileBlocks, complete - b0), [&](int64_t i, auto lanes) {
      Vec sum = splat(0.0f);
      for (int64_t h = 0; h < a.heads; ++h) {
        const Vec dot = load(dots[r - rows.begin][h] + i, lanes);
        bad = bad | not_finite(dot);
        sum = sum + relu(dot);
      }
      store(scores + i, sum * scale, lanes);
    });
    if (any(bad)) set_status(batch, r, kNonFinite);
  }
}

/// How many of the scores are at least `cut`, by their bits: they are never negative.
int64_t count_reached(const float* scores, int64_t count, uint32_t cut) {
  const Ints below = splat(static_cast<int32_t>(cut) - 1);
  int64_t reached = 0, b = 0;
  for (; b + kWidth <= count; b += kWidth) reached += __builtin_popcount(bits(as_ints(load(scores + b)) > below));
  for (; b < count; ++b) reached += float_bits(scores[b]) >= cut ? 1 : 0;
  return reached;
}

/// The keep-th largest of count > keep scores, found bit by bit.
uint32_t cut_score(const float* scores, int64_t count, int64_t keep) {
  uint32_t cut = 0;
  for (uint32_t bit = 0x40000000u; bit != 0; bit >>= 1) {
    if (count_reached(scores, count, cut | bit) >= keep) cut |= bit;
  }
  return cut;
}

/// The best `keep` blocks, ascending: all above the cut, and of those at the cut the first.
void select_blocks(const float* scores, int64_t count, int64_t keep, int32_t* selected) {
  const uint32_t cut = cut_score(scores, count, keep);
  const Ints below = splat(static_cast<int32_t>(cut) - 1);
  int64_t at_cut = keep - count_reached(scores, count, cut + 1);
  int64_t taken = 0;
  const auto take = [&](int64_t b) {
    if (float_bits(scores[b]) == cut && at_cut-- <= 0) return;
    selected[taken++] = static_cast<int32_t>(b);
  };
  int64_t b = 0;
  for (; b + kWidth <= count; b += kWidth) {
    for (uint32_t reached = bits(as_ints(load(scores + b)) > below); reached != 0; reached &= reached - 1) {
      take(b + __builtin_ctz(reached));
    }
  }
  for (; b < count; ++b) {
    if (float_bits(scores[b]) >= cut) take(b);
  }
}

/// Groups of a sequence's rows, in the order of the batch: every sequence's rows are cut into kRowsPerUnit.
struct RowGroups {
  const Batch& batch;

  int64_t count() const {
    int64_t n = 0;
    for (int64_t s = 0; s < batch.sequences; ++s) n += (batch.sequence[s].rows + kRowsPerUnit - 1) / kRowsPerUnit;
    return n;
  }
  RowGroup operator[](int64_t index) const {
    for (int64_t s = 0;; ++s) {
      const SequenceRows& sequence = batch.sequence[s];
      const int64_t groups = (sequence.rows + kRowsPerUnit - 1) / kRowsPerUnit;
      if (index < groups) {
        const int64_t begin = sequence.first_row + index * kRowsPerUnit;
        return {begin, smaller(begin + kRowsPerUnit, sequence.first_row + sequence.rows)};
      }
      index -= groups;
    }
  }
};

/// Blocks to score: those of the row with the most.
int64_t most_blocks(const QsaSelectArgs& a, const Batch& batch) {
  int64_t most = 0;
  for (int64_t s = 0; s < batch.sequences; ++s) {
    const SequenceRows& sequence = batch.sequence[s];
    const int64_t complete = (sequence.position + sequence.rows) / a.ratio;
    most = complete > most ? complete : most;
  }
  return most;
}

void score_all(device::Queue& queue, const Batch& batch, const QsaSelectArgs& a) {
  const int64_t most = most_blocks(a, batch);
  if (most <= a.keep) return;
  const RowGroups groups{batch};
  const int64_t unit_blocks = kTileBlocks * kTilesPerUnit, spans = (most + unit_blocks - 1) / unit_blocks;
  const int64_t row_count = smaller(batch.rows, kRowsPerUnit);
  for_each(queue, groups.count() * spans, unit_blocks * a.dim * (a.heads * row_count + 4) / 8, [&](int64_t unit) {
    const RowGroup rows = groups[unit / spans];
    const int64_t complete = (batch.row_position[rows.end - 1] + 1) / a.ratio;
    if (complete <= a.keep) return;
    const int64_t begin = unit % spans * unit_blocks, end = smaller(begin + unit_blocks, complete);
    for (int64_t b0 = begin; b0 < end; b0 += kTileBlocks) score_tile(a, batch, rows, b0);
  });
}

}  // namespace

void qsa_select(device::Queue& queue, const Batch& batch, const QsaSelectArgs& a) {
  if (a.heads > kMostHeads) return kernels::qsa_select(queue, batch, a);
  score_all(queue, batch, a);
  for_each(queue, batch.rows, 32 * a.score_stride / 8, [&](int64_t r) {
    int32_t* selected = a.selected + r * a.keep;
    const int64_t complete = (batch.row_position[r] + 1) / a.ratio;
    if (complete > a.keep) return select_blocks(a.scores + r * a.score_stride, complete, a.keep, selected);
    for (int64_t b = 0; b < a.keep; ++b) selected[b] = b < complete ? static_cast<int32_t>(b) : -1;
  });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
