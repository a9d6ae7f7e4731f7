// The experts of one token, layer after layer, as decoding walks through them: ten of 64 chosen anew in each layer. Beside
// reading and the matrices' own products in matmul_bench. Times of one run compare with each other only.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "bench_support.h"
#include "device/pool.h"
#include "kernels/derive.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace evros::kernels {
namespace {

using format::TensorType;

constexpr int64_t kHidden = 2560, kWidth = 640, kExperts = 64, kLayers = 8;
constexpr int32_t kUsed = 10;

/// Matrices of one shape in one piece of memory, all with the same weights.
Matrix matrices(TensorType type, int64_t rows, int64_t cols, int64_t count) {
  const auto row_bytes = static_cast<int64_t>(format::row_bytes(type, cols));
  std::minstd_rand engine(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(rows * cols);
  for (float& x : values) x = normal(engine) / 50;
  std::vector<std::byte> file(rows * row_bytes);
  quantize_weights(type, values, file.data());
  std::byte* data = huge_memory(count * rows * row_bytes);
  pack_rows(type, rows, row_bytes, file.data(), data);
  for (int64_t i = 1; i < count; ++i) std::memcpy(data + i * rows * row_bytes, data, rows * row_bytes);
  return {.type = type, .data = data, .rows = rows, .cols = cols, .row_bytes = row_bytes};
}

void experts(benchmark::State& state, const Kernels& table, TensorType type, TensorType down_type, int threads) {
  const Matrix gate = matrices(type, kWidth, kHidden, kLayers * kExperts);
  const Matrix up = matrices(type, kWidth, kHidden, kLayers * kExperts);
  const Matrix down = matrices(down_type, kHidden, kWidth, kLayers * kExperts);
  const auto bytes = [](const Matrix& m) { return m.rows * m.row_bytes; };
  device::Pool pool(threads);
  device::Queue queue{.pool = &pool};
  std::vector<float> x(kHidden, 0.5f), y(kHidden), hidden(2 * kUsed * kWidth), out(kUsed * kHidden);
  std::vector<float> weights(kUsed, 0.1f);
  std::vector<QuantSegment> xq(quant_segments(kHidden)), hq(kUsed * quant_segments(kWidth));
  std::vector<int32_t> ids(kExperts), order(kUsed), first(kExperts + 1);
  std::iota(ids.begin(), ids.end(), 0);
  const StatelessRows rows(1);
  const Batch& batch = rows.batch;
  table.quantize(queue, batch, {.x = x.data(), .x_stride = kHidden, .cols = kHidden, .out = {xq.data()}});
  std::minstd_rand engine(4);
  int64_t layer = 0;
  for (auto _ : state) {
    for (int32_t i = 0; i < kUsed; ++i) std::swap(ids[i], ids[i + engine() % (kExperts - i)]);
    Matrix g = gate, u = up, d = down;
    g.data += layer * kExperts * bytes(g);
    u.data += layer * kExperts * bytes(u);
    d.data += layer * kExperts * bytes(d);
    layer = (layer + 1) % kLayers;
    table.experts(queue, batch,
                  {.gate = g,
                   .up = u,
                   .down = d,
                   .gate_expert_bytes = bytes(g),
                   .up_expert_bytes = bytes(u),
                   .down_expert_bytes = bytes(d),
                   .x = x.data(),
                   .x_stride = kHidden,
                   .xq = {xq.data()},
                   .ids = ids.data(),
                   .weights = weights.data(),
                   .used = kUsed,
                   .hidden = hidden.data(),
                   .hidden_q = {hq.data()},
                   .expert_out = out.data(),
                   .experts = kExperts,
                   .order = order.data(),
                   .first = first.data(),
                   .y = y.data(),
                   .y_stride = kHidden});
  }
  const auto read = static_cast<double>(kUsed * (bytes(gate) + bytes(up) + bytes(down)));
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * read * 1e-9, benchmark::Counter::kIsRate);
  for (const Matrix* m : {&gate, &up, &down}) munmap(const_cast<std::byte*>(m->data), kLayers * kExperts * bytes(*m));
}

const bool registered = [] {
  struct Types {
    TensorType gate_up, down;
  };
  for (const Types types : {Types{TensorType::q8_0, TensorType::q8_0}, Types{TensorType::q4_0, TensorType::q4_0},
                            Types{TensorType::q4_k, TensorType::q8_0}, Types{TensorType::q4_k, TensorType::q5_1}}) {
    for (const int threads : {1, 2}) {
      const std::string name = "experts/" + std::string(format::type_info(types.gate_up).name) + '+' +
                               std::string(format::type_info(types.down).name) + "/threads:" + std::to_string(threads);
      benchmark::RegisterBenchmark(
          name.c_str(),
          [=](benchmark::State& s) { experts(s, *host_tables().back(), types.gate_up, types.down, threads); })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace evros::kernels
