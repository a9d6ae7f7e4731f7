// Vector kernel: attention. A unit of work is one row of the batch and one K/V head. Scores: lanes are the query heads that
// share the K row, several keys at a time. Values: lanes are columns, several heads at a time, so that a V row is read once
// for all of them. The unit's scores lie as [entry][head], as both halves want them.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/cpu/visible.h"
#include "kernels/for_ranges.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

#ifdef __AVX512F__
constexpr int kKeys = 16;       // keys whose chains run side by side
constexpr int kManyHeads = 12;  // heads that share a load of V
#else
constexpr int kKeys = 8;
constexpr int kManyHeads = 4;
#endif
constexpr int64_t kValueColumns = 256;  // columns of the accumulators on the stack

struct F32Rows {
  static constexpr int64_t kBytes = 4;
  template <typename Lanes>
  static EVROS_INLINE Vec get(const std::byte* p, Lanes lanes) {
    return load(reinterpret_cast<const float*>(p), lanes);
  }
};
struct F16Rows {
  static constexpr int64_t kBytes = 2;
  template <typename Lanes>
  static EVROS_INLINE Vec get(const std::byte* p, Lanes lanes) {
    return load_f16(p, lanes);
  }
};
struct Bf16Rows {
  static constexpr int64_t kBytes = 2;
  template <typename Lanes>
  static EVROS_INLINE Vec get(const std::byte* p, Lanes lanes) {
    return load_bf16(p, lanes);
  }
};

/// One row of the batch and one K/V head.
struct Unit {
  const AttentionArgs& a;
  const VisibleRows& visible;
  int64_t row, kv_head, group;  // group: query heads that read this K/V head

  int64_t first_head() const { return kv_head * group; }
  const float* q(int64_t head) const { return a.q + row * a.q_stride + (first_head() + head) * a.key_dim; }
  float* out(int64_t head) const { return a.out + row * a.out_stride + (first_head() + head) * a.value_dim; }
  /// [entry][group]
  float* scores() const { return a.scores + (row * a.heads + first_head()) * a.score_stride; }
};

/// Queries of up to kWidth heads with heads as lanes, one segment of key_dim; lanes without a head are zero.
struct QueryLanes {
  alignas(64) float q[kSegment][kWidth];

  void fill(const Unit& unit, int64_t h0, int64_t heads, int64_t k0, int64_t n) {
    for (int64_t h = 0; h < kWidth; ++h) {
      const float* from = h < heads ? unit.q(h0 + h) + k0 : nullptr;
      for (int64_t k = 0; k < n; ++k) q[k][h] = from != nullptr ? from[k] : 0.0f;
    }
  }
};

/// One segment's chains of kKeys keys, whose elements lie at key[i * kSegment].
EVROS_INLINE void score_keys(const QueryLanes& query, const float* key, int64_t n, Vec (&acc)[kKeys]) {
  for (Vec& x : acc) x = splat(0.0f);
  for (int64_t k = 0; k < n; ++k) {
    const Vec q = load(query.q[k]);
    for (int i = 0; i < kKeys; ++i) acc[i] = fma(splat(key[i * kSegment + k]), q, acc[i]);
  }
}

template <typename Rows, typename Lanes>
void score_segment(const Unit& unit, const QueryLanes& query, int64_t h0, int64_t k0, int64_t n, Lanes lanes) {
  alignas(64) float key[kKeys][kSegment] = {};
  const int64_t count = unit.visible.count(), head_bytes = unit.a.key_dim * Rows::kBytes;
  const bool is_last = k0 + n == unit.a.key_dim;
  const Vec scale = splat(inverse_sqrt(unit.a.key_dim));
  float* scores = unit.scores() + h0;
  const std::byte* at[2 * kKeys];
  unit.visible.addresses(unit.a.k, unit.kv_head * head_bytes, 0, smaller(kKeys, count), at);
  for (int64_t e0 = 0; e0 < count; e0 += kKeys) {
    const int64_t keys = smaller(kKeys, count - e0);
    const int64_t next = smaller(e0 + 2 * kKeys, count);
    if (e0 + kKeys < next) unit.visible.addresses(unit.a.k, unit.kv_head * head_bytes, e0 + kKeys, next, at + kKeys);
    for (int64_t i = 0; i < keys; ++i) {
      const std::byte* from = at[i] + k0 * Rows::kBytes;
      for_lanes(n, [&](int64_t k, auto part) { store(&key[i][k], Rows::get(from + k * Rows::kBytes, part), part); });
    }
    for (int64_t i = 0; e0 + kKeys + i < next; ++i) {
      for (int64_t b = 0; b < n * Rows::kBytes; b += 64) prefetch(at[kKeys + i] + k0 * Rows::kBytes + b);
    }
    Vec acc[kKeys];
    score_keys(query, key[0], n, acc);  // what stands in rows without a key is not used
    for (int64_t i = 0; i < keys; ++i) {
      float* score = scores + (e0 + i) * unit.group;
      Vec y = k0 == 0 ? acc[i] : load(score, lanes) + acc[i];
      if (is_last) y = scale * y;
      store(score, y, lanes);
    }
    for (int i = 0; i < kKeys; ++i) at[i] = at[kKeys + i];
  }
}

