// Kernels at the real model's widths, table by table and thread count by thread count, beside what plain copies reach on the
// same buffers in the same run. Times of one run compare with each other only.
#include <benchmark/benchmark.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "device/pool.h"
#include "kernels/kernels.h"

namespace evros::kernels {
namespace {

/// Memory on cache lines, touched.
template <typename T>
class Array {
 public:
  explicit Array(int64_t n)
      : data_(static_cast<T*>(std::aligned_alloc(64, (static_cast<size_t>(n) * sizeof(T) + 63) / 64 * 64))), n_(n) {
    std::memset(static_cast<void*>(data_), 0, static_cast<size_t>(n) * sizeof(T));
  }
  ~Array() { std::free(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* data() { return data_; }
  int64_t size() const { return n_; }
  void randomise(float deviation) {
    std::minstd_rand engine(7);
    std::uniform_real_distribution<float> uniform(-deviation, deviation);
    for (int64_t i = 0; i < n_; ++i) data_[i] = static_cast<T>(uniform(engine));
  }

 private:
  T* data_;
  int64_t n_;
};

/// A batch of `rows` rows of one sequence whose last row stands at `context` - 1.
struct OneSequence {
  std::vector<int32_t> row_sequence;
  std::vector<int64_t> row_position;
  std::vector<std::byte*> pages;
  uint32_t status = 0;
  SequenceRows sequence{};
  Batch batch{};

  OneSequence(int64_t rows, int64_t context)
      : row_sequence(static_cast<size_t>(rows)), row_position(static_cast<size_t>(rows)) {
    std::iota(row_position.begin(), row_position.end(), context - rows);
    sequence.rows = static_cast<int32_t>(rows);
    sequence.position = context - rows;
    batch = {.rows = sequence.rows,
             .sequences = 1,
             .page_tokens = 256,
             .sequence = &sequence,
             .row_sequence = row_sequence.data(),
             .row_position = row_position.data(),
             .status = &status};
  }
};

struct Place {
  const Kernels& table;
  device::Pool pool;
  device::Queue queue;
  Place(const Kernels& t, int threads) : table(t), pool(threads), queue{.pool = &pool, .stream = nullptr} {}
};

// The delta rule of one decoded token of the real model: 36 layers of 48 heads of 128 x 128.
constexpr int kLayers = 36, kValueHeads = 48, kKeyHeads = 16, kHeadDim = 128;
constexpr int64_t kState = int64_t{kValueHeads} * kHeadDim * kHeadDim;

void gdn_delta(benchmark::State& state, const Kernels& table, int threads, int64_t rows) {
  Place place(table, threads);
  OneSequence one(rows, rows);
  Array<float> in(kLayers * kState), out(kLayers * kState);
  const int64_t width = (2 * kKeyHeads + kValueHeads) * kHeadDim;
  Array<float> qkv(rows * width), gates(rows * 2 * kValueHeads), o(rows * kValueHeads * kHeadDim);
  qkv.randomise(0.1f);
  gates.randomise(0.9f);
  for (auto _ : state) {
    for (int layer = 0; layer < kLayers; ++layer) {
      one.sequence.bank_in = reinterpret_cast<const std::byte*>(in.data() + layer * kState);
      one.sequence.bank_out = reinterpret_cast<std::byte*>(out.data() + layer * kState);
      table.gdn_delta(place.queue, one.batch,
                      {.qkv = qkv.data(),
                       .qkv_stride = width,
                       .decay = gates.data(),
                       .beta = gates.data() + kValueHeads,
                       .gate_stride = 2 * kValueHeads,
                       .key_heads = kKeyHeads,
                       .value_heads = kValueHeads,
                       .key_dim = kHeadDim,
                       .value_dim = kHeadDim,
                       .bank_offset = 0,
                       .o = o.data(),
                       .o_stride = kValueHeads * kHeadDim});
    }
  }
  state.SetBytesProcessed(state.iterations() * kLayers * kState * 8);
  state.SetItemsProcessed(state.iterations() * rows);
}

/// What the delta rule is held against: the same bytes from bank to bank with nothing done to them.
void copy_state(benchmark::State& state, int threads) {
  device::Pool pool(threads);
  Array<float> in(kLayers * kState), out(kLayers * kState);
  for (auto _ : state) {
    pool.parallel(in.size() / 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * 4096; i < end * 4096; i += 4) {
        typedef float Four __attribute__((vector_size(16)));
        __builtin_ia32_movntps(out.data() + i, *reinterpret_cast<const Four*>(in.data() + i));
      }
    });
  }
  state.SetBytesProcessed(state.iterations() * kLayers * kState * 8);
}

/// Attention of one full layer at this context: 24 query heads on 2 K/V heads of 256, 512 blocks of 4 selected, and the
/// scoring of all blocks.
void attention(benchmark::State& state, const Kernels& table, int threads, int64_t rows, int64_t context,
               bool scoring) {
  constexpr int kHeads = 24, kKvHeads = 2, kDim = 256, kRatio = 4, kKeep = 512, kIndexHeads = 4, kIndexDim = 128;
  constexpr int64_t kPageTokens = 256, kRow = kKvHeads * kDim * 2, kKeys = kPageTokens / kRatio * kIndexDim * 4;
  Place place(table, threads);
  OneSequence one(rows, context);
  const int64_t page_bytes = 2 * kPageTokens * kRow + kKeys, pages = (context + kPageTokens - 1) / kPageTokens;
  Array<std::byte> memory(pages * page_bytes);
  std::minstd_rand engine(3);
  for (int64_t p = 0; p < pages; ++p) {
    std::byte* page = memory.data() + p * page_bytes;
    one.pages.push_back(page);
    for (int64_t i = 0; i < 2 * kPageTokens * kRow; i += 2) {
      const auto half = static_cast<uint16_t>(0x2c00u | (engine() & 0x8fffu));
      std::memcpy(page + i, &half, 2);
    }
    for (int64_t i = 0; i < kKeys; i += 4) {
      const float key = static_cast<float>(engine() % 1000) / 1000.0f - 0.5f;
      std::memcpy(page + 2 * kPageTokens * kRow + i, &key, 4);
    }
  }
  one.sequence.pages = one.pages.data();
  Array<float> q(rows * kHeads * kDim), index_q(rows * kIndexHeads * kIndexDim), out(rows * kHeads * kDim);
  q.randomise(1.0f);
  index_q.randomise(1.0f);
  Array<int32_t> selected(rows * kKeep);
  const int64_t most_visible = std::min<int64_t>(context, kKeep * kRatio + kRatio);
  Array<float> scores(rows * kHeads * most_visible), block_scores(rows * (context / kRatio));
  for (auto _ : state) {
    if (scoring || selected.data()[1] == 0) {
      table.qsa_select(
          place.queue, one.batch,
          {.q = index_q.data(),
           .q_stride = kIndexHeads * kIndexDim,
           .heads = kIndexHeads,
           .dim = kIndexDim,
           .ratio = kRatio,
           .keep = kKeep,
           .page = {.offset = 2 * kPageTokens * kRow, .row_bytes = kIndexDim * 4, .tokens_per_row = kRatio},
           .scores = block_scores.data(),
           .score_stride = context / kRatio,
           .selected = selected.data()});
    }
    if (scoring) continue;
    table.attention(place.queue, one.batch,
                    {.q = q.data(),
                     .q_stride = kHeads * kDim,
                     .heads = kHeads,
                     .kv_heads = kKvHeads,
                     .key_dim = kDim,
                     .value_dim = kDim,
                     .type = CacheType::f16,
                     .k = {.offset = 0, .row_bytes = kRow, .tokens_per_row = 1},
                     .v = {.offset = kPageTokens * kRow, .row_bytes = kRow, .tokens_per_row = 1},
                     .ratio = kRatio,
                     .keep = kKeep,
                     .selected = selected.data(),
                     .scores = scores.data(),
                     .score_stride = most_visible,
                     .out = out.data(),
                     .out_stride = kHeads * kDim});
  }
  const int64_t bytes = scoring ? context / kRatio * kIndexDim * 4 : most_visible * 2 * kRow;
  state.SetBytesProcessed(state.iterations() * bytes * (scoring ? 1 : rows));
  state.SetItemsProcessed(state.iterations() * rows);
}

void rms_norm(benchmark::State& state, const Kernels& table, int threads, int64_t rows) {
  constexpr int kGroups = 4, kWidth = 2560;
  Place place(table, threads);
  OneSequence one(rows, rows);
  Array<float> x(rows * kGroups * kWidth), y(rows * kGroups * kWidth), gain(kGroups * kWidth);
  x.randomise(1.0f);
  for (auto _ : state) {
    table.rms_norm(place.queue, one.batch,
                   {.x = x.data(),
                    .x_stride = kGroups * kWidth,
                    .x_group_stride = kWidth,
                    .gain = gain.data(),
                    .gain_stride = kWidth,
                    .groups = kGroups,
                    .width = kWidth,
                    .eps = 1e-6f,
                    .y = y.data(),
                    .y_stride = kGroups * kWidth,
                    .y_group_stride = kWidth});
  }
  state.SetBytesProcessed(state.iterations() * x.size() * 8);
}

void hc_mix(benchmark::State& state, const Kernels& table, int threads, int64_t rows) {
  constexpr int kStreams = 4, kHidden = 2560;
  Place place(table, threads);
  OneSequence one(rows, rows);
  Array<float> up(rows * kStreams * kHidden), normed(rows * kStreams * kHidden), u(rows * kHidden);
  up.randomise(3.0f);
  for (auto _ : state) {
    table.hc_mix(place.queue, one.batch,
                 {.up = up.data(),
                  .normed = normed.data(),
                  .stride = kStreams * kHidden,
                  .hc = kStreams,
                  .hidden = kHidden,
                  .u = u.data(),
                  .u_stride = kHidden});
  }
  state.SetItemsProcessed(state.iterations() * up.size());
}

void gdn_conv(benchmark::State& state, const Kernels& table, int threads, int64_t rows) {
  constexpr int kChannels = 10240, kTaps = 4;
  Place place(table, threads);
  OneSequence one(rows, rows);
  Array<float> x(rows * kChannels), y(rows * kChannels), w(kChannels * kTaps), bank(2 * 3 * kChannels);
  x.randomise(1.0f);
  w.randomise(1.0f);
  one.sequence.bank_in = reinterpret_cast<const std::byte*>(bank.data());
  one.sequence.bank_out = reinterpret_cast<std::byte*>(bank.data() + 3 * kChannels);
  for (auto _ : state) {
    table.gdn_conv(place.queue, one.batch,
                   {.x = x.data(),
                    .x_stride = kChannels,
                    .w = w.data(),
                    .channels = kChannels,
                    .kernel = kTaps,
                    .bank_offset = 0,
                    .y = y.data(),
                    .y_stride = kChannels});
  }
  state.SetItemsProcessed(state.iterations() * x.size());
}

void quantize(benchmark::State& state, const Kernels& table, int threads, int64_t rows) {
  constexpr int64_t kColumns = 10240;
  Place place(table, threads);
  OneSequence one(rows, rows);
  Array<float> x(rows * kColumns);
  Array<QuantSegment> out(rows * quant_segments(kColumns));
  x.randomise(1.0f);
  for (auto _ : state) {
    table.quantize(place.queue, one.batch,
                   {.x = x.data(), .x_stride = kColumns, .cols = kColumns, .out = {out.data()}});
  }
  state.SetItemsProcessed(state.iterations() * x.size());
}

template <typename Body>
void add(const std::string& name, const Kernels& table, int threads, const Body& body) {
  benchmark::RegisterBenchmark((name + "/" + table.name + "/threads:" + std::to_string(threads)).c_str(),
                               [=, &table](benchmark::State& state) { body(state, table, threads); })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

const bool registered = [] {
  for (const int threads : {1, 2}) {
    benchmark::RegisterBenchmark(("copy_state/threads:" + std::to_string(threads)).c_str(),
                                 [=](benchmark::State& state) { copy_state(state, threads); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
    for (const Kernels* table : host_tables()) {
      for (const int64_t rows : {1, 32}) {
        const std::string suffix = "/rows:" + std::to_string(rows);
        const auto with = [&](auto kernel) {
          return [=](benchmark::State& state, const Kernels& t, int n) { kernel(state, t, n, rows); };
        };
        add("gdn_delta" + suffix, *table, threads, with(gdn_delta));
        add("rms_norm" + suffix, *table, threads, with(rms_norm));
        add("hc_mix" + suffix, *table, threads, with(hc_mix));
        add("gdn_conv" + suffix, *table, threads, with(gdn_conv));
        add("quantize" + suffix, *table, threads, with(quantize));
        for (const int64_t context : {2048, 32768}) {
          for (const bool scoring : {false, true}) {
            add((scoring ? "qsa_select" : "attention") + suffix + "/context:" + std::to_string(context), *table,
                threads, [=](benchmark::State& state, const Kernels& t, int n) {
                  attention(state, t, n, rows, context, scoring);
                });
          }
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace evros::kernels
