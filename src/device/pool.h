// The worker pool: a fixed number of threads that run statically partitioned loops. Results never depend on the number of
// threads (docs/numerics.md), so a partition only decides who computes, never what.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace evros::device {

/// Threads to use when `asked` were asked for: that many, or one per core for 0.
int thread_count(int asked);

/// Owns its threads; they sleep when there is nothing to do and end with it.
class Pool {
 public:
  /// `threads` >= 1 counts the calling thread. Workers run with the IEEE default floating-point environment. Where the
  /// system refuses a thread the pool makes do with those it has: slower, with the same results.
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Threads that take part in parallel(), the caller included.
  int threads() const;

  /// Calls body(begin, end) with [0, n) cut into at most threads() contiguous ranges, one of them on the calling thread, and
  /// returns when all are done. One caller at a time; body must not throw and must not call parallel().
  void parallel(int64_t n, const std::function<void(int64_t begin, int64_t end)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sets round-to-nearest, subnormals kept, exceptions masked for the calling thread, and restores what was there. Every
/// engine entry point holds one.
// (Named for what it guards; there is one set of floating-point modes a thread.)
class FloatEnvironment {
 public:
  FloatEnvironment();
  /// On the thread that made it.
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace evros::device
