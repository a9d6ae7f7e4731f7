// The table of a vector instruction set: entries of this folder where there is one, else the reference source compiled for
// this instruction set. Every entry is written out, so that a new one in Kernels is an error here until it is set.
#include "kernels/cpu/cpu.h"
#include "kernels/ref/ref.h"

#define EVROS_STRING_(x) #x
#define EVROS_STRING(x) EVROS_STRING_(x)

namespace evros::kernels {
inline namespace EVROS_ISA {

const Kernels& table() {
  static constexpr Kernels kTable = {
      .name = EVROS_STRING(EVROS_ISA),
      .embed = embed,
      .quantize = simd::quantize,
      .matmul = simd::matmul,
      .rms_norm = simd::rms_norm,
      .rope = simd::rope,
      .swiglu = simd::swiglu,
      .keep_last = keep_last,
      .gather_last = gather_last,
      .check_finite = simd::check_finite,
      .hc_low = simd::hc_low,
      .hc_mix = simd::hc_mix,
      .hc_write = simd::hc_write,
      .gdn_conv = simd::gdn_conv,
      .gdn_qk_norm = simd::gdn_qk_norm,
      .gdn_gates = simd::gdn_gates,
      .gdn_delta = simd::gdn_delta,
      .gdn_out_norm = simd::gdn_out_norm,
      .store_rows = simd::store_rows,
      .index_store = simd::index_store,
      .qsa_select = simd::qsa_select,
      .attention = simd::attention,
      .head_gate = simd::head_gate,
      .router = simd::router,
      .experts = simd::experts,
      .shared_add = simd::shared_add,
      .keep_routes = keep_routes,
      .ple_rows = ple_rows,
      .ple_gate = simd::ple_gate,
      .ple_conv = simd::ple_conv,
  };
  return kTable;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
