// Matrix product: strips of rows are shared among the threads, each takes the vectors in blocks.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/strip.h"
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {

void matmul(device::Queue& queue, const Batch& batch, const MatmulArgs& a) {
  const int64_t segments = quant_segments(a.w.cols);
  // Blocks of about equal size: a last block of a few vectors would read all weights once more for little.
  const int64_t blocks = (batch.rows + kStripColumns - 1) / kStripColumns;
  for_each(queue, (a.w.rows + kStripRows - 1) / kStripRows, strip_cost(a.w.cols, batch.rows), [&](int64_t index) {
    StripWork work;
    work.type = a.w.type;
    work.strip = strip_of(a.w, index);
    work.k = a.w.cols;
    work.integers = !a.xq.empty();
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t r0 = block * batch.rows / blocks, r1 = (block + 1) * batch.rows / blocks;
      work.columns = static_cast<int>(r1 - r0);
      for (int64_t r = r0; r < r1; ++r) {
        work.x[r - r0] = a.x + r * a.x_stride;
        work.q[r - r0] = a.xq.segments + r * segments;
        work.y[r - r0] = a.y + r * a.y_stride + index * kStripRows;
      }
      multiply_strip(work);
    }
  });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
