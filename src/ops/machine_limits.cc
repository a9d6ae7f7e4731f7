#include "ops/machine_limits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <string>
#include <string_view>

#include "base/str.h"
#include "io/memory.h"
#include "kernels/isa.h"
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace evros::ops {
namespace {

constexpr uint64_t kLeastBuffer = 1u << 30;
constexpr int kReadPasses = 3;
constexpr int64_t kInt8Steps = 4'000'000;
constexpr size_t kLine = 8;  // words of a cache line

/// Where results go, so that no compiler finds that nobody needs them.
std::atomic<uint64_t> sink;

/// The sum of words [begin, end), read as kStreams runs side by side. What is left over at the end is not read.
using Sum = uint64_t (*)(const uint64_t* begin, const uint64_t* end);

template <size_t kStreams>
uint64_t sum_portable(const uint64_t* begin, const uint64_t* end) {
  const size_t run = static_cast<size_t>(end - begin) / kStreams / kLine * kLine;
  std::array<uint64_t, kLine> sums{};
  for (size_t at = 0; at < run; at += kLine) {
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const uint64_t* line = begin + stream * run + at;
      for (size_t i = 0; i < kLine; ++i) sums[i] += line[i];
    }
  }
  uint64_t all = 0;
  for (const uint64_t s : sums) all += s;
  return all;
}

#if defined(__x86_64__)
// The fewer instructions a line takes, the more lines the processor looks ahead: narrow loads read a fifth slower.
template <size_t kStreams>
__attribute__((target("avx512f"))) uint64_t sum_avx512(const uint64_t* begin, const uint64_t* end) {
  constexpr size_t kLines = 4;  // of a stream before the next one's
  const size_t run = static_cast<size_t>(end - begin) / kStreams / (kLines * kLine) * (kLines * kLine);
  __m512i sums[kLines] = {};
  for (size_t at = 0; at < run; at += kLines * kLine) {
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const uint64_t* from = begin + stream * run + at;
      for (size_t i = 0; i < kLines; ++i) {
        sums[i] = _mm512_add_epi64(sums[i], _mm512_loadu_si512(from + i * kLine));
      }
    }
  }
  uint64_t words[kLine];
  uint64_t all = 0;
  for (const __m512i& s : sums) {
    __builtin_memcpy(words, &s, sizeof words);
    for (const uint64_t word : words) all += word;
  }
  return all;
}
#endif

/// The ways to read that this processor has.
std::span<const Sum> ways_to_read() {
  static constexpr Sum kPortable[] = {sum_portable<1>, sum_portable<4>};
#if defined(__x86_64__)
  static constexpr Sum kWide[] = {sum_avx512<1>, sum_avx512<4>, sum_avx512<8>};
  if (__builtin_cpu_supports("avx512f")) return kWide;
#endif
  return kPortable;
}

// Products per step of each kernel below; two operations (multiply, add) each.
constexpr int64_t kChains = 12;

uint64_t int8_portable(int64_t steps) {
  std::array<int32_t, 64> sums{};
  std::array<int8_t, 64> a{}, b{};
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(i), b[i] = static_cast<int8_t>(3 * i);
  for (int64_t step = 0; step < steps / 16; ++step) {
    for (size_t i = 0; i < a.size(); ++i) sums[i] += a[i] * b[i];
    a[static_cast<size_t>(step) % 64] ^= 1;
  }
  uint64_t all = 0;
  for (const int32_t s : sums) all += static_cast<uint64_t>(s);
  return all;
}

