// Vector kernel: the delta rule. Lanes are columns of a head's state. A strip of columns stays in the first-level cache
// for all tokens of the chunk: it is read from the public bank by the first token and written to the private one by the
// last, past the caches, so that memory sees each state byte once in each direction.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/for_ranges.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

constexpr int kPartials = 8;          // of the two sums over key_dim
constexpr int64_t kStrip = 32;        // columns: two cache lines of every state row
constexpr int64_t kMostKeyDim = 256;  // rows of a strip; longer states take the reference kernel
#ifdef __AVX512F__
constexpr int kColumns = 2;  // vectors side by side: 16 partial sums in 32 registers
#else
constexpr int kColumns = 1;  // 8 in 16
#endif
constexpr int64_t kPass = kColumns * kWidth;

/// p[0..7] by h = 4, 2, 1.
EVROS_INLINE Vec fold_partials(const Vec (&p)[kPartials]) {
  return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}

/// What one token brings to one strip.
struct Token {
  const float *q, *k, *v;  // v and o at the strip's first column
  float decay, beta;
  float* o;
};

/// First half of a token: s = decay * from, and r = sum of s * k; `from` may be `s`. key_dim is a multiple of kPartials.
EVROS_INLINE void decay_pass(const float* from, int64_t from_stride, float* s, int64_t key_dim, const Token& token,
                             Vec (&r)[kColumns]) {
  const Vec decay = splat(token.decay);
  Vec p[kColumns][kPartials];
  for (auto& column : p) {
    for (Vec& partial : column) partial = splat(0.0f);
  }
  for (int64_t i = 0; i < key_dim; i += kPartials) {
    for (int part = 0; part < kPartials; ++part) {
      const Vec k = splat(token.k[i + part]);
      for (int c = 0; c < kColumns; ++c) {
        const Vec x = decay * load(from + (i + part) * from_stride + c * kWidth);
        store(s + (i + part) * kStrip + c * kWidth, x);
        p[c][part] = fma(x, k, p[c][part]);
      }
    }
  }
  for (int c = 0; c < kColumns; ++c) r[c] = fold_partials(p[c]);
}

/// Second half: s = k * d + s, and o = sum of s * q.
EVROS_INLINE void write_pass(float* s, int64_t key_dim, const Token& token, const Vec (&d)[kColumns],
                             Vec (&o)[kColumns]) {
  Vec p[kColumns][kPartials];
  for (auto& column : p) {
    for (Vec& partial : column) partial = splat(0.0f);
  }
  for (int64_t i = 0; i < key_dim; i += kPartials) {
    for (int part = 0; part < kPartials; ++part) {
      const Vec k = splat(token.k[i + part]), q = splat(token.q[i + part]);
      for (int c = 0; c < kColumns; ++c) {
        float* at = s + (i + part) * kStrip + c * kWidth;
        const Vec x = fma(k, d[c], load(at));
        store(at, x);
        p[c][part] = fma(x, q, p[c][part]);
      }
    }
  }
  for (int c = 0; c < kColumns; ++c) o[c] = fold_partials(p[c]);
}

/// The second half of a token and the first half of the next one, in one sweep over one vector of columns: the state is
/// loaded and stored once. o as of write_pass() for `token`, r as of decay_pass() for `next`.
EVROS_INLINE void sweep(float* s, int64_t key_dim, const Token& token, const Token& next, Vec d, Vec& o, Vec& r) {
  const Vec decay = splat(next.decay);
  Vec po[kPartials], pr[kPartials];
  for (int part = 0; part < kPartials; ++part) po[part] = pr[part] = splat(0.0f);
  for (int64_t i = 0; i < key_dim; i += kPartials) {
    for (int part = 0; part < kPartials; ++part) {
      float* at = s + (i + part) * kStrip;
      const Vec x = fma(splat(token.k[i + part]), d, load(at));
      po[part] = fma(x, splat(token.q[i + part]), po[part]);
      const Vec y = decay * x;
      store(at, y);
      pr[part] = fma(y, splat(next.k[i + part]), pr[part]);
    }
  }
  o = fold_partials(po);
  r = fold_partials(pr);
}

