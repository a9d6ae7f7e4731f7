// The vector kernels of one instruction set, one function per replaced entry of Kernels (see kernels.h for what each
// computes, docs/numerics.md for the chain that it keeps). The sources of this folder are compiled once per instruction
// set, as those of ref/ are: the same file with another EVROS_ISA and other compiler flags (cmake/kernels.cmake). An entry
// without a function here is the reference source compiled for this instruction set.
#pragma once

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {

void quantize(device::Queue&, const Batch&, const QuantizeArgs&);
void matmul(device::Queue&, const Batch&, const MatmulArgs&);
void experts(device::Queue&, const Batch&, const ExpertsArgs&);

/// As the reference's quantize_row.
bool quantize_row(const float* x, int64_t n, QuantSegment* out);

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