#if defined(__x86_64__)
// Twelve sums each, so that none waits for another; operands that the compiler cannot see through.
__attribute__((target("avx512f,avx512vnni"))) uint64_t int8_avx512(int64_t steps) {
  __m512i sums[kChains], a = _mm512_set1_epi32(0x01020304), b = _mm512_set1_epi32(0x04030201);
  for (__m512i& s : sums) s = _mm512_setzero_si512();
  for (int64_t step = 0; step < steps; ++step) {
    __asm__("" : "+v"(a), "+v"(b));
    EVROS_UNROLLED
    for (__m512i& s : sums) s = _mm512_dpbusd_epi32(s, a, b);
  }
  __m512i all = sums[0];
  for (int64_t i = 1; i < kChains; ++i) all = _mm512_add_epi32(all, sums[i]);
  uint64_t words[8];
  __builtin_memcpy(words, &all, sizeof words);
  return words[0] + words[7];
}

// Four tiles of sums, each 16 x 16 from 16 x 64 and 64 x 16; an eighth of the steps, because each takes about ten times as long as
// twelve vectors.
constexpr int64_t kTileSteps = 8, kTileProducts = 4 * 16 * 16 * 64;

__attribute__((target("amx-tile,amx-int8"))) uint64_t int8_amx(int64_t steps) {
  struct alignas(64) Shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  static constexpr Shapes kShapes = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
  alignas(64) std::array<int32_t, 256> numbers;
  numbers.fill(0x01020304);
  _tile_loadconfig(&kShapes);
  __asm__ volatile("" ::"r"(numbers.data()) : "memory");
  _tile_loadd(4, numbers.data(), 64);
  _tile_loadd(5, numbers.data(), 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < steps / kTileSteps; ++step) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  _tile_stored(3, numbers.data(), 64);
  _tile_release();
  return static_cast<uint64_t>(numbers[255]);
}

__attribute__((target("avx2,avxvnni"))) uint64_t int8_avx_vnni(int64_t steps) {
  __m256i sums[kChains], a = _mm256_set1_epi32(0x01020304), b = _mm256_set1_epi32(0x04030201);
  for (__m256i& s : sums) s = _mm256_setzero_si256();
  for (int64_t step = 0; step < steps; ++step) {
    __asm__("" : "+x"(a), "+x"(b));
    EVROS_UNROLLED
    for (__m256i& s : sums) s = _mm256_dpbusd_avx_epi32(s, a, b);
  }
  __m256i all = sums[0];
  for (int64_t i = 1; i < kChains; ++i) all = _mm256_add_epi32(all, sums[i]);
  return static_cast<uint64_t>(_mm256_extract_epi64(all, 0));
}

__attribute__((target("avx2"))) uint64_t int8_avx2(int64_t steps) {
  __m256i sums[kChains], a = _mm256_set1_epi32(0x01020304), b = _mm256_set1_epi32(0x04030201);
  const __m256i ones = _mm256_set1_epi16(1);
  for (__m256i& s : sums) s = _mm256_setzero_si256();
  for (int64_t step = 0; step < steps; ++step) {
    EVROS_UNROLLED
    for (__m256i& s : sums) {
      __asm__("" : "+x"(a), "+x"(b));  // each product is formed, not one for all
      s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    }
  }
  __m256i all = sums[0];
  for (int64_t i = 1; i < kChains; ++i) all = _mm256_add_epi32(all, sums[i]);
  return static_cast<uint64_t>(_mm256_extract_epi64(all, 0));
}
#endif

struct Int8Kernel {
  const char* name;
  uint64_t (*run)(int64_t steps);
  double products_per_step;
};

Int8Kernel choose_int8() {
#if defined(__x86_64__)
  if (kernels::host_kernels("amx") != nullptr) return {"amx_int8", int8_amx, double{kTileProducts} / kTileSteps};
  if (__builtin_cpu_supports("avx512vnni")) return {"avx512_vnni", int8_avx512, 64.0 * kChains};
  if (__builtin_cpu_supports("avx2")) {
    unsigned a = 1, b = 0, c = 1, d = 0;  // leaf 7, subleaf 1: EAX bit 4 is AVX-VNNI, which no builtin knows
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(1));
    if ((a & 16) != 0) return {"avx_vnni", int8_avx_vnni, 32.0 * kChains};
    return {"avx2", int8_avx2, 32.0 * kChains};
  }
