// CUDA kernels: causal convolutions, a thread per row and channel, and the history that they leave.
#include "kernels/cuda/grid.h"
#include "kernels/ref/history.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

/// The newest `length` rows of every sequence into its private bank, for the next chunk.
void keep_history(device::Queue& queue, const Batch& batch, const float* x, int64_t x_stride, uint64_t bank_offset,
                  int64_t length, int64_t channels) {
  for_each_element(queue, batch.sequences, length * channels, [=] __device__(int64_t s, int64_t i) {
    const SequenceRows& sequence = batch.sequence[s];
    const RowsWithHistory rows(sequence, x, x_stride, bank_offset, length, channels);
    reinterpret_cast<float*>(sequence.bank_out + bank_offset)[i] =
        rows.row(sequence.rows - length + i / channels)[i % channels];
  });
}

}  // namespace

void gdn_conv(device::Queue& queue, const Batch& batch, const GdnConvArgs& a) {
  const int64_t last = a.kernel - 1;
  for_each_element(queue, batch.rows, a.channels, [=] __device__(int64_t r, int64_t c) {
    const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
    const RowsWithHistory x(sequence, a.x, a.x_stride, a.bank_offset, last, a.channels);
    float y = 0.0f;
    for (int64_t tap = 0; tap < a.kernel; ++tap) {
      y = fma(a.w[c * a.kernel + tap], x.row(r - sequence.first_row - last + tap)[c], y);
    }
    a.y[r * a.y_stride + c] = silu(y);
  });
  keep_history(queue, batch, a.x, a.x_stride, a.bank_offset, last, a.channels);
}

void ple_conv(device::Queue& queue, const Batch& batch, const PleConvArgs& a) {
  const int64_t reach = int64_t{a.kernel - 1} * a.dilation;
  for_each_element(queue, batch.rows, a.channels, [=] __device__(int64_t r, int64_t c) {
    const SequenceRows& sequence = batch.sequence[batch.row_sequence[r]];
    const RowsWithHistory normed(sequence, a.normed, a.stride, a.bank_offset, reach, a.channels);
    float acc = 0.0f;
    for (int64_t tap = 0; tap < a.kernel; ++tap) {
      acc = fma(a.w[c * a.kernel + tap], normed.row(r - sequence.first_row - reach + tap * a.dilation)[c], acc);
    }
    const float added = a.gv[r * a.stride + c] + silu(acc);
    float& x = a.x[r * a.x_stride + c];
    x = x + added;
    if (a.added != nullptr) a.added[r * a.added_stride + c] = added;
  });
  keep_history(queue, batch, a.normed, a.stride, a.bank_offset, reach, a.channels);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
