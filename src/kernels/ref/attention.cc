// Reference kernels: rows of the K/V cache, attention over the selected positions, the head gate.
#include "kernels/for_ranges.h"
#include "kernels/ref/cache_value.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/dot_rows.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/visible.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

format::TensorType tensor_type(CacheType type) {
  switch (type) {
    case CacheType::f32:
      return format::TensorType::f32;
    case CacheType::f16:
      return format::TensorType::f16;
    case CacheType::bf16:
      return format::TensorType::bf16;
  }
  __builtin_trap();
}

/// Rounds n values to the cache type. False when a finite value became infinite.
bool store_row(CacheType type, const float* x, int64_t n, std::byte* out) {
  if (type == CacheType::f32) {
    __builtin_memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
    return true;
  }
  bool fits = true;
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits;
    fits = round_to_cache(type, x[i], &bits) && fits;
    __builtin_memcpy(out + 2 * i, &bits, sizeof bits);
  }
  return fits;
}

/// One row of the batch and one K/V head: the query heads that read it.
struct HeadGroup {
  const AttentionArgs& a;
  const Batch& batch;
  const SequenceRows& sequence;
  int64_t row, kv_head;
  Visible visible;

  int64_t size() const { return a.heads / a.kv_heads; }
  int64_t head(int64_t i) const { return kv_head * size() + i; }
  float* scores(int64_t i) const { return a.scores + (row * a.heads + head(i)) * a.score_stride; }
  const std::byte* cached(const PageRows& page, int64_t entry, int64_t width) const {
    return page_row(batch, sequence, page, visible.position(entry)) + kv_head * width * cache_width(a.type);
  }
  static int64_t cache_width(CacheType type) { return type == CacheType::f32 ? 4 : 2; }
};

/// score = scale * (q . k) for every visible entry of every head in the group.
void score_entries(const HeadGroup& g) {
  const float scale = inverse_sqrt(g.a.key_dim);
  DotRows work;
  work.type = tensor_type(g.a.type);
  work.k = g.a.key_dim;
  work.integers = false;
  for (int64_t e0 = 0; e0 < g.visible.count; e0 += kLanes) {
    work.lanes = static_cast<int>(smaller(kLanes, g.visible.count - e0));
    for (int lane = 0; lane < work.lanes; ++lane) work.row[lane] = g.cached(g.a.k, e0 + lane, g.a.key_dim);
    for (int64_t h0 = 0; h0 < g.size(); h0 += kColumns) {
      work.columns = static_cast<int>(smaller(kColumns, g.size() - h0));
      for (int c = 0; c < work.columns; ++c) {
        work.x[c] = g.a.q + g.row * g.a.q_stride + g.head(h0 + c) * g.a.key_dim;
        work.y[c] = g.scores(h0 + c) + e0;
      }
      dot_rows(work);
      for (int c = 0; c < work.columns; ++c) {
        for (int lane = 0; lane < work.lanes; ++lane) work.y[c][lane] = scale * work.y[c][lane];
      }
    }
  }
}

/// Turns scores into p = exp(score - m), and returns their sum by tiles.
float exponentiate(float* score, int64_t count) {
  float m = score[0];
  for (int64_t e = 1; e < count; ++e) m = score[e] > m ? score[e] : m;
  float total = 0.0f;
  for (int64_t e0 = 0; e0 < count; e0 += kTile) {
    float sum = 0.0f;
    for (int64_t e = e0; e < smaller(e0 + kTile, count); ++e) {
      score[e] = exp(score[e] - m);
      sum += score[e];
    }
    total = e0 == 0 ? sum : total + sum;
  }
  return total;
}

/// out = (sum of p * v by tiles) / l, for columns [c0, c0 + columns) of one head.
void mix_values(const HeadGroup& g, const float* p, float l, int64_t c0, int64_t columns, float* out) {
  const int64_t column_bytes = c0 * HeadGroup::cache_width(g.a.type);
  float v[kTile], total[kTile] = {};
  for (int64_t e0 = 0; e0 < g.visible.count; e0 += kTile) {
    float acc[kTile] = {};
    for (int64_t e = e0; e < smaller(e0 + kTile, g.visible.count); ++e) {
      decode_row(tensor_type(g.a.type), g.cached(g.a.v, e, g.a.value_dim) + column_bytes, columns, v);
      for (int64_t c = 0; c < columns; ++c) acc[c] = fma(p[e], v[c], acc[c]);
    }
    for (int64_t c = 0; c < columns; ++c) total[c] = e0 == 0 ? acc[c] : total[c] + acc[c];
  }
  for (int64_t c = 0; c < columns; ++c) out[c] = total[c] / l;
}

}  // namespace

void store_rows(device::Queue& queue, const Batch& batch, const StoreRowsArgs& a) {
  for_each(queue, batch.rows, a.width, [&](int64_t r) {
    const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
    const float* x = a.x + r * a.x_stride;
    check_row(batch, r, x, a.width);
    std::byte* out = page_row(batch, sequence, a.page, batch.row_position[r]);
    if (!store_row(a.type, x, a.width, out)) set_status(batch, r, kCacheOverflow);
  });
}

void attention(device::Queue& queue, const Batch& batch, const AttentionArgs& a) {
  for_each(queue, int64_t{batch.rows} * a.kv_heads,
           int64_t{a.heads / a.kv_heads} * (a.key_dim + a.value_dim) * smaller(a.score_stride, 64), [&](int64_t unit) {
             const int64_t r = unit / a.kv_heads;
             const HeadGroup g{
                 a, batch, batch.sequence[batch.row_sequence[r]], r, unit % a.kv_heads, Visible(batch, a, r)};
             score_entries(g);
             for (int64_t i = 0; i < g.size(); ++i) {
               float* scores = g.scores(i);
               check_row(batch, r, scores, g.visible.count);
               const float l = exponentiate(scores, g.visible.count);
               float* out = a.out + r * a.out_stride + g.head(i) * a.value_dim;
               for (int64_t c = 0; c < a.value_dim; c += kTile) {
                 mix_values(g, scores, l, c, smaller(kTile, a.value_dim - c), out + c);
               }
             }
           });
}

void head_gate(device::Queue& queue, const Batch& batch, const HeadGateArgs& a) {
  for_each(queue, batch.rows, int64_t{a.heads} * a.width, [&](int64_t r) {
    for (int64_t head = 0; head < a.heads; ++head) {
      float* out = a.out + r * a.out_stride + head * a.width;
      const float* gate = a.gate + r * a.gate_stride + head * a.gate_head_stride;
      for (int64_t i = 0; i < a.width; ++i) out[i] = out[i] * sigmoid(gate[i]);
    }
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
