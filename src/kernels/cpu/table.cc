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
      .quantize = quantize,
      .matmul = matmul,
      .rms_norm = rms_norm,
      .rope = rope,
      .swiglu = swiglu,
      .keep_last = keep_last,
      .gather_last = gather_last,
      .check_finite = check_finite,
      .hc_low = hc_low,
      .hc_mix = hc_mix,
      .hc_write = hc_write,
      .gdn_conv = gdn_conv,
      .gdn_qk_norm = gdn_qk_norm,
      .gdn_gates = gdn_gates,
      .gdn_delta = gdn_delta,
      .gdn_out_norm = gdn_out_norm,
      .store_rows = store_rows,
      .index_store = index_store,
      .qsa_select = qsa_select,
      .attention = attention,
      .head_gate = head_gate,
      .router = router,
      .experts = experts,
      .shared_add = shared_add,
      .keep_routes = keep_routes,
      .ple_rows = ple_rows,
      .ple_gate = ple_gate,
      .ple_conv = ple_conv,
  };
  return kTable;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
