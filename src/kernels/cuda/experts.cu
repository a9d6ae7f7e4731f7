// CUDA kernels: experts. The (row, rank) pairs are sorted by expert, so that a block reads an expert's strip once for up to
// kTokens of the pairs that chose it.
#include "kernels/cuda/product.h"
#include "kernels/cuda/quantize.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

constexpr int kSortThreads = 1024;

/// The expert of a pair; 0 for an id that is none, which the sum over the ranks reports.
__device__ int32_t expert_of(const ExpertsArgs& a, int64_t pair) {
  const int32_t id = a.ids[pair];
  return id >= 0 && id < a.experts ? id : 0;
}

/// One block: order becomes the pairs by ascending expert, in any order within one, and first[e] where those of e end.
__global__ void __launch_bounds__(kSortThreads) sort_pairs_kernel(ExpertsArgs a, int64_t pairs) {
  for (int64_t e = threadIdx.x; e <= a.experts; e += blockDim.x) a.first[e] = 0;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < pairs; i += blockDim.x) atomicAdd(&a.first[expert_of(a, i) + 1], 1);
  __syncthreads();
  __shared__ int32_t sums[kSortThreads];
  int32_t carried = 0;  // of the experts before this piece
  for (int64_t e0 = 0; e0 < a.experts; e0 += kSortThreads) {
    const int64_t e = e0 + threadIdx.x;
    sums[threadIdx.x] = e < a.experts ? a.first[e + 1] : 0;
    __syncthreads();
    for (unsigned reach = 1; reach < kSortThreads; reach *= 2) {
      const int32_t before = threadIdx.x >= reach ? sums[threadIdx.x - reach] : 0;
      __syncthreads();
      sums[threadIdx.x] += before;
      __syncthreads();
    }
    if (e < a.experts) a.first[e + 1] = carried + sums[threadIdx.x];
    carried += sums[kSortThreads - 1];
    __syncthreads();
  }
  for (int64_t i = threadIdx.x; i < pairs; i += blockDim.x) {
    a.order[atomicAdd(&a.first[expert_of(a, i)], 1)] = static_cast<int32_t>(i);
  }
}

/// One product over all pairs.
struct Product {
  Matrix w;  // of expert 0
  int64_t expert_bytes;
  const float* x;  // pair i reads row i / pairs_per_x
  int64_t x_stride, pairs_per_x;
  const QuantSegment* q;  // null: the float chain
  float* y;               // [pairs][w.rows]
  bool sorted;            // else pair i stands at i
};

/// Blocks are (place in the order, strip); of an expert's places every kTokens-th has work, for the pairs from it on.
template <typename Codec, bool kIntegers, int kTokens>
__global__ void __launch_bounds__(kWarp* kProductWarps<kTokens>, kProductBlocks<Codec, kTokens>)
    expert_kernel(ExpertsArgs a, Product product) {
  const int64_t strips = round_up_div(product.w.rows, kStripRows), place = blockIdx.x / strips;
  int64_t pair = place, expert, count = 1;
  if (product.sorted) {
    pair = a.order[place];
    expert = expert_of(a, pair);
    const int64_t begin = expert > 0 ? a.first[expert - 1] : 0;
    if ((place - begin) % kTokens != 0) return;  // the whole block
    count = smaller(kTokens, a.first[expert] - place);
  } else {
    expert = expert_of(a, pair);
  }
  Columns<kTokens> columns{product.x,      product.x_stride,        product.q, product.y,
                           product.w.rows, static_cast<int>(count), {},        {}};
  EVROS_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    const int64_t mine = t == 0 || t >= count ? pair : a.order[place + t];
    columns.in[t] = static_cast<int32_t>(mine / product.pairs_per_x);
    columns.out[t] = static_cast<int32_t>(mine);
  }
  Matrix w = product.w;
  w.data += expert * product.expert_bytes;
  if (w.scale != nullptr) w.scale += expert;
  multiply_strip<Codec, kIntegers>(w, blockIdx.x % strips, columns);
}

