// Vector kernels: rows of the K/V cache and of the index.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/for_ranges.h"
#include "kernels/ref/index_rows.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

EVROS_INLINE Ints magnitude(Vec x) { return as_ints(x) & splat(int32_t{0x7fffffff}); }

/// Finite lanes whose magnitude is at least `limit` (a float's bits): those that become infinite in the cache type.
EVROS_INLINE Mask overflows(Vec x, int32_t limit) {
  const Ints size = magnitude(x);
  return (size > splat(limit - 1)) & (splat(int32_t{0x7f800000}) > size);
}

/// f32_to_bf16() of float16.h.
EVROS_INLINE Ints round_bf16(Vec x) {
  const Ints all = as_ints(x), top = shift_right<16>(all);
  const Ints rounded = shift_right<16>(all + splat(int32_t{0x7fff}) + (top & splat(int32_t{1})));
  return as_ints(select(unordered(x), as_floats(top | splat(int32_t{0x0040})), as_floats(rounded)));
}

/// Rounds n values to the cache type. False when a finite value became infinite.
bool store_row(CacheType type, const float* x, int64_t n, std::byte* out) {
  Mask lost = overflows(splat(0.0f), 1);  // none
  for_lanes(n, [&](int64_t i, auto lanes) {
    const Vec value = load(x + i, lanes);
    switch (type) {
      case CacheType::f32:
        return store(reinterpret_cast<float*>(out) + i, value, lanes);
      case CacheType::f16:  // from 65520, half way from the largest half to the next power of two
        lost = lost | overflows(value, 0x477ff000);
        return store_f16(out + 2 * i, value, lanes);
      case CacheType::bf16:  // from half way between the largest bfloat and infinity
        lost = lost | overflows(value, 0x7f7f8000);
        return store_u16(out + 2 * i, round_bf16(value), lanes);
    }
  });
  return !any(lost);
}

/// Pools, norms and rotates the block that begins at `begin`. False when the squares of the pooled key overflowed.
bool make_block_key(const IndexStoreArgs& a, const SequenceRows& sequence, int64_t begin, const float* rope,
                    float* key) {
  const Vec ratio = splat(static_cast<float>(a.ratio));
  for_lanes(a.dim, [&](int64_t i, auto lanes) {
    Vec sum = load(raw_key(a, sequence, begin) + i, lanes);
    for (int64_t j = 1; j < a.ratio; ++j) sum = sum + load(raw_key(a, sequence, begin + j) + i, lanes);
    store(key + i, sum / ratio, lanes);
  });
  const float scale = vec_rms_scale(key, a.dim, a.eps);
  const Vec factor = splat(scale);
  for_lanes(a.dim, [&](int64_t i, auto lanes) {
    store(key + i, (load(key + i, lanes) * factor) * load(a.gain + i, lanes), lanes);
  });
  rotate_lanes(key, rope, a.rope_dims);
  return scale != 0.0f;
}

/// The incomplete block's raw rows into the private bank, zeros after them.
void keep_tail(const IndexStoreArgs& a, const SequenceRows& sequence) {
  float* out = reinterpret_cast<float*>(sequence.bank_out + a.bank_offset);
  const int64_t end = sequence.position + sequence.rows, begin = end / a.ratio * a.ratio;
  for (int64_t i = 0; i < a.ratio - 1; ++i) {
    const float* from = begin + i < end ? raw_key(a, sequence, begin + i) : nullptr;
    for_lanes(a.dim, [&](int64_t c, auto lanes) {
      store(out + i * a.dim + c, from != nullptr ? load(from + c, lanes) : splat(0.0f), lanes);
    });
  }
}

}  // namespace

void store_rows(device::Queue& queue, const Batch& batch, const StoreRowsArgs& a) {
  for_each(queue, batch.rows, a.width / 4, [&](int64_t r) {
    const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
    const float* x = a.x + r * a.x_stride;
    vec_check_row(batch, r, x, a.width);
    std::byte* out = page_row(batch, sequence, a.page, batch.row_position[r]);
    if (!store_row(a.type, x, a.width, out)) set_status(batch, r, kCacheOverflow);
  });
}

void index_store(device::Queue& queue, const Batch& batch, const IndexStoreArgs& a) {
  for_each(queue, batch.rows, a.dim, [&](int64_t r) {
    vec_check_row(batch, r, a.raw + r * a.raw_stride, a.dim);
    const int64_t position = batch.row_position[r];
    if ((position + 1) % a.ratio != 0) return;
    const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
    const int64_t begin = position + 1 - a.ratio;
    float* key = reinterpret_cast<float*>(page_row(batch, sequence, a.page, begin));
    if (!make_block_key(a, sequence, begin, a.block_rope + r * a.rope_dims, key)) set_status(batch, r, kNonFinite);
    vec_check_row(batch, r, key, a.dim);
  });
  for_each(queue, batch.sequences, int64_t{a.ratio} * a.dim / 8, [&](int64_t s) { keep_tail(a, batch.sequence[s]); });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
