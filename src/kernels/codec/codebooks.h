// The codebooks of formats that look their weights up: one accessor for each, which a device reads as the host does. The
// values are made at build time by tools/gen_codebooks.py from the tables of PyPI gguf:
//   iq2_xxs_grid, iq2_xs_grid, iq2_s_grid, iq1_grid: eight unsigned bytes an entry, in two words; of iq1_grid plus one
//   iq3_xxs_grid, iq3_s_grid: four unsigned bytes an entry, in one word
//   iq4_values (plus 128), fp4_values (plus 12): sixteen bytes
#pragma once

#include <cstdint>

#include "kernels/isa.h"

#ifdef __CUDACC__
#define EVROS_DEVICE_CODEBOOK(type, name, ...) static __device__ const type name##_on_device[] = {__VA_ARGS__};
#else
#define EVROS_DEVICE_CODEBOOK(type, name, ...)
#endif
#ifdef __CUDA_ARCH__
#define EVROS_CODEBOOK_HERE(name) name##_on_device
#else
#define EVROS_CODEBOOK_HERE(name) name##_on_host
#endif
#define EVROS_CODEBOOK(type, name, ...)                               \
  alignas(64) inline constexpr type name##_on_host[] = {__VA_ARGS__}; \
  EVROS_DEVICE_CODEBOOK(type, name, __VA_ARGS__)                      \
  EVROS_INLINE const type* name() { return EVROS_CODEBOOK_HERE(name); }

namespace evros::kernels {
inline namespace EVROS_ISA {

#include "kernels/codebooks.inc"

}  // namespace EVROS_ISA
}  // namespace evros::kernels

#undef EVROS_CODEBOOK
#undef EVROS_CODEBOOK_HERE
#undef EVROS_DEVICE_CODEBOOK
