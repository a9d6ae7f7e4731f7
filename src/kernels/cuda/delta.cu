// CUDA kernel: the delta rule. Eight lanes share a column of the state, one for each strided partial of its two sums, and keep
// their elements in registers from the first token of a chunk to the last; a warp holds four neighbouring columns. The
// partials fold by exchanges within the warp, in the order of docs/numerics.md whichever lane adds (a + b is b + a).
#include "kernels/cuda/grid.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

constexpr int kPartials = 8;
constexpr int kWarpColumns = kWarp / kPartials;
constexpr int kBlockColumns = kWarpColumns * (kThreads / kWarp);

/// The partials of a column lie kWarpColumns lanes apart.
__device__ float fold_partials(float p) {
  EVROS_UNROLL
  for (int h = kPartials / 2; h >= 1; h /= 2) p += __shfl_xor_sync(kAllLanes, p, h * kWarpColumns);
  return p;
}

/// What one lane reads of one token: its elements of key and query, and its column's value and gates.
template <int kElements>
struct DeltaToken {
  float k[kElements], q[kElements], v, decay, beta;

  /// Of row r, value head `head`, column j, partial `partial`. A column that does not exist reads the value of column 0.
  __device__ void load(const GdnDeltaArgs& a, int64_t r, int64_t head, int64_t j, int partial) {
    const int64_t keys = int64_t{a.key_heads} * a.key_dim;
    const float* query = a.qkv + r * a.qkv_stride + head % a.key_heads * a.key_dim;
    const float *key = query + keys, *value = a.qkv + r * a.qkv_stride + 2 * keys + head * a.value_dim;
    EVROS_UNROLL
    for (int n = 0; n < kElements; ++n) {
      const int64_t i = n * kPartials + partial;
      k[n] = i < a.key_dim ? key[i] : 0.0f;
      q[n] = i < a.key_dim ? query[i] : 0.0f;
    }
    v = value[j < a.value_dim ? j : 0];
    decay = a.decay[r * a.gate_stride + head];
    beta = a.beta[r * a.gate_stride + head];
  }
};

/// kElements elements of a column per lane: key_dim is at most 8 * kElements. Elements past key_dim take no part in a sum.
template <int kElements>
__global__ void __launch_bounds__(kThreads) delta_kernel(Batch batch, GdnDeltaArgs a) {
  const int64_t tiles = round_up_div(a.value_dim, kBlockColumns), unit = blockIdx.x;
  const SequenceRows sequence = batch.sequence[unit / tiles / a.value_heads];
  const int64_t head = unit / tiles % a.value_heads;
  const int partial = lane_index() / kWarpColumns;
  const int64_t j = unit % tiles * kBlockColumns + warp_index() * kWarpColumns + lane_index() % kWarpColumns;
  const bool exists = j < a.value_dim;
  const int64_t state = head * a.key_dim * a.value_dim + j;
  const float* before = reinterpret_cast<const float*>(sequence.bank_in + a.bank_offset) + state;
  float s[kElements];
  EVROS_UNROLL
  for (int n = 0; n < kElements; ++n) {
    const int64_t i = n * kPartials + partial;
    s[n] = exists && i < a.key_dim ? before[i * a.value_dim] : 0.0f;
  }
  const int64_t end = int64_t{sequence.first_row} + sequence.rows;
  DeltaToken<kElements> next;
  if (sequence.rows > 0) next.load(a, sequence.first_row, head, j, partial);
  for (int64_t r = sequence.first_row; r < end; ++r) {
    const DeltaToken<kElements> token = next;
    if (r + 1 < end) next.load(a, r + 1, head, j, partial);  // on its way while this one is computed
    float read = 0.0f, out = 0.0f;
    EVROS_UNROLL
    for (int n = 0; n < kElements; ++n) {
      s[n] = token.decay * s[n];
      if (n * kPartials + partial < a.key_dim) read = fma(s[n], token.k[n], read);
    }
    const float d = token.beta * (token.v - fold_partials(read));
    EVROS_UNROLL
    for (int n = 0; n < kElements; ++n) {
      s[n] = fma(token.k[n], d, s[n]);
      if (n * kPartials + partial < a.key_dim) out = fma(s[n], token.q[n], out);
    }
    out = fold_partials(out);
    if (exists && partial == 0) a.o[r * a.o_stride + head * a.value_dim + j] = out;
  }
  float* after = reinterpret_cast<float*>(sequence.bank_out + a.bank_offset) + state;
  EVROS_UNROLL
  for (int n = 0; n < kElements; ++n) {
    const int64_t i = n * kPartials + partial;
    if (exists && i < a.key_dim) after[i * a.value_dim] = s[n];
  }
}

/// The same for columns of any length, with the state in the private bank: slower, with the same bits.
__global__ void __launch_bounds__(kThreads) long_delta_kernel(Batch batch, GdnDeltaArgs a) {
  const int64_t tiles = round_up_div(a.value_dim, kBlockColumns), unit = blockIdx.x;
  const SequenceRows sequence = batch.sequence[unit / tiles / a.value_heads];
  const int64_t head = unit / tiles % a.value_heads, keys = int64_t{a.key_heads} * a.key_dim;
  const int partial = lane_index() / kWarpColumns;
  const int64_t j = unit % tiles * kBlockColumns + warp_index() * kWarpColumns + lane_index() % kWarpColumns;
  const bool exists = j < a.value_dim;
  const int64_t elements = exists ? a.key_dim : 0;  // lanes without a column take part in the exchanges alone
  const int64_t state = head * a.key_dim * a.value_dim + j;
  const float* before = reinterpret_cast<const float*>(sequence.bank_in + a.bank_offset) + state;
  float* s = reinterpret_cast<float*>(sequence.bank_out + a.bank_offset) + state;
  for (int64_t i = partial; i < elements; i += kPartials) s[i * a.value_dim] = before[i * a.value_dim];
  for (int64_t r = sequence.first_row; r < int64_t{sequence.first_row} + sequence.rows; ++r) {
    const float* query = a.qkv + r * a.qkv_stride + head % a.key_heads * a.key_dim;
    const float *key = query + keys, *value = a.qkv + r * a.qkv_stride + 2 * keys + head * a.value_dim;
    const float decay = a.decay[r * a.gate_stride + head], beta = a.beta[r * a.gate_stride + head];
    float read = 0.0f, out = 0.0f;
    for (int64_t i = partial; i < elements; i += kPartials) {
      const float x = decay * s[i * a.value_dim];
      s[i * a.value_dim] = x;
      read = fma(x, key[i], read);
    }
    const float d = beta * (value[exists ? j : 0] - fold_partials(read));
    for (int64_t i = partial; i < elements; i += kPartials) {
      const float x = fma(key[i], d, s[i * a.value_dim]);
      s[i * a.value_dim] = x;
      out = fma(x, query[i], out);
    }
    out = fold_partials(out);
    if (exists && partial == 0) a.o[r * a.o_stride + head * a.value_dim + j] = out;
  }
}

}  // namespace

void gdn_delta(device::Queue& queue, const Batch& batch, const GdnDeltaArgs& a) {
  const int64_t blocks = int64_t{batch.sequences} * a.value_heads * round_up_div(a.value_dim, kBlockColumns);
  const auto kernel = a.key_dim <= 128 ? delta_kernel<16> : a.key_dim <= 256 ? delta_kernel<32> : long_delta_kernel;
  launch(queue, blocks, kThreads, kernel, batch, a);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
