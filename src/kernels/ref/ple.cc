// Reference kernels: PLE.
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/dot_rows.h"
#include "kernels/ref/history.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

void ple_rows(device::Queue& queue, const Batch& batch, const PleRowsArgs& a) {
  for_each(queue, int64_t{batch.rows} * a.heads, a.width, [&](int64_t unit) {
    float* out = a.out + unit / a.heads * a.out_stride + unit % a.heads * a.width;
    decode_row(a.type, a.encoded + unit * a.row_bytes, a.width, out);
  });
}

void ple_gate(device::Queue& queue, const Batch& batch, const PleGateArgs& a) {
  const float root = sqrt(static_cast<float>(a.hidden));
  for_each(queue, int64_t{batch.rows} * a.hc, 8 * a.hidden, [&](int64_t unit) {
    const int64_t r = unit / a.hc, first = unit % a.hc * a.hidden;
    const float s = dot_chain(a.key + r * a.stride + first, a.query + r * a.stride + first, a.hidden) / root;
    check_row(batch, r, &s, 1);
    const float magnitude = sqrt(abs(s) > 1e-6f ? abs(s) : 1e-6f);
    const float w = s == 0.0f ? 0.5f : sigmoid(s < 0.0f ? -magnitude : magnitude);
    const float* value = a.value + r * a.value_stride;
    float* gv = a.gv + r * a.gv_stride + first;
    for (int64_t i = 0; i < a.hidden; ++i) gv[i] = w * value[i];
  });
}

void ple_conv(device::Queue& queue, const Batch& batch, const PleConvArgs& a) {
  const int64_t reach = int64_t{a.kernel - 1} * a.dilation;
  for_each(queue, (int64_t{a.channels} + kTile - 1) / kTile, int64_t{kTile} * a.kernel * batch.rows, [&](int64_t tile) {
    const int64_t c0 = tile * kTile, columns = smaller(kTile, a.channels - c0);
    for (int64_t s = 0; s < batch.sequences; ++s) {
      const SequenceRows& sequence = batch.sequence[s];
      const RowsWithHistory normed(sequence, a.normed, a.stride, a.bank_offset, reach, a.channels);
      for (int64_t t = 0; t < sequence.rows; ++t) {
        const int64_t r = sequence.first_row + t;
        float acc[kTile] = {};
        for (int64_t tap = 0; tap < a.kernel; ++tap) {
          const float* in = normed.row(t - reach + tap * a.dilation) + c0;
          for (int64_t c = 0; c < columns; ++c) acc[c] = fma(a.w[(c0 + c) * a.kernel + tap], in[c], acc[c]);
        }
        for (int64_t c = 0; c < columns; ++c) acc[c] = a.gv[r * a.stride + c0 + c] + silu(acc[c]);
        float* x = a.x + r * a.x_stride + c0;
        for (int64_t c = 0; c < columns; ++c) x[c] = x[c] + acc[c];
        if (a.added == nullptr) continue;
        for (int64_t c = 0; c < columns; ++c) a.added[r * a.added_stride + c0 + c] = acc[c];
      }
      normed.keep(sequence, a.bank_offset, c0, c0 + columns);
    }
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
