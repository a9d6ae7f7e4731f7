// How much memory this process may have: what the machine has left, and every limit on the way: control groups (version 1
// and 2), limits of the shell. Read from the kernel's own text files, so that tests can write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/io.h"

namespace evros::io {

/// `bytes` is what the process may have in all under this limit: what it holds now and what the limit leaves.
struct MemoryLimit {
  std::string name;  // "available memory", "cgroup /a/b", "ulimit -v"
  uint64_t bytes = 0;
  bool address_space = false;  // counts what is mapped, touched or not; thread stacks too
};

struct MemoryMeasure {
  uint64_t own_bytes = 0;           // resident now, program text included
  uint64_t threads = 1;             // now
  std::vector<MemoryLimit> limits;  // smallest first; empty when the kernel says nothing

  /// The smallest limit once `mapped_bytes` are taken off those on address space; null when none is known.
  const MemoryLimit* smallest(uint64_t mapped_bytes) const;
  uint64_t left(const MemoryLimit& limit, uint64_t mapped_bytes) const;
};

/// Files that cannot be read are limits that are not there. A group inside others may use what the fullest of them leaves;
/// pages that only cache files count as free, as they do in the kernel's own MemAvailable.
MemoryMeasure measure_memory(Io& io = real_io());

/// A short file of the kernel's, which says nothing true about its length: up to `limit` bytes, "" when it cannot be read.
std::string read_kernel_file(Io& io, const std::string& path, size_t limit);

/// The first whole number in `text` behind `key` and spaces, or `none`.
uint64_t number_after(std::string_view text, std::string_view key, uint64_t none = 0);

}  // namespace evros::io
