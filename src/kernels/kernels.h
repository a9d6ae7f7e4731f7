// The kernel table: every operation of the forward pass as a plain function over device memory. A table is one backend
// and instruction set (ref, avx2, avx512bw, avx512, amx, cuda); all compute the chains of docs/numerics.md, bit for bit, so a
// table is chosen once at start and never changes a result. ref/ is the rule where the page is silent.
//
// Conventions. All pointers are device memory of the table's device unless marked host. Matrices of activations are rows of
// floats; row r of X is at x + r * x_stride (strides in elements). "rows" counts tokens of the whole batch. Kernels
// allocate nothing, never fail, and report non-finite values and overflow through status words (Batch). Outputs
// never alias inputs unless said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"
#include "format/tensor_type.h"
#include "kernels/isa.h"

namespace evros::kernels {

/// Type of the cached K/V rows (numerics id `kv=`); values are rounded once when stored.
enum class CacheType : uint8_t { f32, f16, bf16 };
constexpr int64_t cache_bytes(CacheType type) { return type == CacheType::f32 ? 4 : 2; }

/// Bits of a sequence's status word; zero means clean.
enum StatusBit : uint32_t {
  kNonFinite = 1,      // a stage produced NaN or infinity
  kCacheOverflow = 2,  // a finite value became infinite in the cache type
  kIndexRange = 4,     // an index pointed outside its table
};

/// A weight matrix: `rows` outputs of `cols` inputs each, rows * row_bytes bytes in the order of kernels/layout.h.
struct Matrix {
  format::TensorType type = format::TensorType::f32;
  const std::byte* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t row_bytes = 0;
  /// What finished outputs are multiplied with (NVFP4's outer scale), or null; of experts one each.
  const float* scale = nullptr;
};

/// Up to 256 elements of a row of activations, quantised per 32 (docs/numerics.md, "Matrix product"): integers, scales, and
/// the sums of the integers of each 16, which products need again and again. What lies behind a row's last element is
/// undefined.
struct alignas(64) QuantSegment {
  int8_t q[256];
  float d[8];
  int16_t sum[16];
};
/// Segments of a row of `cols` elements.
EVROS_HD constexpr int64_t quant_segments(int64_t cols) { return (cols + 255) / 256; }

/// Quantised rows of `cols` elements: row r has quant_segments(cols) segments from segments + r * quant_segments(cols) on.
struct QuantRows {
  QuantSegment* segments = nullptr;
  bool empty() const { return segments == nullptr; }
};

/// One sequence's share of a batch: rows [first_row, first_row + rows) are its tokens at positions position, position + 1, ...
struct SequenceRows {
  int32_t first_row, rows;
  int64_t position;          // == its public frontier
  const std::byte* bank_in;  // the public bank (never written)
  std::byte* bank_out;       // the private bank
  std::byte* const* pages;   // device memory as well: page p holds positions [p * page_tokens, (p + 1) * page_tokens)
};

struct Batch {
  int32_t rows;
  int32_t sequences;
  int32_t page_tokens;
  const SequenceRows* sequence;  // [sequences]
  const int32_t* row_sequence;   // [rows] index into `sequence`
  const int64_t* row_position;   // [rows]
  uint32_t* status;              // [sequences], OR-ed with StatusBit
};

// ---- generic ------------------------------------------------------------------------------------------------------------

/// out[r][c * width + i] = dequantised table[ids[r]][i] for c < copies. An id outside the table sets kIndexRange and gives
/// zeros.
struct EmbedArgs {
  Matrix table;
  const int32_t* ids;
  float* out;
  int64_t out_stride;
  int32_t copies;
};

/// Quantises rows x of `cols` (a multiple of 32); non-finite input sets the row's status, and its group becomes zero.
struct QuantizeArgs {
  const float* x;
  int64_t x_stride, cols;
  QuantRows out;
};

/// y[r] = W x[r]. Quantised W with xq set: the integer chain; otherwise the float chain on dequantised weights.
struct MatmulArgs {
  Matrix w;
  const float* x;
  int64_t x_stride;
  QuantRows xq;
  float* y;
  int64_t y_stride;
};

/// RMS norm of `groups` groups of `width` in each row: y = (x * r) * gain. gain_stride 0 shares one gain among the groups.
/// May run in place.
struct RmsNormArgs {
  const float* x;
  int64_t x_stride, x_group_stride;
  const float* gain;
  int64_t gain_stride;
  int32_t groups, width;
  float eps;
  float* y;
  int64_t y_stride, y_group_stride;
};

/// Rotates the first `dims` of each group in place, pairs (i, i + dims/2). table[r][i] = {cos, sin} of row r's position.
struct RopeArgs {
  float* x;
  int64_t x_stride, x_group_stride;
  int32_t groups, dims;
  const float* table;  // [rows][dims/2][2]
};

/// y[r] = silu(gate[r]) * up[r], width columns.
struct SwigluArgs {
  const float *gate, *up;
  int64_t gate_stride, up_stride, width;
  float* y;
  int64_t y_stride;
};

/// Copies the bytes of the last row of each sequence into its private bank at `bank_offset` (any 4-byte elements).
struct KeepLastArgs {
  const float* x;
  int64_t x_stride, width;
  uint64_t bank_offset;
};

/// y[s] = last row of sequence s.
struct GatherLastArgs {
  const float* x;
  int64_t x_stride, width;
  float* y;
  int64_t y_stride;
};

/// Sets kNonFinite for each row with a non-finite element, by exponent bits.
struct CheckFiniteArgs {
  const float* x;
  int64_t x_stride, width;
};

// ---- hyper-connections (model.md 2.4) ----------------------------------------------------------------------------------

/// lo = silu(down * (1/hc)), in place over [rows][rank].
struct HcLowArgs {
  float* lo;
  int64_t stride, rank;
  int32_t hc;
};

/// u[i] = (fma chain over streams s of sigmoid(up[s*hidden+i]) * n[s*hidden+i]) * (1/hc).
struct HcMixArgs {
  const float *up, *normed;  // [rows][hc*hidden]
  int64_t stride;
  int32_t hc, hidden;
  float* u;
  int64_t u_stride;
};

/// x[s*hidden+i] = fma(2*sigmoid(inject[s]*(1/hc)), y[i], x[s*hidden+i]).
struct HcWriteArgs {
  const float* inject;  // [rows][hc]
  const float* y;
  int64_t y_stride;
  int32_t hc, hidden;
  float* x;
  int64_t x_stride;
};

// ---- Gated DeltaNet (model.md 2.5; value heads in GGUF order: value head j reads key head j mod key_heads) ---------------

/// Causal depthwise convolution over q | k | v channels and silu. History: `kernel - 1` rows of `channels` floats, oldest
/// first, at bank_offset of the public bank; the new history goes to the private bank.
struct GdnConvArgs {
  const float* x;
  int64_t x_stride;
  const float* w;  // [channels][kernel]
  int32_t channels, kernel;
  uint64_t bank_offset;
  float* y;
  int64_t y_stride;
};

/// L2-normalises q (then * 1/sqrt(key_dim)) and k heads in place: row = q | k | v.
struct GdnQkNormArgs {
  float* qkv;
  int64_t stride;
  int32_t key_heads, key_dim;
};

/// decay = exp(a * softplus(alpha + dt)), beta = sigmoid(beta); both in place over [rows][value_heads].
struct GdnGatesArgs {
  float *alpha, *beta;
  int64_t stride;
  const float *a, *dt;  // [value_heads]
  int32_t value_heads;
};

/// The delta rule, token by token. State: [value_heads][key_dim][value_dim] floats at bank_offset, public in, private out.
struct GdnDeltaArgs {
  const float* qkv;  // normed q, k; row = q | k | v
  int64_t qkv_stride;
  const float *decay, *beta;  // [rows][value_heads]
  int64_t gate_stride;
  int32_t key_heads, value_heads, key_dim, value_dim;
  uint64_t bank_offset;
  float* o;  // [rows][value_heads*value_dim]
  int64_t o_stride;
};

/// o = ((o * r) * w) * act(z) per value head, in place.
struct GdnOutNormArgs {
  float* o;
  const float* z;
  int64_t o_stride, z_stride;
  const float* w;  // [value_dim]
  int32_t value_heads, value_dim;
  float eps;
  bool silu;  // act: silu or sigmoid
};

// ---- attention and QSA (model.md 2.6, 2.7) -------------------------------------------------------------------------------

/// Where one appended owner's rows of one layer lie inside a page. Batch::page_tokens is a multiple of tokens_per_row, and
/// offset and row_bytes keep every row aligned for its element type.
struct PageRows {
  uint64_t offset;  // of the first row in every page
  int64_t row_bytes;
  int32_t tokens_per_row;  // 1, or the compress ratio
};

/// Rounds rows x of `width` to the cache type and stores them at their positions; overflow sets kCacheOverflow.
struct StoreRowsArgs {
  const float* x;
  int64_t x_stride, width;
  CacheType type;
  PageRows page;
};

/// Raw index keys: for every block that a row of this chunk completes, the pooled, normed, rotated key is stored (f32) in
/// `page`; the rows of the incomplete block go to the private bank. Raw rows of the incomplete block before this chunk
/// come from the public bank ([ratio-1][dim] floats at bank_offset; unused rows of the private copy are zero).
struct IndexStoreArgs {
  const float* raw;  // [rows][dim]
  int64_t raw_stride;
  int32_t dim, ratio, rope_dims;
  const float* gain;  // [dim]
  float eps;
  const float*
      block_rope;  // [rows][rope_dims/2][2], rows that complete a block: cos, sin at the block's first position
  uint64_t bank_offset;
  PageRows page;
};

/// Scores the complete blocks of each row and keeps the best `keep`, as ascending block numbers; -1 fills the rest.
/// All blocks are kept without scoring when there are at most `keep`.
struct QsaSelectArgs {
  const float* q;  // [rows][heads*dim], normed and rotated
  int64_t q_stride;
  int32_t heads, dim, ratio, keep;
  PageRows page;
  float* scores;  // scratch, [rows][score_stride]; score_stride >= complete blocks of every row
  int64_t score_stride;
  int32_t* selected;  // [rows][keep]
};

/// Attention over the selected blocks and the row's own tail; with ratio 0 over every position <= the row's.
struct AttentionArgs {
  const float* q;  // [rows][heads*key_dim], normed and rotated
  int64_t q_stride;
  int32_t heads, kv_heads, key_dim, value_dim;
  CacheType type;
  PageRows k, v;
  int32_t ratio, keep;
  const int32_t* selected;  // [rows][keep], unused when ratio is 0
  float* scores;            // scratch, [rows][heads][score_stride]
  int64_t score_stride;     // >= visible positions of every row
  float* out;               // [rows][heads*value_dim]
  int64_t out_stride;
};

/// out = out * sigmoid(gate), per head of `width`; gates lie at gate + r * gate_stride + head * gate_head_stride.
struct HeadGateArgs {
  float* out;
  int64_t out_stride;
  const float* gate;
  int64_t gate_stride, gate_head_stride;
  int32_t heads, width;
};

// ---- mixture of experts (model.md 2.9) -----------------------------------------------------------------------------------

/// Softmax over `experts` logits; the best `used` by (higher probability, lower id), in rank order, with their weights.
/// A row with a non-finite logit sets kNonFinite and gets ids 0, 1, ... with weights 0, so that what follows stays in range.
struct RouterArgs {
  const float* logits;  // [rows][experts]
  int64_t stride;
  int32_t experts, used;
  bool normalise;
  int32_t* ids;    // [rows][used]
  float* weights;  // [rows][used]
};

/// y = fma(w_rank, expert(x), y) by rank from +0. Expert e of a matrix starts at data + e * expert_bytes. The activations
/// between the products are checked for non-finite values here.
struct ExpertsArgs {
  Matrix gate, up, down;  // of one expert: gate/up [ff][hidden], down [hidden][ff]
  int64_t gate_expert_bytes, up_expert_bytes, down_expert_bytes;
  const float* x;
  int64_t x_stride;
  QuantRows xq;  // set when the N1 integer chain is wanted
  const int32_t* ids;
  const float* weights;
  int32_t used;
  float* hidden;       // scratch, [rows][used][ff] floats twice over: gate, then up
  QuantRows hidden_q;  // scratch for the down product, [rows * used][ff]
  float* expert_out;   // scratch, [rows][used][hidden]
  int32_t experts;     // every id is below it
  int32_t* order;      // scratch, [rows * used]: (row, rank) pairs sorted by expert
  int32_t* first;      // scratch, [experts + 1]: where each expert's pairs begin
  float* y;
  int64_t y_stride;
};

/// y = fma(sigmoid(gate[r]), shared, y), in place over [rows][width].
struct SharedAddArgs {
  const float* gate;  // [rows]
  const float* shared;
  int64_t shared_stride, width;
  float* y;
  int64_t y_stride;
};

/// Copies the last row's expert ids of each sequence into its private bank.
struct KeepRoutesArgs {
  const int32_t* ids;  // [rows][used]
  int32_t used;
  uint64_t bank_offset;
};

// ---- PLE (model.md 2.8) --------------------------------------------------------------------------------------------------

/// out[r][head*width ..] = dequantised encoded row; encoded rows lie packed, [rows][heads] of row_bytes each.
struct PleRowsArgs {
  format::TensorType type;
  const std::byte* encoded;
  int64_t row_bytes;
  int32_t heads, width;
  float* out;  // [rows][heads*width]
  int64_t out_stride;
};

/// gv[c*hidden+i] = sigmoid(s'_c) * value[i], s_c the gate of stream c from normed key and query.
struct PleGateArgs {
  const float *key, *query;  // [rows][hc*hidden], normed
  int64_t stride;
  const float* value;  // [rows][hidden]
  int64_t value_stride;
  int32_t hc, hidden;
  float* gv;
  int64_t gv_stride;
};

/// Dilated causal convolution of normed, silu, and x = x + (gv + conv). History: (kernel-1)*dilation rows of `channels`
/// floats, oldest first, at bank_offset: public in, private out. added (may be null) receives gv + conv.
struct PleConvArgs {
  const float *normed, *gv;  // [rows][channels]
  int64_t stride;
  const float* w;  // [channels][kernel]
  int32_t channels, kernel, dilation;
  uint64_t bank_offset;
  float* x;
  int64_t x_stride;
  float* added;
  int64_t added_stride;
};

/// One backend. Every entry is set in every table; a table says which instruction set it is.
struct Kernels {
  const char* name;  // "ref", "ref-fma"
  void (*embed)(device::Queue&, const Batch&, const EmbedArgs&);
  void (*quantize)(device::Queue&, const Batch&, const QuantizeArgs&);
  void (*matmul)(device::Queue&, const Batch&, const MatmulArgs&);
  void (*rms_norm)(device::Queue&, const Batch&, const RmsNormArgs&);
  void (*rope)(device::Queue&, const Batch&, const RopeArgs&);
  void (*swiglu)(device::Queue&, const Batch&, const SwigluArgs&);
  void (*keep_last)(device::Queue&, const Batch&, const KeepLastArgs&);
  void (*gather_last)(device::Queue&, const Batch&, const GatherLastArgs&);
  void (*check_finite)(device::Queue&, const Batch&, const CheckFiniteArgs&);
  void (*hc_low)(device::Queue&, const Batch&, const HcLowArgs&);
  void (*hc_mix)(device::Queue&, const Batch&, const HcMixArgs&);
  void (*hc_write)(device::Queue&, const Batch&, const HcWriteArgs&);
  void (*gdn_conv)(device::Queue&, const Batch&, const GdnConvArgs&);
  void (*gdn_qk_norm)(device::Queue&, const Batch&, const GdnQkNormArgs&);
  void (*gdn_gates)(device::Queue&, const Batch&, const GdnGatesArgs&);
  void (*gdn_delta)(device::Queue&, const Batch&, const GdnDeltaArgs&);
  void (*gdn_out_norm)(device::Queue&, const Batch&, const GdnOutNormArgs&);
  void (*store_rows)(device::Queue&, const Batch&, const StoreRowsArgs&);
  void (*index_store)(device::Queue&, const Batch&, const IndexStoreArgs&);
  void (*qsa_select)(device::Queue&, const Batch&, const QsaSelectArgs&);
  void (*attention)(device::Queue&, const Batch&, const AttentionArgs&);
  void (*head_gate)(device::Queue&, const Batch&, const HeadGateArgs&);
  void (*router)(device::Queue&, const Batch&, const RouterArgs&);
  void (*experts)(device::Queue&, const Batch&, const ExpertsArgs&);
  void (*shared_add)(device::Queue&, const Batch&, const SharedAddArgs&);
  void (*keep_routes)(device::Queue&, const Batch&, const KeepRoutesArgs&);
  void (*ple_rows)(device::Queue&, const Batch&, const PleRowsArgs&);
  void (*ple_gate)(device::Queue&, const Batch&, const PleGateArgs&);
  void (*ple_conv)(device::Queue&, const Batch&, const PleConvArgs&);
};

/// Scalar kernels compiled for the baseline instruction set: always there.
const Kernels& ref_kernels();
/// The same source compiled with hardware fused multiply-add; null where the CPU has none, or the baseline has it.
const Kernels* ref_fma_kernels();
/// Every table that this machine can run, slowest first.
std::vector<const Kernels*> host_tables();
/// The fastest table this CPU can run.
const Kernels& best_host_kernels();
/// Host tables by name ("ref", "ref-fma"), null when unknown or not runnable here.
const Kernels* host_kernels(const char* name);

/// Can the tables multiply with this type? (Every other type is refused at load, all offending tensors in one message.)
bool can_multiply(format::TensorType type);

}  // namespace evros::kernels
