#include "device/pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <thread>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#error "FloatEnvironment knows x86-64 and AArch64 only"
#endif

namespace evros::device {

namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("yield");
#endif
}

// Long enough to bridge the gap between two stages, short enough to leave the core to others when the engine is idle.
constexpr int kSpins = 10000;

struct Job {
  const std::function<void(int64_t, int64_t)>* body;
  int64_t n;
  int64_t parts;

  void run(int64_t part) const {
    // n * part cannot overflow for any n that fits memory, but costs nothing to avoid: the first n % parts ranges are longer.
    const int64_t each = n / parts, longer = n % parts;
    const int64_t begin = part * each + std::min(part, longer);
    (*body)(begin, begin + each + (part < longer ? 1 : 0));
  }
};

// One mailbox per worker, on its own cache line: the caller posts a job only to the workers that take part, and each worker
// empties its own box when it is done, so there is no shared counter and no worker ever looks at a job that is not its own.
struct alignas(64) Worker {
  enum : uint32_t { idle, posted, stop };
  std::atomic<uint32_t> box{idle};
  const Job* job = nullptr;  // written before `posted` is stored, read after it was seen
  std::thread thread;
};

/// Returns when `box` no longer holds `value`; acquires what the changing thread released.
uint32_t await_change(const std::atomic<uint32_t>& box, uint32_t value, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (const uint32_t seen = box.load(std::memory_order_acquire); seen != value) return seen;
    relax();
  }
  box.wait(value, std::memory_order_acquire);
  return box.load(std::memory_order_acquire);
}

void work(Worker& self, int64_t part, int spins) {
  const FloatEnvironment environment;
  while (true) {
    if (await_change(self.box, Worker::idle, spins) == Worker::stop) return;
    self.job->run(part);
    self.box.store(Worker::idle, std::memory_order_release);
    self.box.notify_one();
  }
}

}  // namespace

struct Pool::State {
  int threads = 1;
  int spins = 0;
  std::unique_ptr<Worker[]> workers;  // threads - 1
  std::atomic<bool> running{false};

  void stop() {
    for (int i = 0; i + 1 < threads; ++i) {
      if (!workers[i].thread.joinable()) continue;
      workers[i].box.store(Worker::stop, std::memory_order_release);
      workers[i].box.notify_one();
      workers[i].thread.join();
    }
  }
};

int thread_count(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

Pool::Pool(int threads) : state_(std::make_unique<State>()) {
  CHECK(threads >= 1);
  state_->threads = threads;
  // Spinning threads that outnumber the cores only keep each other from working.
  if (std::thread::hardware_concurrency() >= static_cast<unsigned>(threads)) state_->spins = kSpins;
  state_->workers = std::make_unique<Worker[]>(static_cast<size_t>(threads - 1));
  for (int i = 0; i + 1 < threads; ++i) {
    Worker& worker = state_->workers[i];
    try {
      worker.thread = std::thread(work, std::ref(worker), i + 1, state_->spins);
    } catch (const std::exception&) {  // no memory, or no more threads for this user
      state_->threads = i + 1;
      return;
    }
  }
}

Pool::~Pool() {
  CHECK(!state_->running.load());
  state_->stop();
}

int Pool::threads() const { return state_->threads; }

void Pool::parallel(int64_t n, const std::function<void(int64_t begin, int64_t end)>& body) {
  CHECK(n >= 0);
  if (n == 0) return;
  CHECK(!state_->running.exchange(true));  // one caller at a time, and never from inside a body
  const Job job{&body, n, std::min<int64_t>(n, state_->threads)};
  for (int64_t part = 1; part < job.parts; ++part) {
    Worker& worker = state_->workers[part - 1];
    worker.job = &job;
    worker.box.store(Worker::posted, std::memory_order_release);
    worker.box.notify_one();
  }
  job.run(0);
  for (int64_t part = 1; part < job.parts; ++part) {
    await_change(state_->workers[part - 1].box, Worker::posted, state_->spins);
  }
  state_->running.store(false);
}

#if defined(__x86_64__)
// MXCSR: all exceptions masked, round to nearest, no flush to zero, no denormals-are-zero, no flags.
FloatEnvironment::FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
FloatEnvironment::~FloatEnvironment() { _mm_setcsr(static_cast<unsigned>(saved_)); }
#else
// FPCR zero: round to nearest, no flush to zero, no default NaN, no traps.
FloatEnvironment::FloatEnvironment() {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
}
FloatEnvironment::~FloatEnvironment() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#endif

}  // namespace evros::device
