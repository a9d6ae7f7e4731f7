// The experts of one token or of a chunk, layer after layer, as decoding and a prompt walk through them: ten of 64 chosen anew for
// each token in each layer. Beside reading and the matrices' own products in matmul_bench. Times of one run compare with each
// other only.
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

void experts(benchmark::State& state, const Kernels& table, TensorType type, TensorType down_type, int64_t tokens,
             int threads) {
  const Matrix gate = matrices(type, kWidth, kHidden, kLayers * kExperts);
  const Matrix up = matrices(type, kWidth, kHidden, kLayers * kExperts);
  const Matrix down = matrices(down_type, kHidden, kWidth, kLayers * kExperts);
  const auto bytes = [](const Matrix& m) { return m.rows * m.row_bytes; };
  device::Pool pool(threads);
  device::Queue queue{.pool = &pool};
  const int64_t pairs = tokens * kUsed;
  std::vector<float> x(tokens * kHidden, 0.5f), y(tokens * kHidden), hidden(2 * pairs * kWidth), out(pairs * kHidden);
  std::vector<float> weights(pairs, 0.1f);
  std::vector<QuantSegment> xq(tokens * quant_segments(kHidden)), hq(pairs * quant_segments(kWidth));
  std::vector<int32_t> all(kExperts), ids(pairs), order(pairs), first(kExperts + 1);
  std::iota(all.begin(), all.end(), 0);
  const StatelessRows rows(tokens);
  const Batch& batch = rows.batch;
  table.quantize(queue, batch, {.x = x.data(), .x_stride = kHidden, .cols = kHidden, .out = {xq.data()}});
  std::minstd_rand engine(4);
  int64_t layer = 0;
  for (auto _ : state) {
    for (int64_t i = 0; i < pairs; ++i) {
      const int64_t rank = i % kUsed;
      std::swap(all[rank], all[rank + engine() % (kExperts - rank)]);
      ids[i] = all[rank];
    }
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
  const auto rate = [&](int64_t work) {
    return benchmark::Counter(static_cast<double>(state.iterations() * work) * 1e-9, benchmark::Counter::kIsRate);
  };
  if (tokens == 1) state.counters["GB/s"] = rate(kUsed * (bytes(gate) + bytes(up) + bytes(down)));
  state.counters["GOP/s"] = rate(pairs * 3 * 2 * kHidden * kWidth);
  for (const Matrix* m : {&gate, &up, &down}) munmap(const_cast<std::byte*>(m->data), kLayers * kExperts * bytes(*m));
}

const bool registered = [] {
  struct Types {
    TensorType gate_up, down;
  };
  for (const Types types : {Types{TensorType::q8_0, TensorType::q8_0}, Types{TensorType::q4_0, TensorType::q4_0},
                            Types{TensorType::q4_k, TensorType::q8_0}, Types{TensorType::q4_k, TensorType::q5_1}}) {
    const auto add = [&](const Kernels& table, int64_t tokens, int threads) {
      const std::string name = "experts/" + std::string(format::type_info(types.gate_up).name) + '+' +
                               std::string(format::type_info(types.down).name) + '/' + table.name +
                               "/tokens:" + std::to_string(tokens) + "/threads:" + std::to_string(threads);
      benchmark::RegisterBenchmark(
          name.c_str(),
          [=, &table](benchmark::State& s) { experts(s, table, types.gate_up, types.down, tokens, threads); })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    };
    for (const int threads : {1, 2}) {
      add(*host_tables().back(), 1, threads);
      for (const char* name : {"avx512", "amx"}) {
        if (host_kernels(name) == nullptr) continue;
        for (const int64_t tokens : {128, 256, 512}) add(*host_kernels(name), tokens, threads);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace evros::kernels