#endif
  return {"portable", int8_portable, 4.0};
}

}  // namespace

uint64_t last_level_cache(io::Io& io) {
  uint64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string text =
        io::read_kernel_file(io, cat("/sys/devices/system/cpu/cpu0/cache/index", index, "/size"), 64);
    const int shift = text.find('K') != std::string::npos ? 10 : text.find('M') != std::string::npos ? 20 : 0;
    largest = std::max(largest, io::number_after(text, "") << shift);
  }
  return largest;
}

uint64_t MachineLimits::buffer_within(io::Io& io, uint64_t usable_bytes) {
  return std::min(std::max(kLeastBuffer, 4 * last_level_cache(io) + (64u << 20)), usable_bytes / 4 / 64 * 64);
}

Result<MachineLimits> MachineLimits::create(io::Io& io, int threads, uint64_t buffer_bytes) {
  CHECK(threads >= 1);
  MachineLimits limits(io, threads);
  limits.cache_bytes_ = last_level_cache(io);
  limits.host_ = device::make_host_device(1);
  EVROS_ASSIGN(limits.buffer_, limits.host_->allocate(buffer_bytes, "measuring the speed of memory"));
  EVROS_TRY(limits.host_->fill(limits.buffer_.data(), 1, buffer_bytes));
  for (const int n : {1, threads}) limits.pools_.push_back(std::make_unique<device::Pool>(n));
  double best = 0;
  for (size_t order = 0; order < ways_to_read().size(); ++order) {
    const double speed = limits.read_in(order, threads);
    if (speed > best) best = speed, limits.order_ = order;
  }
  return limits;
}

double MachineLimits::read(int threads) const {
  double best = 0;
  for (int i = 0; i < kReadPasses; ++i) best = std::max(best, read_in(order_, threads));
  return best;
}

double MachineLimits::read_in(size_t order, int threads) const {
  CHECK(threads == 1 || threads == threads_);
  const uint64_t start = io_->now_ns();
  pools_[threads == 1 ? 0 : 1]->parallel(
      static_cast<int64_t>(buffer_bytes() / sizeof(uint64_t)), [&](int64_t begin, int64_t end) {
        const auto* words = buffer_.as<const uint64_t>();
        sink.store(ways_to_read()[order](words + begin, words + end), std::memory_order_relaxed);
      });
  return static_cast<double>(buffer_bytes()) * 1e9 / static_cast<double>(std::max<uint64_t>(io_->now_ns() - start, 1));
}

const char* MachineLimits::int8_kernel() { return choose_int8().name; }

double MachineLimits::int8_rate() const {
  const Int8Kernel kernel = choose_int8();
  device::Pool& pool = *pools_[1];
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const uint64_t start = io_->now_ns();
    pool.parallel(threads_, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; ++thread)
        sink.store(kernel.run(kInt8Steps), std::memory_order_relaxed);
    });
    const auto ns = static_cast<double>(std::max<uint64_t>(io_->now_ns() - start, 1));
    const double products = kernel.products_per_step * static_cast<double>(kInt8Steps) * pool.threads();
    best = std::max(best, 2 * products * 1e9 / ns);
  }
  return best;
}

Result<double> copy_rate(device::Device& device, io::Io& clock, uint64_t bytes) {
  constexpr int kTries = 4;
  EVROS_ASSIGN(const device::Buffer from, device.allocate(bytes, "measuring its memory"));
  EVROS_ASSIGN(const device::Buffer to, device.allocate(bytes, "measuring its memory"));
  EVROS_TRY(device.fill(from.data(), 1, bytes));
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    EVROS_TRY(device.finish());
    const uint64_t began = clock.now_ns();
    EVROS_TRY(device.copy(to.data(), from.data(), bytes));
    EVROS_TRY(device.finish());
    best = std::max(best, 2 * static_cast<double>(bytes) / (static_cast<double>(clock.now_ns() - began) * 1e-9));
  }
  return best;
}

}  // namespace evros::ops
