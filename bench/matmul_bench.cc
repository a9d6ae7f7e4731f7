// Matrix products by weight type, tokens and threads, beside the bandwidth with which the same memory is read. Weights are
// walked through a buffer larger than the caches, as decoding walks through a model. Times of one run compare with each other
// only.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <vector>

#include "bench_support.h"
#include "device/pool.h"
#include "kernels/block_scales.h"
#include "kernels/derive.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"
#include "ops/machine_limits.h"

namespace evros::kernels {
namespace {

using format::TensorType;

constexpr int64_t kBytes = int64_t{3} << 29;  // 1.5 GiB
constexpr int64_t kRows = 4096, kCols = 2560, kMostTokens = 512;

std::byte* memory() {
  static std::byte* const data = huge_memory(kBytes);
  return data;
}

/// One real matrix of a type, repeated over the whole buffer. Returns how many fit.
int64_t fill(TensorType type, int64_t rows, int64_t cols) {
  static TensorType filled = TensorType::i8;
  static int64_t filled_rows = 0, filled_cols = 0;
  const auto row_bytes = static_cast<int64_t>(format::row_bytes(type, cols));
  const int64_t size = rows * row_bytes, count = kBytes / size;
  if (filled == type && filled_rows == rows && filled_cols == cols) return count;
  std::minstd_rand engine(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(rows * cols);
  for (float& x : values) x = normal(engine);
  std::vector<std::byte> file(size);
  if (can_quantize(type)) {
    quantize_weights(type, values, file.data());
  } else {  // a type that is only read: any bits, ordinary scales
    for (std::byte& b : file) b = static_cast<std::byte>(engine() >> 8);
    for (size_t at = 0; at < file.size(); at += format::type_info(type).block_bytes) set_scale(type, 0.01f, &file[at]);
  }
  pack_rows(type, rows, row_bytes, file.data(), memory());
  for (int64_t i = 1; i < count; ++i) std::memcpy(memory() + i * size, memory(), size);
  filled = type;
  filled_rows = rows;
  filled_cols = cols;
  return count;
}

void matmul(benchmark::State& state, const Kernels& table, TensorType type, int threads, int64_t tokens,
            int64_t rows = kRows, int64_t cols = kCols) {
  const auto row_bytes = static_cast<int64_t>(format::row_bytes(type, cols));
  const int64_t size = rows * row_bytes, count = fill(type, rows, cols);
  device::Pool pool(threads);
  device::Queue queue{.pool = &pool};
  std::vector<float> x(tokens * cols), y(tokens * rows);
  std::minstd_rand engine(4);
  for (float& value : x) value = std::uniform_real_distribution<float>(-1, 1)(engine);
  std::vector<QuantSegment> segments(tokens * quant_segments(cols));
  const StatelessRows stateless(tokens);
  const Batch& batch = stateless.batch;
  QuantRows xq;
  if (format::type_info(type).quantised) {
    xq.segments = segments.data();
    table.quantize(queue, batch, {.x = x.data(), .x_stride = cols, .cols = cols, .out = xq});
  }
  int64_t i = 0;
  for (auto _ : state) {
    const Matrix w{
        .type = type, .data = memory() + i++ % count * size, .rows = rows, .cols = cols, .row_bytes = row_bytes};
    table.matmul(queue, batch, {.w = w, .x = x.data(), .x_stride = cols, .xq = xq, .y = y.data(), .y_stride = rows});
  }
  const double done = static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(done * static_cast<double>(size) * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GOP/s"] =
      benchmark::Counter(done * 2e-9 * static_cast<double>(rows * cols * tokens), benchmark::Counter::kIsRate);
}

/// What `evros bench` holds decoding against.
void read_memory(benchmark::State& state, int threads) {
  const auto limits = ops::MachineLimits::create(io::real_io(), threads, kBytes);
  double speed = 0;
  for (auto _ : state) speed = limits->read(threads);
  state.counters["GB/s"] = speed * 1e-9;
}

void launch(benchmark::State& state, int threads) {
  device::Pool pool(threads);
  for (auto _ : state) pool.parallel(threads, [](int64_t, int64_t) {});
}

/// One thread is timed by its processor time, which others on the machine disturb less.
benchmark::internal::Benchmark* clock(benchmark::internal::Benchmark* bench, int threads) {
  return threads > 1 ? bench->UseRealTime() : bench;
}

const bool registered = [] {
  for (const int threads : {1, 2}) {
    const std::string suffix = "/threads:" + std::to_string(threads);
    clock(
        benchmark::RegisterBenchmark(("read" + suffix).c_str(), [=](benchmark::State& s) { read_memory(s, threads); }),
        threads)
        ->Unit(benchmark::kMillisecond);
    clock(benchmark::RegisterBenchmark(("launch" + suffix).c_str(), [=](benchmark::State& s) { launch(s, threads); }),
          threads);
  }
  // Matrices of one layer of the published model, as a Q4_K file has them: where they are small, waiting shows.
  struct Shape {
    TensorType type;
    int64_t rows, cols;
  };
  for (const Shape shape :
       {Shape{TensorType::q4_k, 10240, 2560}, Shape{TensorType::q4_k, 6144, 2560}, Shape{TensorType::q4_k, 2560, 6144},
        Shape{TensorType::q4_k, 640, 2560}, Shape{TensorType::q8_0, 2560, 640}, Shape{TensorType::q4_k, 320, 10240},
        Shape{TensorType::q8_0, 10240, 320}, Shape{TensorType::f32, 48, 2560}, Shape{TensorType::f32, 4, 10240},
        Shape{TensorType::f32, 64, 2560}}) {
    const std::string name = std::string("shape/") + std::string(format::type_info(shape.type).name) + '/' +
                             std::to_string(shape.rows) + 'x' + std::to_string(shape.cols) + "/threads:2";
    clock(benchmark::RegisterBenchmark(
              name.c_str(),
              [=](benchmark::State& s) { matmul(s, *host_tables().back(), shape.type, 2, 1, shape.rows, shape.cols); }),
          2)
        ->Unit(benchmark::kMicrosecond);
  }
  for (uint32_t id = 0; id < 64; ++id) {
    if (!format::type_info(id) || !can_multiply(format::type_info(id)->type)) continue;
    const TensorType type = format::type_info(id)->type;
    for (const Kernels* table : host_tables()) {
      for (const int64_t tokens : {int64_t{1}, int64_t{4}, int64_t{16}, int64_t{128}, kMostTokens}) {
        for (const int threads : {1, 2}) {
          const std::string name = std::string("matmul/") + std::string(format::type_info(type).name) + '/' +
                                   table->name + "/tokens:" + std::to_string(tokens) +
                                   "/threads:" + std::to_string(threads);
          clock(benchmark::RegisterBenchmark(name.c_str(),
                                             [=](benchmark::State& s) { matmul(s, *table, type, threads, tokens); }),
                threads)
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace evros::kernels