template <typename Codec, bool kIntegers, int kTokens>
void launch_product(device::Queue& queue, const ExpertsArgs& a, int64_t pairs, const Product& product) {
  launch(queue, pairs * round_up_div(product.w.rows, kStripRows), product_threads<kTokens>(product.w.cols),
         expert_kernel<Codec, kIntegers, kTokens>, a, product);
}

template <typename Codec, bool kIntegers>
void multiply_as(device::Queue& queue, const ExpertsArgs& a, int64_t pairs, const Product& product) {
  if (!product.sorted || !kTiles<Codec, kIntegers>)
    return launch_product<Codec, kIntegers, 1>(queue, a, pairs, product);
  if constexpr (!HasGroups<Codec>) {
    if (pairs < int64_t{8} * a.experts) return launch_product<Codec, kIntegers, 4>(queue, a, pairs, product);
  }
  if constexpr (kTiles<Codec, kIntegers>) launch_product<Codec, kIntegers, 8>(queue, a, pairs, product);
}

bool takes_integers(format::TensorType type) {
  bool quantised = false;
  with_codec(type, [&]<typename Codec>() { quantised = Codec::kQuantised; });
  return quantised;
}

void multiply(device::Queue& queue, const ExpertsArgs& a, int64_t pairs, const Product& product) {
  with_codec(product.w.type, [&]<typename Codec>() {
    if constexpr (Codec::kQuantised) {
      if (product.q != nullptr) return multiply_as<Codec, true>(queue, a, pairs, product);
    }
    multiply_as<Codec, false>(queue, a, pairs, product);
  });
}

/// h = silu(gate) * up in place of gate, checked, and quantised where `quantised` is set: a warp per 32 elements of a pair.
__global__ void __launch_bounds__(kThreads)
    activate_kernel(Batch batch, ExpertsArgs a, int64_t pairs, QuantSegment* quantised) {
  const int64_t ff = a.gate.rows, groups = round_up_div(ff, kWarp), unit = thread_index() / kWarp;
  const int64_t pair = unit / groups, i = unit % groups * kWarp + lane_index();
  if (pair >= pairs) return;  // the whole warp
  float h = 0.0f;
  if (i < ff) {
    float& gate = a.hidden[pair * ff + i];
    h = silu(gate) * a.hidden[(pairs + pair) * ff + i];
    gate = h;
  }
  if (!is_finite(h)) set_status(batch, pair / a.used, kNonFinite);
  if (quantised != nullptr) quantize_group(h, quantised + pair * quant_segments(ff), unit % groups);
}

}  // namespace

void experts(device::Queue& queue, const Batch& batch, const ExpertsArgs& a) {
  const int64_t pairs = int64_t{batch.rows} * a.used, ff = a.gate.rows, hidden = a.down.rows;
  const bool sorted = batch.rows > 1;
  float *gate = a.hidden, *up = a.hidden + pairs * ff;
  QuantSegment* down_q = !a.xq.empty() && takes_integers(a.down.type) ? a.hidden_q.segments : nullptr;
  if (sorted) launch(queue, 1, kSortThreads, sort_pairs_kernel, a, pairs);
  multiply(queue, a, pairs, {a.gate, a.gate_expert_bytes, a.x, a.x_stride, a.used, a.xq.segments, gate, sorted});
  multiply(queue, a, pairs, {a.up, a.up_expert_bytes, a.x, a.x_stride, a.used, a.xq.segments, up, sorted});
  launch(queue, round_up_div(pairs * round_up_div(ff, kWarp) * kWarp, kThreads), kThreads, activate_kernel, batch, a,
         pairs, down_q);
  multiply(queue, a, pairs, {a.down, a.down_expert_bytes, gate, ff, 1, down_q, a.expert_out, sorted});
  for_each_element(queue, batch.rows, hidden, [=] __device__(int64_t r, int64_t i) {
    float acc = 0.0f;
    for (int64_t rank = 0; rank < a.used; ++rank) {
      const int64_t pair = r * a.used + rank;
      if (i == 0 && (a.ids[pair] < 0 || a.ids[pair] >= a.experts)) set_status(batch, r, kIndexRange);
      acc = fma(a.weights[pair], a.expert_out[pair * hidden + i], acc);
    }
    a.y[r * a.y_stride + i] = acc;
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
