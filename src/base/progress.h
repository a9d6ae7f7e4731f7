// How long work tells how far it is.
#pragma once

#include <cstdint>
#include <functional>

namespace evros {

/// Called by the thread that works, every few megabytes and once at the end with done == total; `total` stays the same
/// over one piece of work, the unit is the worker's. An empty function is fine where a Progress is taken. It must
/// return quickly and cannot stop the work.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

/// Calls `progress` when there is one.
inline void report(const Progress& progress, uint64_t done, uint64_t total) {
  if (progress) progress(done, total);
}

}  // namespace evros
