// Static partition of a kernel's independent outputs over the queue's threads; on the calling thread when it has no pool.
// Who computes an output never changes its bits.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/isa.h"

namespace evros::kernels {

/// Calls body(context, begin, end) over [0, n) cut into contiguous ranges, and returns when all are done. What is too little
/// work to be worth waking a thread (n times cost, in element operations) stays on the calling one. A plain function,
/// compiled once, so that kernels for bigger CPUs instantiate nothing of std::function.
void run_ranges(device::Queue& queue, int64_t n, int64_t cost,
                void (*body)(const void* context, int64_t begin, int64_t end), const void* context);

inline namespace EVROS_ISA {

/// body(begin, end) over ranges of [0, n), whose elements cost about `cost` element operations each.
template <typename Body>
void for_each_range(device::Queue& queue, int64_t n, int64_t cost, const Body& body) {
  const auto range = [](const void* context, int64_t begin, int64_t end) {
    (*static_cast<const Body*>(context))(begin, end);
  };
  run_ranges(queue, n, cost, range, &body);
}

/// body(i) for every i of [0, n), each about `cost` element operations; the range is cut among the queue's threads.
template <typename Body>
void for_each(device::Queue& queue, int64_t n, int64_t cost, const Body& body) {
  const auto range = [](const void* context, int64_t begin, int64_t end) {
    const Body& each = *static_cast<const Body*>(context);
    for (int64_t i = begin; i < end; ++i) each(i);
  };
  run_ranges(queue, n, cost, range, &body);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
