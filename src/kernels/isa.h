// How kernel sources are compiled for more than one instruction set without sharing a single inline function between them
// (docs/numerics.md, Environment). The same file is compiled once per instruction set with another EVROS_ISA; every inline
// function that arithmetic goes through lives in `inline namespace EVROS_ISA`, so the linker can never pick the copy that
// was compiled for a bigger CPU. Such sources use no inline function of the standard library for the same reason.
#pragma once

#ifndef EVROS_ISA
#define EVROS_ISA ref  // the baseline instruction set: what everything that is not a kernel uses
#endif

#ifdef __CUDACC__
#define EVROS_HD __host__ __device__
#else
#define EVROS_HD
#endif
/// Small arithmetic: inlined at every optimisation level, callable from host and device.
#define EVROS_INLINE EVROS_HD inline __attribute__((always_inline))
/// Before a loop over registers: GCC keeps an array that such a loop goes through in memory unless the loop is unrolled, which it
/// does not do at -O2 and -O3 when the body is long. Clang unrolls by itself.
#if defined(__GNUC__) && !defined(__clang__)
#define EVROS_UNROLLED _Pragma("GCC unroll 16")
#else
#define EVROS_UNROLLED
#endif
