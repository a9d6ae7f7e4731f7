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
void rms_norm(device::Queue&, const Batch&, const RmsNormArgs&);
void rope(device::Queue&, const Batch&, const RopeArgs&);
void swiglu(device::Queue&, const Batch&, const SwigluArgs&);
void check_finite(device::Queue&, const Batch&, const CheckFiniteArgs&);
void hc_low(device::Queue&, const Batch&, const HcLowArgs&);
void hc_mix(device::Queue&, const Batch&, const HcMixArgs&);
void hc_write(device::Queue&, const Batch&, const HcWriteArgs&);
void gdn_conv(device::Queue&, const Batch&, const GdnConvArgs&);
void gdn_qk_norm(device::Queue&, const Batch&, const GdnQkNormArgs&);
void gdn_gates(device::Queue&, const Batch&, const GdnGatesArgs&);
void gdn_delta(device::Queue&, const Batch&, const GdnDeltaArgs&);
void gdn_out_norm(device::Queue&, const Batch&, const GdnOutNormArgs&);
void store_rows(device::Queue&, const Batch&, const StoreRowsArgs&);
void index_store(device::Queue&, const Batch&, const IndexStoreArgs&);
void qsa_select(device::Queue&, const Batch&, const QsaSelectArgs&);
void attention(device::Queue&, const Batch&, const AttentionArgs&);
void head_gate(device::Queue&, const Batch&, const HeadGateArgs&);
void router(device::Queue&, const Batch&, const RouterArgs&);
void experts(device::Queue&, const Batch&, const ExpertsArgs&);
void shared_add(device::Queue&, const Batch&, const SharedAddArgs&);
void ple_gate(device::Queue&, const Batch&, const PleGateArgs&);
void ple_conv(device::Queue&, const Batch&, const PleConvArgs&);

/// As quantize_row() of ref.h.
bool quantize_row(const float* x, int64_t n, QuantSegment* out);
/// As rotate() of chains.h.
void rotate_lanes(float* x, const float* table, int64_t dims);

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
