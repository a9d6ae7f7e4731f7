// The reference kernels, one function per entry of Kernels (see kernels.h for what each computes).
#pragma once

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

void embed(device::Queue&, const Batch&, const EmbedArgs&);
void quantize(device::Queue&, const Batch&, const QuantizeArgs&);
void matmul(device::Queue&, const Batch&, const MatmulArgs&);
void rms_norm(device::Queue&, const Batch&, const RmsNormArgs&);
void rope(device::Queue&, const Batch&, const RopeArgs&);
void swiglu(device::Queue&, const Batch&, const SwigluArgs&);
void keep_last(device::Queue&, const Batch&, const KeepLastArgs&);
void gather_last(device::Queue&, const Batch&, const GatherLastArgs&);
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
void keep_routes(device::Queue&, const Batch&, const KeepRoutesArgs&);
void ple_rows(device::Queue&, const Batch&, const PleRowsArgs&);
void ple_gate(device::Queue&, const Batch&, const PleGateArgs&);
void ple_conv(device::Queue&, const Batch&, const PleConvArgs&);

/// Quantises one row of n elements, a multiple of 32 (N1: Matrix product). False when an element is not finite; that
/// element's group is then zero.
bool quantize_row(const float* x, int64_t n, QuantSegment* out);

/// The table of this instruction set.
const Kernels& table();

}  // namespace EVROS_ISA
}  // namespace evros::kernels
