// Enough of CUDA on one host thread to run the kernels of this folder where there is no GPU, so that their logic is tested on
// every machine: blocks one after the other, the threads of a block as coroutines that switch at barriers and at
// operations of a warp. What it checks beyond results: a barrier that some thread of the block never reaches ends the
// program with a message. What it cannot show: data races within a block, alignment, launch limits, speed.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

namespace emulated_cuda {

struct Index {
  uint32_t x;
};
inline Index thread_index{}, block_index{}, block_size{}, grid_size{};

constexpr int kWarp = 32, kMostThreads = 1024;

/// Where some threads wait for the others.
struct Barrier {
  uint32_t arrived = 0, generation = 0;
};

struct Warp {
  Barrier barrier;
  uint64_t slot[2][kWarp];
};

/// One thread of a block; its stack serves block after block.
struct Thread {
  static constexpr size_t kStack = 256 * 1024;
  std::unique_ptr<char[]> stack;
  ucontext_t start;
  jmp_buf here;
  bool started = false, finished = false;
};

class Machine {
 public:
  static Machine& get() {
    static Machine machine;
    return machine;
  }

  void run_block(uint32_t threads, const std::function<void()>& body) {
    body_ = &body;
    threads_ = threads;
    unfinished_ = threads;
    block_ = {};
    any_[0] = false;
    warps_.assign((threads + kWarp - 1) / kWarp, Warp{});
    for (uint32_t t = 0; t < threads; ++t) fibers_[t].finished = false;
    while (unfinished_ > 0) {
      moved_ = false;
      for (uint32_t t = 0; t < threads; ++t) {
        if (!fibers_[t].finished) enter(t);
      }
      if (!moved_) fail("threads wait at a barrier that the others never reach");
    }
  }

  /// The barrier of the block; is any thread's bit set?
  bool block_barrier(bool bit) {
    if (unfinished_ != threads_) fail("a thread reaches __syncthreads() that others have left out");
    bool& any = any_[block_.generation % 3];
    if (block_.arrived == 0) any_[(block_.generation + 1) % 3] = false;  // the one before may still be read
    any = any || bit;
    wait(block_, threads_);
    return any;
  }
  void warp_barrier() {
    const uint32_t first = current_ / kWarp * kWarp, left = threads_ - first;
    wait(warps_[current_ / kWarp].barrier, left < kWarp ? left : kWarp);
  }

  /// Every lane's value, for lane `source` of this thread's warp.
  template <typename T, typename Use>
  auto exchange(T value, const Use& use) {
    Warp& warp = warps_[current_ / kWarp];
    uint64_t(&slot)[kWarp] = warp.slot[warp.barrier.generation % 2];
    uint64_t bits = 0;
    static_assert(sizeof(T) <= sizeof bits);
    std::memcpy(&bits, &value, sizeof value);
    slot[current_ % kWarp] = bits;
    warp_barrier();
    return use([&](uint32_t lane) {
      T out;
      std::memcpy(&out, &slot[lane % kWarp], sizeof out);
      return out;
    });
  }

 private:
  Machine() : fibers_(kMostThreads) {}

  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "emulated CUDA: %s\n", what);
    std::abort();
  }

  void wait(Barrier& barrier, uint32_t threads) {
    moved_ = true;
    const uint32_t generation = barrier.generation;
    if (++barrier.arrived == threads) {
      barrier.arrived = 0;
      ++barrier.generation;
    }
    while (barrier.generation == generation) leave();
  }

  void enter(uint32_t t) {
    current_ = t;
    thread_index.x = t;
    Thread& fiber = fibers_[t];
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.started) _longjmp(fiber.here, 1);
    fiber.started = true;
    fiber.stack = std::make_unique<char[]>(Thread::kStack);
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.get();
    fiber.start.uc_stack.ss_size = Thread::kStack;
    fiber.start.uc_link = nullptr;
    makecontext(
        &fiber.start, [] { get().live(); }, 0);
    setcontext(&fiber.start);
  }
  void leave() {
    if (_setjmp(fibers_[current_].here) == 0) _longjmp(scheduler_, 1);
  }
  void live() {
    for (;;) {
      (*body_)();
      fibers_[current_].finished = true;
      --unfinished_;
      moved_ = true;
      leave();
    }
  }

  std::vector<Thread> fibers_;
  std::vector<Warp> warps_;
  Barrier block_;
  bool any_[3] = {};
  jmp_buf scheduler_;
  const std::function<void()>* body_ = nullptr;
  uint32_t threads_ = 0, unfinished_ = 0, current_ = 0;
  bool moved_ = false;
};

/// A launch: body is one thread's call of the kernel.
inline void run(int64_t blocks, int threads, const std::function<void()>& body) {
  block_size.x = static_cast<uint32_t>(threads);
  grid_size.x = static_cast<uint32_t>(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    block_index.x = static_cast<uint32_t>(b);
    Machine::get().run_block(static_cast<uint32_t>(threads), body);
  }
}

}  // namespace emulated_cuda

#define threadIdx emulated_cuda::thread_index
#define blockIdx emulated_cuda::block_index
#define blockDim emulated_cuda::block_size
#define gridDim emulated_cuda::grid_size

struct int4 {
  int x, y, z, w;
};

inline void __syncthreads() { emulated_cuda::Machine::get().block_barrier(false); }
inline int __syncthreads_or(int bit) { return emulated_cuda::Machine::get().block_barrier(bit != 0) ? 1 : 0; }
inline void __syncwarp() { emulated_cuda::Machine::get().warp_barrier(); }

template <typename T>
T __shfl_sync(uint32_t, T value, int lane) {
  return emulated_cuda::Machine::get().exchange(value, [&](const auto& of) { return of(static_cast<uint32_t>(lane)); });
}
template <typename T>
T __shfl_xor_sync(uint32_t, T value, int mask) {
  const uint32_t source = threadIdx.x % 32 ^ static_cast<uint32_t>(mask);
  return emulated_cuda::Machine::get().exchange(value, [&](const auto& of) { return of(source); });
}
/// Lanes whose source would lie outside the warp keep their own value.
template <typename T>
T __shfl_down_sync(uint32_t, T value, int by) {
  const uint32_t lane = threadIdx.x % 32, source = lane + static_cast<uint32_t>(by);
  return emulated_cuda::Machine::get().exchange(value, [&](const auto& of) { return of(source < 32 ? source : lane); });
}
inline uint32_t __ballot_sync(uint32_t, bool bit) {
  return emulated_cuda::Machine::get().exchange(bit, [](const auto& of) {
    uint32_t out = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) out |= of(lane) ? 1u << lane : 0u;
    return out;
  });
}
inline int __popc(uint32_t bits) { return __builtin_popcount(bits); }
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  return c;
}
template <typename T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to = before + value;
  return before;
}