/// The strip to the private bank. Every row of it is two whole cache lines when the bank is aligned.
EVROS_INLINE void flush_strip(const float* s, int64_t key_dim, float* to, int64_t to_stride) {
  const bool aligned = reinterpret_cast<uintptr_t>(to) % 64 == 0 && to_stride % 16 == 0;
  for (int64_t i = 0; i < key_dim; ++i) {
    for (int64_t j = 0; j < kStrip; j += kWidth) {
      const Vec x = load(s + i * kStrip + j);
      if (aligned) {
        stream(to + i * to_stride + j, x);
      } else {
        store(to + i * to_stride + j, x);
      }
    }
  }
}

/// The lines of the next strip, or of the next head, while this one is being worked on.
EVROS_INLINE void fetch_strip(const float* from, int64_t key_dim, int64_t stride) {
  for (int64_t i = 0; i < key_dim; ++i) {
    prefetch(from + i * stride);
    prefetch(from + i * stride + 16);
  }
}

/// One value head of one sequence.
struct Head {
  const GdnDeltaArgs& a;
  const SequenceRows& sequence;
  int64_t head;

  /// Token t of the chunk at column j.
  Token token(int64_t t, int64_t j) const {
    const int64_t r = sequence.first_row + t, keys = int64_t{a.key_heads} * a.key_dim;
    const float* row = a.qkv + r * a.qkv_stride;
    const float* q = row + head % a.key_heads * a.key_dim;
    return {q,
            q + keys,
            row + 2 * keys + head * a.value_dim + j,
            a.decay[r * a.gate_stride + head],
            a.beta[r * a.gate_stride + head],
            a.o + r * a.o_stride + head * a.value_dim + j};
  }

  /// All tokens of columns [j, j + kPass), the state's rows from `from` to the strip's at `s`.
  void advance(const float* from, float* s, int64_t j) const {
    Token token = this->token(0, j);
    Vec r[kColumns], d[kColumns], o[kColumns];
    decay_pass(from, a.value_dim, s, a.key_dim, token, r);
    for (int64_t t = 0; t < sequence.rows; ++t) {
      const Vec beta = splat(token.beta);
      for (int c = 0; c < kColumns; ++c) d[c] = beta * (load(token.v + c * kWidth) - r[c]);
      float* out = token.o;
      if (t + 1 < sequence.rows) {
        const Token next = this->token(t + 1, j);
        for (int c = 0; c < kColumns; ++c) sweep(s + c * kWidth, a.key_dim, token, next, d[c], o[c], r[c]);
        token = next;
      } else {
        write_pass(s, a.key_dim, token, d, o);
      }
      for (int c = 0; c < kColumns; ++c) store(out + c * kWidth, o[c]);
    }
  }
};

/// Strip by strip from the public bank to the private one.
void advance_head(const Head& head) {
  alignas(64) float s[kMostKeyDim * kStrip];
  const GdnDeltaArgs& a = head.a;
  const int64_t head_state = int64_t{a.key_dim} * a.value_dim, offset = head.head * head_state;
  const float* before = reinterpret_cast<const float*>(head.sequence.bank_in + a.bank_offset) + offset;
  float* after = reinterpret_cast<float*>(head.sequence.bank_out + a.bank_offset) + offset;
  if (head.sequence.rows == 0) {
    __builtin_memcpy(after, before, static_cast<size_t>(head_state) * sizeof(float));
    return;
  }
  for (int64_t j0 = 0; j0 < a.value_dim; j0 += kStrip) {
    const bool last_strip = j0 + kStrip >= a.value_dim;
    if (!last_strip) {
      fetch_strip(before + j0 + kStrip, a.key_dim, a.value_dim);
    } else if (head.head + 1 < a.value_heads) {
      fetch_strip(before + head_state, a.key_dim, a.value_dim);
    }
    for (int64_t j = 0; j < kStrip; j += kPass) head.advance(before + j0 + j, s + j, j0 + j);
    flush_strip(s, a.key_dim, after + j0, a.value_dim);
  }
}

}  // namespace

void gdn_delta(device::Queue& queue, const Batch& batch, const GdnDeltaArgs& a) {
  const bool fits = a.key_dim % kPartials == 0 && a.key_dim <= kMostKeyDim && a.value_dim % kStrip == 0;
  if (!fits) return kernels::gdn_delta(queue, batch, a);
  const int64_t cost = int64_t{a.value_dim} * a.key_dim * batch.rows / 2;
  for_each(queue, int64_t{batch.sequences} * a.value_heads, cost, [&](int64_t unit) {
    advance_head({a, batch.sequence[unit / a.value_heads], unit % a.value_heads});
    end_stream();
  });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