/// scores = scale * (q . k) of heads [h0, h0 + heads).
template <typename Rows, typename Lanes>
void score_heads(const Unit& unit, int64_t h0, int64_t heads, Lanes lanes) {
  QueryLanes query;
  for (int64_t k0 = 0; k0 < unit.a.key_dim; k0 += kSegment) {
    const int64_t n = smaller(kSegment, unit.a.key_dim - k0);
    query.fill(unit, h0, heads, k0, n);
    score_segment<Rows>(unit, query, h0, k0, n, lanes);
  }
}

/// Scores become p = exp(score - m); the sums by tiles go to `sum`. False when a score is not finite.
template <typename Lanes>
bool exponentiate(float* scores, int64_t count, int64_t stride, float* sum, Lanes lanes) {
  constexpr int kAhead = 8;
  Vec m = load(scores, lanes);
  Mask bad = not_finite(m);
  for (int64_t e = 1; e < count; ++e) {
    const Vec x = load(scores + e * stride, lanes);
    bad = bad | not_finite(x);
    m = larger(x, m);
  }
  Vec total = splat(0.0f);
  for (int64_t e0 = 0; e0 < count; e0 += kTile) {
    Vec tile = splat(0.0f);
    int64_t e = e0;
    const int64_t end = smaller(e0 + kTile, count);
    // Some loads before their stores: a load beside a masked store waits for it.
    for (; e + kAhead <= end; e += kAhead) {
      Vec p[kAhead];
      for (int i = 0; i < kAhead; ++i) p[i] = load(scores + (e + i) * stride, lanes);
      for (Vec& x : p) x = exp(x - m);
      for (int i = 0; i < kAhead; ++i) {
        store(scores + (e + i) * stride, p[i], lanes);
        tile = tile + p[i];
      }
    }
    for (; e < end; ++e) {
      const Vec p = exp(load(scores + e * stride, lanes) - m);
      store(scores + e * stride, p, lanes);
      tile = tile + p;
    }
    total = e0 == 0 ? tile : total + tile;
  }
  store(sum, total, lanes);
  return !any(bad);
}

/// One tile of up to kTile entries: where their V rows lie and their weights, [entry][group].
struct ValueTile {
  const std::byte* at[kTile];
  const std::byte*
      next[kTile];  // rows of the tile after this, to be fetched meanwhile; this tile's where there is none
  const float* p;
  int64_t entries, group;
};

/// total (+)= sum over the tile of p * v, for kHeads heads and kVectors vectors of columns from c on.
template <typename Rows, int kHeads, int kVectors, bool kFetch>
EVROS_INLINE void mix_tile(const ValueTile& tile, int64_t h, int64_t c, bool first, float (*total)[kValueColumns]) {
  Vec acc[kHeads][kVectors];
  for (auto& head : acc) {
    for (Vec& x : head) x = splat(0.0f);
  }
  for (int64_t e = 0; e < tile.entries; ++e) {
    Vec v[kVectors];
    for (int i = 0; i < kVectors; ++i) v[i] = Rows::get(tile.at[e] + (c + i * kWidth) * Rows::kBytes, All{});
    if constexpr (kFetch) prefetch(tile.next[e] + c * Rows::kBytes);
    const float* p = tile.p + e * tile.group + h;
    for (int j = 0; j < kHeads; ++j) {
      const Vec weight = splat(p[j]);
      for (int i = 0; i < kVectors; ++i) acc[j][i] = fma(weight, v[i], acc[j][i]);
    }
  }
  for (int j = 0; j < kHeads; ++j) {
    for (int i = 0; i < kVectors; ++i) {
      float* to = total[h + j] + c + i * kWidth;
      store(to, first ? acc[j][i] : load(to) + acc[j][i]);
    }
  }
}

/// The same for one head and the last columns, fewer than a pair of vectors.
template <typename Rows, typename Lanes>
EVROS_INLINE void mix_rest(const ValueTile& tile, int64_t h, int64_t c, bool first, float* total, Lanes lanes) {
  Vec acc = splat(0.0f);
  for (int64_t e = 0; e < tile.entries; ++e) {
    acc = fma(splat(tile.p[e * tile.group + h]), Rows::get(tile.at[e] + c * Rows::kBytes, lanes), acc);
  }
  store(total + c, first ? acc : load(total + c, lanes) + acc, lanes);
}

