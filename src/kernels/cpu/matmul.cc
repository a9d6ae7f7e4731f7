// Matrix product: strips of rows are shared among the threads, each takes the vectors in blocks.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/strip.h"
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

/// Bytes of activations that a thread goes through again for every strip: what stays in a second-level cache.
constexpr int64_t kKeptBytes = 512 << 10;

/// Strips [index, last), at most strips_at_once(), times rows [begin, end), at most kStripColumns of them.
void multiply_rows(const MatmulArgs& a, int64_t index, int64_t last, int64_t begin, int64_t end) {
  const int64_t segments = quant_segments(a.w.cols);
  StripWork work;
  work.type = a.w.type;
  work.k = a.w.cols;
  work.integers = !a.xq.empty();
  work.columns = static_cast<int>(end - begin);
  take_strips(a.w, index, last, work);
  for (int64_t r = begin; r < end; ++r) {
    work.x[r - begin] = a.x + r * a.x_stride;
    work.q[r - begin] = a.xq.segments + r * segments;
    work.y[r - begin] = a.y + r * a.y_stride + index * kStripRows;
  }
  multiply_strip(work);
}

}  // namespace

void matmul(device::Queue& queue, const Batch& batch, const MatmulArgs& a) {
  const int64_t row_bytes = a.xq.empty() ? a.w.cols * static_cast<int64_t>(sizeof(float))
                                         : quant_segments(a.w.cols) * static_cast<int64_t>(sizeof(QuantSegment));
  const int64_t columns = columns_at_once(batch.rows), strips = strips_at_once(batch.rows, !a.xq.empty());
  const int64_t kept = columns * (1 + kKeptBytes / row_bytes / kStripColumns);  // go through all strips together
  for_each_range(queue, (a.w.rows + kStripRows - 1) / kStripRows, strip_cost(a.w.cols, batch.rows),
                 [&](int64_t first, int64_t last) {
                   for (int64_t r0 = 0; r0 < batch.rows; r0 += kept) {
                     const int64_t end = smaller(r0 + kept, batch.rows);
                     for (int64_t index = first; index < last; index += strips) {
                       const int64_t next = smaller(index + strips, last);
                       for (int64_t r = r0; r < end; r += columns) {
                         multiply_rows(a, index, next, r, smaller(r + columns, end));
                       }
                     }
                   }
                 });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
