// What a machine can do at most, measured beside a benchmark: how fast its cores read memory, and how many 8-bit products
// they form. The kernels here do nothing else and know nothing of the engine's.
//
//   EVROS_ASSIGN(MachineLimits limits, MachineLimits::create(io, threads, buffer_bytes));
//   const double bytes_per_second = limits.read(2);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "device/pool.h"
#include "io/io.h"

namespace evros::ops {

/// Reading with two threads must be this much faster than with one for a measurement to count: a machine on which it is
/// not is busy with other work, or gives its cores a share of one.
inline constexpr double kQuietRatio = 1.7;

/// Bytes of the largest cache of the first core, as /sys has it; 0 when nobody says.
uint64_t last_level_cache(io::Io& io);

/// Bytes a second that a copy of `bytes` within the device's memory moves, read and written ones counted; the best of a few.
Result<double> copy_rate(device::Device& device, io::Io& clock, uint64_t bytes);

/// One thread at a time.
class MachineLimits {
 public:
  /// Takes a buffer of this size.
  static Result<MachineLimits> create(io::Io& io, int threads, uint64_t buffer_bytes);

  /// The size of a buffer for a process that may have `usable_bytes` of memory: more than four times the last-level cache
  /// (1 GiB when that is unknown), or a quarter of the memory when that is less.
  static uint64_t buffer_within(io::Io& io, uint64_t usable_bytes);

  /// Bytes a second that `threads` threads (1, or those of create()) read from a buffer that no cache holds: the fastest of
  /// three passes over the whole of it (a thread that slept begins the first one slowly), in the order of reading that was
  /// fastest when create() tried them.
  double read(int threads) const;

  /// 8-bit multiplications and additions a second on all threads: the best instruction for them that the machine has, on
  /// registers. Takes about a tenth of a second.
  double int8_rate() const;

  /// The instruction that int8_rate() uses: "amx_int8", "avx512_vnni", "avx_vnni", "avx2", "portable".
  static const char* int8_kernel();

  int threads() const { return threads_; }
  uint64_t buffer_bytes() const { return buffer_.bytes(); }
  uint64_t cache_bytes() const { return cache_bytes_; }
  /// Is the buffer large enough for read() to speak of memory?
  bool beyond_cache() const { return buffer_bytes() > 4 * cache_bytes_; }

 private:
  MachineLimits(io::Io& io, int threads) : io_(&io), threads_(threads) {}

  double read_in(size_t order, int threads) const;

  io::Io* io_;
  int threads_;
  size_t order_ = 0;
  uint64_t cache_bytes_ = 0;
  std::unique_ptr<device::Device> host_;
  device::Buffer buffer_;  // of host_: memory of the same kind as weights have, huge pages included
  std::vector<std::unique_ptr<device::Pool>> pools_;  // of 1 and of threads_
};

}  // namespace evros::ops
