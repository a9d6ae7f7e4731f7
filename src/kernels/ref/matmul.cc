// Reference kernel: matrix product, both chains.
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/dot_rows.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

void matmul(device::Queue& queue, const Batch& batch, const MatmulArgs& a) {
  const int64_t k = a.w.cols;
  for_each(queue, (a.w.rows + kLanes - 1) / kLanes, int64_t{kLanes} * a.w.cols * batch.rows, [&](int64_t tile) {
    DotRows work;
    const int64_t n0 = tile * kLanes;
    work.type = a.w.type;
    work.k = k;
    work.integers = !a.xq.empty();
    work.scale = a.w.scale;
    work.lanes = static_cast<int>(smaller(kLanes, a.w.rows - n0));
    work.strip = strip_of(a.w, n0 / kStripRows);
    work.first_lane = static_cast<int32_t>(n0 % kStripRows);
    for (int64_t r0 = 0; r0 < batch.rows; r0 += kColumns) {
      work.columns = static_cast<int>(smaller(kColumns, batch.rows - r0));
      for (int c = 0; c < work.columns; ++c) {
        const int64_t r = r0 + c;
        work.x[c] = a.x + r * a.x_stride;
        if (work.integers) work.q[c] = a.xq.segments + r * quant_segments(k);
        work.y[c] = a.y + r * a.y_stride + n0;
      }
      dot_rows(work);
    }
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
