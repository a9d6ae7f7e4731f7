// Reference kernels: RMS norm and rotary positions.
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

void rms_norm(device::Queue& queue, const Batch& batch, const RmsNormArgs& a) {
  for_each(queue, int64_t{batch.rows} * a.groups, 2 * a.width, [&](int64_t unit) {
    const int64_t r = unit / a.groups, group = unit % a.groups;
    const float* x = a.x + r * a.x_stride + group * a.x_group_stride;
    const float* gain = a.gain + group * a.gain_stride;
    float* y = a.y + r * a.y_stride + group * a.y_group_stride;
    const float scale = rms_scale(x, a.width, a.eps);
    if (scale == 0.0f) set_status(batch, r, kNonFinite);  // the squares overflowed
    for (int64_t i = 0; i < a.width; ++i) y[i] = (x[i] * scale) * gain[i];
  });
}

void rope(device::Queue& queue, const Batch& batch, const RopeArgs& a) {
  for_each(queue, batch.rows, int64_t{a.groups} * a.dims, [&](int64_t r) {
    for (int64_t group = 0; group < a.groups; ++group) {
      rotate(a.x + r * a.x_stride + group * a.x_group_stride, a.table + r * a.dims, a.dims);
    }
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
