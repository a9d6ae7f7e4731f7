// operator new that throws by plan on the calling thread, while a MemoryFaults lives (operator_new_test.cc replaces it,
// for the test program that links it).
#pragma once

#include "sim/fault_plan.h"

namespace evros::sim {

/// From construction to destruction allocations of this thread ask `faults` (FaultKind::host_memory). Around a call of
/// the engine and nothing else: what the test allocates for itself must not fail.
class MemoryFaults {
 public:
  explicit MemoryFaults(Faults& faults);
  ~MemoryFaults();
  MemoryFaults(const MemoryFaults&) = delete;
  MemoryFaults& operator=(const MemoryFaults&) = delete;
};

}  // namespace evros::sim
