// Which tables this program has and which of them this machine can run.
#include <string_view>

#include "device/tile_registers.h"
#include "kernels/codec/codec.h"
#include "kernels/kernels.h"

#ifdef EVROS_X86_TABLES
#include <cpuid.h>
#endif

namespace evros::kernels {

inline namespace ref {  // EVROS_ISA here
const Kernels& table();
}  // namespace ref

// host_tables.inc has EVROS_TABLE(isa) for every table beside the reference that this build has (cmake/kernels.cmake), slowest
// first.
#define EVROS_TABLE(isa)  \
  namespace isa {         \
  const Kernels& table(); \
  }
#include "kernels/host_tables.inc"
#undef EVROS_TABLE

#ifdef EVROS_X86_TABLES

namespace {

// What the tables are compiled with. Asking for a wide set also asks whether the operating system saves its registers.
bool has_f16c() {  // which Clang 14 does not know by name
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTile) == 0 || (d & kInt8) == 0) return false;
  static const bool allowed = device::take_tile_registers();
  return allowed;
}

bool runs(std::string_view isa) {
  const bool fma = __builtin_cpu_supports("avx") && __builtin_cpu_supports("fma");
  if (isa == "ref_fma") return fma;
  const bool avx2 = fma && __builtin_cpu_supports("avx2") && has_f16c();
  if (isa == "avx2") return avx2;
  const bool avx512bw = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (isa == "avx512bw") return avx512bw;
  const bool avx512 = avx512bw && __builtin_cpu_supports("avx512vnni");
  if (isa == "avx512") return avx512;
  return isa == "amx" && avx512 && has_tiles();
}

}  // namespace

#endif

const Kernels& ref_kernels() { return ref::table(); }
const Kernels* ref_fma_kernels() { return host_kernels("ref-fma"); }

std::vector<const Kernels*> host_tables() {
  std::vector<const Kernels*> tables{&ref_kernels()};
#define EVROS_TABLE(isa) \
  if (runs(#isa)) tables.push_back(&isa::table());
#include "kernels/host_tables.inc"
#undef EVROS_TABLE
  return tables;
}

const Kernels& best_host_kernels() { return *host_tables().back(); }

const Kernels* host_kernels(const char* name) {
  for (const Kernels* table : host_tables()) {
    if (std::string_view(table->name) == name) return table;
  }
  return nullptr;
}

bool can_multiply(format::TensorType type) {
  return find_codec(type, []<typename Codec>() {});
}

}  // namespace evros::kernels
