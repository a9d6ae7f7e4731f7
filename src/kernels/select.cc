// Which tables this program has and which of them this machine can run.
#include <string_view>

#include "kernels/codec/codec.h"
#include "kernels/kernels.h"

#ifdef EVROS_X86_TABLES
#include <cpuid.h>
#endif

namespace evros::kernels {

inline namespace ref {  // EVROS_ISA here
const Kernels& table();
}  // namespace ref

const Kernels& ref_kernels() { return ref::table(); }

// Every table beside the reference: those that cmake/kernels.cmake compiles for this architecture, slowest first.
// Weak: a build may leave some out (EVROS_TABLES).
#ifdef EVROS_X86_TABLES

namespace ref_fma {
[[gnu::weak]] const Kernels& table();
}
namespace avx2 {
[[gnu::weak]] const Kernels& table();
}
namespace avx512bw {
[[gnu::weak]] const Kernels& table();
}
namespace avx512 {
[[gnu::weak]] const Kernels& table();
}

namespace {

// What the tables are compiled with. Asking for a wide set also asks whether the operating system saves its registers.
bool has_f16c() {  // which Clang 14 does not know by name
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

bool runs_avx512bw() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

void add_tables(std::vector<const Kernels*>& tables) {
  if (const Kernels* fma = ref_fma_kernels()) tables.push_back(fma);
  const auto add = [&](const Kernels& (*table)(), bool runs) {
    if (table != nullptr && runs) tables.push_back(&table());
  };
  add(avx2::table, runs_avx2());
  add(avx512bw::table, runs_avx512bw());
  add(avx512::table, runs_avx512bw() && __builtin_cpu_supports("avx512vnni"));
}

}  // namespace

const Kernels* ref_fma_kernels() {
  const Kernels& (*table)() = ref_fma::table;
  return table != nullptr && __builtin_cpu_supports("avx") && __builtin_cpu_supports("fma") ? &table() : nullptr;
}

#else  // an architecture whose baseline has fused multiply-add, or none with a table of its own

namespace {
void add_tables(std::vector<const Kernels*>&) {}
}  // namespace

const Kernels* ref_fma_kernels() { return nullptr; }

#endif

std::vector<const Kernels*> host_tables() {
  std::vector<const Kernels*> tables{&ref_kernels()};
  add_tables(tables);
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
