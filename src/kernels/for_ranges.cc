#include "kernels/for_ranges.h"

namespace evros::kernels {

void run_ranges(device::Queue& queue, int64_t n, void (*body)(const void* context, int64_t begin, int64_t end),
                const void* context) {
  if (n <= 0) return;
  if (queue.pool == nullptr || n == 1) {
    body(context, 0, n);
    return;
  }
  queue.pool->parallel(n, [body, context](int64_t begin, int64_t end) { body(context, begin, end); });
}

}  // namespace evros::kernels
