// The vector kernels of one instruction set, one function per replaced entry of Kernels (see kernels.h for what each
// computes, docs/numerics.md for the chain that it keeps). The sources of this folder are compiled once per instruction
// set, as those of ref/ are: the same file with another EVROS_ISA and other compiler flags (cmake/kernels.cmake). An entry
// without a function here is the reference source compiled for this instruction set.
#pragma once

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
