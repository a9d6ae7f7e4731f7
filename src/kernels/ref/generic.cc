// Reference kernels that belong to no part of the model: embedding, quantisation of activations, swiglu, row copies and
// finite checks.
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/dot_rows.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

void embed(device::Queue& queue, const Batch& batch, const EmbedArgs& a) {
  for_each(queue, batch.rows, a.table.cols * a.copies, [&](int64_t r) {
    float* out = a.out + r * a.out_stride;
    const int64_t id = a.ids[r], width = a.table.cols;
    const bool known = id >= 0 && id < a.table.rows;
    if (known) {
      decode_row(a.table, id, out);
    } else {
      set_status(batch, r, kIndexRange);
      for (int64_t i = 0; i < width; ++i) out[i] = 0.0f;
    }
    for (int64_t c = 1; c < a.copies; ++c) {
      for (int64_t i = 0; i < width; ++i) out[c * width + i] = out[i];
    }
  });
}

bool quantize_row(const float* x, int64_t n, QuantSegment* out) {
  bool finite = true;
  for (int64_t g = 0; g < n / 32; ++g, x += 32) {
    QuantSegment& segment = out[g / 8];
    const int64_t place = g % 8;
    int8_t* q = segment.q + 32 * place;
    const bool clean = all_finite(x, 32);
    finite = finite && clean;
    float amax = 0.0f;
    for (int i = 0; i < 32; ++i) amax = abs(x[i]) > amax ? abs(x[i]) : amax;
    const bool zero = !clean || amax < 0x1p-100f;
    segment.d[place] = zero ? 0.0f : amax / 127.0f;
    const float inverse = zero ? 0.0f : 127.0f / amax;
    for (int i = 0; i < 32; ++i) q[i] = zero ? int8_t{0} : static_cast<int8_t>(round_even(x[i] * inverse));
    for (int half = 0; half < 2; ++half) {
      int32_t sum = 0;
      for (int i = 0; i < 16; ++i) sum += q[16 * half + i];
      segment.sum[2 * place + half] = static_cast<int16_t>(sum);
    }
  }
  return finite;
}

void quantize(device::Queue& queue, const Batch& batch, const QuantizeArgs& a) {
  for_each(queue, batch.rows, 4 * a.cols, [&](int64_t r) {
    if (!quantize_row(a.x + r * a.x_stride, a.cols, a.out.segments + r * quant_segments(a.cols))) {
      set_status(batch, r, kNonFinite);
    }
  });
}

void swiglu(device::Queue& queue, const Batch& batch, const SwigluArgs& a) {
  for_each(queue, batch.rows, 8 * a.width, [&](int64_t r) {
    const float *gate = a.gate + r * a.gate_stride, *up = a.up + r * a.up_stride;
    float* y = a.y + r * a.y_stride;
    for (int64_t i = 0; i < a.width; ++i) y[i] = silu(gate[i]) * up[i];
  });
}

void keep_last(device::Queue& queue, const Batch& batch, const KeepLastArgs& a) {
  for_each(queue, batch.sequences, a.width, [&](int64_t s) {
    const SequenceRows& sequence = batch.sequence[s];
    if (sequence.rows == 0) return;
    const int64_t last = sequence.first_row + sequence.rows - 1;
    __builtin_memcpy(sequence.bank_out + a.bank_offset, a.x + last * a.x_stride,
                     static_cast<size_t>(a.width) * sizeof(float));
  });
}

void gather_last(device::Queue& queue, const Batch& batch, const GatherLastArgs& a) {
  for_each(queue, batch.sequences, a.width, [&](int64_t s) {
    const SequenceRows& sequence = batch.sequence[s];
    if (sequence.rows == 0) return;
    const int64_t last = sequence.first_row + sequence.rows - 1;
    __builtin_memcpy(a.y + s * a.y_stride, a.x + last * a.x_stride, static_cast<size_t>(a.width) * sizeof(float));
  });
}

void check_finite(device::Queue& queue, const Batch& batch, const CheckFiniteArgs& a) {
  for_each(queue, batch.rows, a.width, [&](int64_t r) { check_row(batch, r, a.x + r * a.x_stride, a.width); });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
