#include "kernels/for_ranges.h"

namespace evros::kernels {

namespace {

// About ten microseconds of scalar work: several times what it takes to wake a sleeping thread on a quiet machine.
constexpr int64_t kWorthSharing = 1 << 15;

}  // namespace

void run_ranges(device::Queue& queue, int64_t n, int64_t cost,
                void (*body)(const void* context, int64_t begin, int64_t end), const void* context) {
  if (n <= 0) return;
  if (queue.pool == nullptr || n == 1 || n * cost < kWorthSharing) {
    body(context, 0, n);
    return;
  }
  queue.pool->parallel(n, [body, context](int64_t begin, int64_t end) { body(context, begin, end); });
}

}  // namespace evros::kernels