/// Columns [c, c + 2 * kWidth) of heads [0, heads).
template <typename Rows>
EVROS_INLINE void mix_pair(const ValueTile& tile, int64_t heads, int64_t c, bool first, float (*total)[kValueColumns]) {
  int64_t h = 0;
  if (heads >= kManyHeads) mix_tile<Rows, kManyHeads, 2, true>(tile, h, c, first, total), h += kManyHeads;
  for (; h + kManyHeads <= heads; h += kManyHeads) mix_tile<Rows, kManyHeads, 2, false>(tile, h, c, first, total);
  for (; h + 4 <= heads; h += 4) mix_tile<Rows, 4, 2, false>(tile, h, c, first, total);
  for (; h < heads; ++h) mix_tile<Rows, 1, 2, false>(tile, h, c, first, total);
}

/// All columns [0, n) of heads [0, heads).
template <typename Rows>
void mix_columns(const ValueTile& tile, int64_t heads, int64_t n, bool first, float (*total)[kValueColumns]) {
  int64_t c = 0;
  for (; c + 2 * kWidth <= n; c += 2 * kWidth) mix_pair<Rows>(tile, heads, c, first, total);
  for (int64_t h = 0; h < heads; ++h) {
    for_lanes(n - c, [&](int64_t i, auto lanes) { mix_rest<Rows>(tile, h, c + i, first, total[h], lanes); });
  }
}

/// out = (sum over tiles) / sum, for up to kWidth heads from h0 on.
template <typename Rows>
void mix_heads(const Unit& unit, int64_t h0, int64_t heads, const float* sum) {
  alignas(64) float total[kWidth][kValueColumns];  // every tile but the first adds to it
  const int64_t head_bytes = unit.a.value_dim * Rows::kBytes, count = unit.visible.count();
  for (int64_t c0 = 0; c0 < unit.a.value_dim; c0 += kValueColumns) {
    const int64_t n = smaller(kValueColumns, unit.a.value_dim - c0);
    const int64_t offset = unit.kv_head * head_bytes + c0 * Rows::kBytes;
    ValueTile tile;
    tile.group = unit.group;
    unit.visible.addresses(unit.a.v, offset, 0, smaller(kTile, count), tile.at);
    for (int64_t e0 = 0; e0 < count; e0 += kTile) {
      tile.entries = smaller(kTile, count - e0);
      tile.p = unit.scores() + e0 * unit.group + h0;
      __builtin_memcpy(tile.next, tile.at, sizeof tile.next);
      unit.visible.addresses(unit.a.v, offset, smaller(e0 + kTile, count), smaller(e0 + 2 * kTile, count), tile.next);
      mix_columns<Rows>(tile, heads, n, e0 == 0, total);
      __builtin_memcpy(tile.at, tile.next, sizeof tile.at);
    }
    for (int64_t h = 0; h < heads; ++h) {
      float* out = unit.out(h0 + h) + c0;
      const Vec l = splat(sum[h]);
      for_lanes(n, [&](int64_t c, auto lanes) { store(out + c, load(total[h] + c, lanes) / l, lanes); });
    }
  }
}

template <typename Rows, typename Lanes>
bool attend_heads(const Unit& unit, int64_t h0, int64_t heads, Lanes lanes) {
  float sum[kWidth];
  score_heads<Rows>(unit, h0, heads, lanes);
  const bool finite = exponentiate(unit.scores() + h0, unit.visible.count(), unit.group, sum, lanes);
  mix_heads<Rows>(unit, h0, heads, sum);
  return finite;
}

template <typename Rows>
bool attend(const Unit& unit) {
  bool finite = true;
  for_lanes(unit.group, [&](int64_t h0, auto lanes) {
    const bool clean = attend_heads<Rows>(unit, h0, smaller(kWidth, unit.group - h0), lanes);
    finite = finite && clean;
  });
  return finite;
}

}  // namespace

void attention(device::Queue& queue, const Batch& batch, const AttentionArgs& a) {
  const int64_t group = a.heads / a.kv_heads;
  const int64_t cost = group * (a.key_dim + a.value_dim) * smaller(a.score_stride, 64) / 8;
  // Rows innermost: the threads' ranges then hold as many early rows, which see little, as late ones.
  for_each(queue, int64_t{batch.rows} * a.kv_heads, cost, [&](int64_t index) {
    const int64_t row = index % batch.rows;
    const VisibleRows visible(batch, a, row);
    const Unit unit{a, visible, row, index / batch.rows, group};
    const bool finite = a.type == CacheType::f32   ? attend<F32Rows>(unit)
                        : a.type == CacheType::f16 ? attend<F16Rows>(unit)
                                                   : attend<Bf16Rows>(unit);
    if (!finite) set_status(batch, row, kNonFinite);
  });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
