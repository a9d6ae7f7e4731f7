// Reference kernels: the QSA indexer's block keys and the selection of blocks.
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/dot_rows.h"
#include "kernels/ref/index_rows.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

/// Pools, norms and rotates the block that begins at `begin`.
/// False when the squares of the pooled key overflowed, which would leave a key of zeros.
bool make_block_key(const IndexStoreArgs& a, const SequenceRows& sequence, int64_t begin, const float* rope,
                    float* key) {
  for (int64_t i = 0; i < a.dim; ++i) {
    float sum = raw_key(a, sequence, begin)[i];
    for (int64_t j = 1; j < a.ratio; ++j) sum += raw_key(a, sequence, begin + j)[i];
    key[i] = sum / static_cast<float>(a.ratio);
  }
  const float scale = rms_scale(key, a.dim, a.eps);
  for (int64_t i = 0; i < a.dim; ++i) key[i] = (key[i] * scale) * a.gain[i];
  rotate(key, rope, a.rope_dims);
  return scale != 0.0f;
}

/// The incomplete block's raw rows into the private bank, zeros after them.
void keep_tail(const IndexStoreArgs& a, const SequenceRows& sequence) {
  float* out = reinterpret_cast<float*>(sequence.bank_out + a.bank_offset);
  const int64_t end = sequence.position + sequence.rows, begin = end / a.ratio * a.ratio;
  for (int64_t i = 0; i < a.ratio - 1; ++i) {
    const float* from = begin + i < end ? raw_key(a, sequence, begin + i) : nullptr;
    for (int64_t c = 0; c < a.dim; ++c) out[i * a.dim + c] = from != nullptr ? from[c] : 0.0f;
  }
}

/// Scores blocks [0, count) for row r into `scores`: heads added ascending.
void score_blocks(const QsaSelectArgs& a, const Batch& batch, int64_t r, int64_t count, float* scores) {
  const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
  const float scale = inverse_sqrt(a.dim);
  float dots[kLanes];
  DotRows work;
  work.type = format::TensorType::f32;
  work.k = a.dim;
  work.integers = false;
  work.columns = 1;
  work.y[0] = dots;
  for (int64_t b0 = 0; b0 < count; b0 += kLanes) {
    work.lanes = static_cast<int>(smaller(kLanes, count - b0));
    for (int lane = 0; lane < work.lanes; ++lane) {
      work.row[lane] = page_row(batch, sequence, a.page, (b0 + lane) * a.ratio);
      scores[b0 + lane] = 0.0f;
    }
    for (int64_t head = 0; head < a.heads; ++head) {
      work.x[0] = a.q + r * a.q_stride + head * a.dim;
      dot_rows(work);
      check_row(batch, r, dots, work.lanes);
      for (int lane = 0; lane < work.lanes; ++lane) scores[b0 + lane] += relu(dots[lane]);
    }
    for (int lane = 0; lane < work.lanes; ++lane) scores[b0 + lane] *= scale;
  }
}

/// The keep-th largest of count > keep scores, which are never negative: their bits order as integers do. Found bit by bit.
uint32_t cut_score(const float* scores, int64_t count, int64_t keep) {
  uint32_t cut = 0;
  for (uint32_t bit = 0x40000000u; bit != 0; bit >>= 1) {
    int64_t reached = 0;
    for (int64_t b = 0; b < count; ++b) reached += float_bits(scores[b]) >= (cut | bit) ? 1 : 0;
    if (reached >= keep) cut |= bit;
  }
  return cut;
}

/// The best `keep` blocks, ascending: all above the cut, and of those at the cut the first.
void select_blocks(const float* scores, int64_t count, int64_t keep, int32_t* selected) {
  const uint32_t cut = cut_score(scores, count, keep);
  int64_t at_cut = keep;
  for (int64_t b = 0; b < count; ++b) at_cut -= float_bits(scores[b]) > cut ? 1 : 0;
  int64_t taken = 0;
  for (int64_t b = 0; b < count && taken < keep; ++b) {
    const uint32_t score = float_bits(scores[b]);
    if (score < cut || (score == cut && at_cut == 0)) continue;
    if (score == cut) --at_cut;
    selected[taken++] = static_cast<int32_t>(b);
  }
}

}  // namespace

void index_store(device::Queue& queue, const Batch& batch, const IndexStoreArgs& a) {
  for_each(queue, batch.rows, 2 * a.dim, [&](int64_t r) {
    check_row(batch, r, a.raw + r * a.raw_stride, a.dim);
    const int64_t position = batch.row_position[r];
    if ((position + 1) % a.ratio != 0) return;
    const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
    const int64_t begin = position + 1 - a.ratio;
    float* key = reinterpret_cast<float*>(page_row(batch, sequence, a.page, begin));
    if (!make_block_key(a, sequence, begin, a.block_rope + r * a.rope_dims, key)) set_status(batch, r, kNonFinite);
    check_row(batch, r, key, a.dim);
  });
  for_each(queue, batch.sequences, int64_t{a.ratio} * a.dim, [&](int64_t s) { keep_tail(a, batch.sequence[s]); });
}

void qsa_select(device::Queue& queue, const Batch& batch, const QsaSelectArgs& a) {
  for_each(queue, batch.rows, int64_t{a.heads} * a.dim * 16, [&](int64_t r) {
    int32_t* selected = a.selected + r * a.keep;
    const int64_t complete = (batch.row_position[r] + 1) / a.ratio;
    if (complete > a.keep) {
      float* scores = a.scores + r * a.score_stride;
      score_blocks(a, batch, r, complete, scores);
      select_blocks(scores, complete, a.keep, selected);
      return;
    }
    for (int64_t b = 0; b < a.keep; ++b) selected[b] = b < complete ? static_cast<int32_t>(b) : -1;
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
