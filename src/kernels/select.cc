// Which tables this program has and which of them this machine can run.
#ifdef EVROS_HAVE_VECTOR_TABLES
#include <cpuid.h>
#endif

#include <string_view>

#include "kernels/codec/codec.h"
#include "kernels/kernels.h"

namespace evros::kernels {

namespace ref {
const Kernels& table();
}
#ifdef EVROS_HAVE_REF_FMA
namespace ref_fma {
const Kernels& table();
}
#endif
#ifdef EVROS_HAVE_VECTOR_TABLES
namespace avx2 {
const Kernels& table();
}
namespace avx512 {
const Kernels& table();
}
#endif

const Kernels& ref_kernels() { return ref::table(); }

const Kernels* ref_fma_kernels() {
#ifdef EVROS_HAVE_REF_FMA
  // Also asks whether the operating system saves the wide registers.
  if (__builtin_cpu_supports("avx") && __builtin_cpu_supports("fma")) return &ref_fma::table();
#endif
  return nullptr;
}

namespace {

// What cmake/kernels.cmake compiles the two tables with. Asking for a wide set also asks whether the operating system saves
// its registers.
#ifdef EVROS_HAVE_VECTOR_TABLES
bool has_f16c() {  // which Clang 14 does not know by name
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

}  // namespace

std::vector<const Kernels*> host_tables() {
  std::vector<const Kernels*> tables{&ref_kernels()};
  if (const Kernels* fma = ref_fma_kernels()) tables.push_back(fma);
#ifdef EVROS_HAVE_VECTOR_TABLES
  if (runs_avx2()) tables.push_back(&avx2::table());
  if (runs_avx512()) tables.push_back(&avx512::table());
#endif
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
