// Test support for kernels: random data, sequences with banks and pages that are fed in chunks, and the rule that every
// table and thread count gives the same bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "device/pool.h"
#include "kernels/block_scales.h"
#include "kernels/derive.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace evros::kernels {

using Floats = std::vector<float>;

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  float uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  Floats normal(int64_t n, float deviation = 1.0f) {
    std::normal_distribution<float> distribution(0.0f, deviation);
    Floats out(static_cast<size_t>(n));
    for (float& x : out) x = distribution(engine_);
    return out;
  }

 private:
  std::mt19937 engine_;
};

/// What a kernel left behind, compared by bits.
struct Output {
  Floats floats;
  std::vector<int32_t> integers;
  std::vector<std::byte> bytes;  // banks and pages
  std::vector<uint32_t> status;
};

/// Equal bits; sign and payload of a NaN are the machine's own.
inline bool same_floats(const Floats& a, const Floats& b) {
  const auto same = [](float x, float y) { return std::memcmp(&x, &y, sizeof x) == 0 || (x != x && y != y); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

inline void expect_same(const Output& a, const Output& b, const std::string& what) {
  EXPECT_TRUE(same_floats(a.floats, b.floats)) << what << ": floats differ";
  EXPECT_EQ(a.integers, b.integers) << what;
  EXPECT_EQ(a.status, b.status) << what;
  EXPECT_TRUE(a.bytes == b.bytes) << what << ": state differs";
}

/// Tables that a test program puts in the place of the host's (those of other devices).
inline std::vector<const Kernels*>& other_tables() {
  static std::vector<const Kernels*> tables;
  return tables;
}

/// Runs with every table of this machine on one, two and three threads, or with other_tables(); all must agree with the
/// reference bit for bit. Returns the result.
inline Output everywhere(const std::function<Output(const Kernels&, device::Queue&)>& run) {
  device::Queue alone;
  const Output expected = run(ref_kernels(), alone);
  for (const Kernels* table : other_tables()) expect_same(run(*table, alone), expected, table->name);
  if (!other_tables().empty()) return expected;
  for (const Kernels* table : host_tables()) {
    for (const int threads : {1, 2, 3}) {
      device::Pool pool(threads);
      device::Queue queue{.pool = &pool};
      expect_same(run(*table, queue), expected, std::string(table->name) + " on " + std::to_string(threads));
    }
  }
  return expected;
}

/// A batch of stateless rows, all of one sequence unless told otherwise. All that a kernel reads lies on the heap here and in
/// World, where the programs that test other devices put memory that those can address.
struct Rows {
  std::vector<int32_t> row_sequence;
  std::vector<int64_t> row_position;
  std::vector<uint32_t> status;
  std::vector<SequenceRows> sequence;
  Batch batch{};

  explicit Rows(int64_t rows)
      : row_sequence(static_cast<size_t>(rows)), row_position(static_cast<size_t>(rows)), status(1), sequence(1) {
    for (size_t i = 0; i < row_position.size(); ++i) row_position[i] = static_cast<int64_t>(i);
    sequence[0].rows = static_cast<int32_t>(rows);
    batch = {.rows = static_cast<int32_t>(rows),
             .sequences = 1,
             .page_tokens = 64,
             .sequence = sequence.data(),
             .row_sequence = row_sequence.data(),
             .row_position = row_position.data(),
             .status = status.data()};
  }
};

/// Live sequences: two banks and pages each, advanced chunk by chunk.
class World {
 public:
  World(int sequences, int64_t bank_bytes, int64_t page_tokens, int64_t page_bytes, int64_t most_tokens)
      : page_tokens_(page_tokens), lives_(static_cast<size_t>(sequences)) {
    for (Life& life : lives_) {
      for (auto& bank : life.bank) bank.assign(static_cast<size_t>(bank_bytes), std::byte{0});
      life.pages.resize(static_cast<size_t>((most_tokens + page_tokens - 1) / page_tokens));
      for (auto& page : life.pages) {
        page.assign(static_cast<size_t>(page_bytes), std::byte{0});
        life.page_table.push_back(page.data());
      }
    }
  }

  /// One chunk: counts[s] new tokens of sequence s. body gets the batch and, per row, the sequence and its position.
  void step(const std::vector<int64_t>& counts, const std::function<void(const Batch&)>& body) {
    std::vector<SequenceRows> sequences;
    std::vector<int32_t> row_sequence;
    std::vector<int64_t> row_position;
    live_.clear();
    for (size_t s = 0; s < lives_.size(); ++s) {
      if (counts[s] == 0) continue;
      Life& life = lives_[s];
      std::fill(life.bank[1 - life.current].begin(), life.bank[1 - life.current].end(), std::byte{0xff});  // NaN
      sequences.push_back({static_cast<int32_t>(row_sequence.size()), static_cast<int32_t>(counts[s]), life.frontier,
                           life.bank[life.current].data(), life.bank[1 - life.current].data(), life.page_table.data()});
      for (int64_t t = 0; t < counts[s]; ++t) {
        row_sequence.push_back(static_cast<int32_t>(sequences.size()) - 1);
        row_position.push_back(life.frontier + t);
        live_.push_back(static_cast<int64_t>(s));
      }
    }
    std::vector<uint32_t> status(sequences.size());
    body({.rows = static_cast<int32_t>(row_sequence.size()),
          .sequences = static_cast<int32_t>(sequences.size()),
          .page_tokens = static_cast<int32_t>(page_tokens_),
          .sequence = sequences.data(),
          .row_sequence = row_sequence.data(),
          .row_position = row_position.data(),
          .status = status.data()});
    for (const uint32_t word : status) status_ |= word;
    for (size_t s = 0; s < lives_.size(); ++s) {
      if (counts[s] == 0) continue;
      lives_[s].current = 1 - lives_[s].current;
      lives_[s].frontier += counts[s];
    }
  }

  /// Which sequence (of all) row r of the current batch belongs to.
  int64_t sequence_of(int64_t r) const { return live_[static_cast<size_t>(r)]; }
  uint32_t status() const { return status_; }
  float* bank(int s) { return reinterpret_cast<float*>(lives_[s].bank[lives_[s].current].data()); }
  std::byte* page(int s, int64_t p) { return lives_[s].page_table[static_cast<size_t>(p)]; }

  /// Every public bank and every page.
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out;
    for (const Life& life : lives_) {
      out.insert(out.end(), life.bank[life.current].begin(), life.bank[life.current].end());
      for (const auto& page : life.pages) out.insert(out.end(), page.begin(), page.end());
    }
    return out;
  }

 private:
  struct Life {
    std::vector<std::byte> bank[2];
    int current = 0;
    int64_t frontier = 0;
    std::vector<std::vector<std::byte>> pages;
    std::vector<std::byte*> page_table;
  };
  int64_t page_tokens_;
  std::vector<Life> lives_;
  std::vector<int64_t> live_;
  uint32_t status_ = 0;
};

/// Rows of all tokens of all sequences: row t of sequence s at [(s * tokens + t) * width].
struct Tokens {
  int64_t tokens, width;
  Floats data;
  Tokens(int64_t sequences, int64_t count, int64_t row_width)
      : tokens(count), width(row_width), data(static_cast<size_t>(sequences * count * row_width)) {}
  Tokens(int64_t sequences, int64_t count, int64_t row_width, Random& random)
      : tokens(count), width(row_width), data(random.normal(sequences * count * row_width)) {}
  float* row(int64_t s, int64_t t) { return data.data() + (s * tokens + t) * width; }

  Floats gather(const World& world, const Batch& batch) {
    Floats out(static_cast<size_t>(batch.rows * width));
    for (int64_t r = 0; r < batch.rows; ++r) {
      std::memcpy(&out[r * width], row(world.sequence_of(r), batch.row_position[r]), width * sizeof(float));
    }
    return out;
  }
  void scatter(const World& world, const Batch& batch, const Floats& rows) {
    for (int64_t r = 0; r < batch.rows; ++r) {
      std::memcpy(row(world.sequence_of(r), batch.row_position[r]), &rows[r * width], width * sizeof(float));
    }
  }
};

/// Ways to cut `tokens` tokens of each of `sequences` sequences into chunks: all at once, one by one, 1 2 1 2 ..., random,
/// and each sequence in turn.
inline std::vector<std::vector<std::vector<int64_t>>> partitions(int sequences, int64_t tokens, Random& random) {
  const auto cut = [&](const std::function<int64_t()>& next) {
    std::vector<std::vector<int64_t>> steps;
    std::vector<int64_t> left(static_cast<size_t>(sequences), tokens);
    const auto any_left = [&] {
      int64_t sum = 0;
      for (const int64_t n : left) sum += n;
      return sum > 0;
    };
    while (any_left()) {
      std::vector<int64_t> counts;
      int64_t sum = 0;
      for (int64_t& n : left) {
        counts.push_back(std::min(n, next()));
        n -= counts.back();
        sum += counts.back();
      }
      if (sum > 0) steps.push_back(counts);
    }
    return steps;
  };
  int64_t turn = 0;
  std::vector<std::vector<std::vector<int64_t>>> out;
  out.push_back(cut([&] { return tokens; }));
  out.push_back(cut([] { return int64_t{1}; }));
  out.push_back(cut([&] { return 1 + turn++ % 2; }));
  for (int i = 0; i < 3; ++i) out.push_back(cut([&] { return random.integer(0, 7); }));
  std::vector<std::vector<int64_t>> in_turn;
  for (int s = 0; s < sequences; ++s) {
    in_turn.emplace_back(static_cast<size_t>(sequences), 0);
    in_turn.back()[static_cast<size_t>(s)] = tokens;
  }
  out.push_back(in_turn);
  return out;
}

/// Every type that can_multiply(), or those of them that are quantised.
inline std::vector<format::TensorType> weight_types(bool quantised_only = false) {
  std::vector<format::TensorType> types;
  for (uint32_t id = 0; id < 64; ++id) {
    const auto info = format::type_info(id);
    if (info && can_multiply(info->type) && (info->quantised || !quantised_only)) types.push_back(info->type);
  }
  return types;
}

/// A weight matrix of any type that can_multiply(), with the floats it stands for: normal values, or where Evros only reads
/// the type random blocks of ordinary scales.
struct Weights {
  std::vector<std::byte> bytes, packed;  // as in a file, and as kernels want it: `parts` matrices of equal size
  Floats values;
  Matrix matrix;

  Weights(format::TensorType type, int64_t rows, int64_t cols, Random& random, int64_t parts = 1)
      : bytes(rows * row_bytes(type, cols)), packed(bytes.size()), values(rows * cols) {
    if (can_quantize(type)) {
      quantize_weights(type, random.normal(rows * cols), bytes.data());
    } else {
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.integer(0, 255));
      for (size_t at = 0; at < bytes.size(); at += format::type_info(type).block_bytes) {
        set_scales(type, &bytes[at], [&] { return static_cast<uint16_t>(0x1c00 + random.integer(0, 0x3ff)); });
      }
    }
    dequantize(type, bytes.data(), values);
    pack(type, rows, cols, parts);
  }
  void pack(format::TensorType type, int64_t rows, int64_t cols, int64_t parts) {
    const int64_t of_row = row_bytes(type, cols), each = rows / parts;
    for (int64_t at = 0; at < rows; at += each) {
      pack_rows(type, each, of_row, bytes.data() + at * of_row, packed.data() + at * of_row);
    }
    matrix = {.type = type, .data = packed.data(), .rows = rows, .cols = cols, .row_bytes = of_row};
  }
  static int64_t row_bytes(format::TensorType type, int64_t cols) {
    return static_cast<int64_t>(format::row_bytes(type, static_cast<uint64_t>(cols)));
  }
};

/// Quantised rows of x, made by the table under test.
struct Quantised {
  std::vector<QuantSegment> segments;
  std::vector<int32_t> q, sums;
  Floats d;
  Quantised(const Kernels& table, device::Queue& queue, const Batch& batch, const Floats& x, int64_t cols)
      : Quantised(table, queue, batch, x.data(), cols) {}
  Quantised(const Kernels& table, device::Queue& queue, const Batch& batch, const float* x, int64_t cols)
      : segments(batch.rows * quant_segments(cols)) {
    if (cols > 0) table.quantize(queue, batch, {.x = x, .x_stride = cols, .cols = cols, .out = rows()});
    for (int64_t r = 0; r < batch.rows; ++r) {
      for (int64_t i = 0; i < cols; ++i) {
        const QuantSegment& segment = segments[r * quant_segments(cols) + i / 256];
        q.push_back(segment.q[i % 256]);
        if (i % 32 == 0) d.push_back(segment.d[i % 256 / 32]);
        if (i % 16 == 0) sums.push_back(segment.sum[i % 256 / 16]);
      }
    }
  }
  QuantRows rows() { return {segments.data()}; }
};

/// One run of the experts kernel: `count` experts in gate and up [ff * count][hidden] and down [hidden * count][ff], chosen by
/// ids and weights [rows][used]; with activations quantised by the table, or floats.
inline Output run_experts(const Kernels& table, device::Queue& queue, const Weights& gate, const Weights& up,
                          const Weights& down, int64_t count, const Floats& x, const std::vector<int32_t>& ids,
                          const Floats& weights, int64_t used, bool integers) {
  const int64_t hidden = gate.matrix.cols, ff = down.matrix.cols, rows = static_cast<int64_t>(ids.size()) / used;
  const auto one = [&](const Weights& w) {
    Matrix m = w.matrix;
    m.rows /= count;
    return m;
  };
  Rows batch(rows);
  Quantised xq(table, queue, batch.batch, integers ? x : Floats(), integers ? hidden : 0);
  Floats scratch(2 * rows * used * ff), expert_out(rows * used * hidden), y(rows * hidden);
  std::vector<QuantSegment> hidden_q(rows * used * quant_segments(ff));
  std::vector<int32_t> order(rows * used), first(count + 1);
  table.experts(queue, batch.batch,
                {.gate = one(gate),
                 .up = one(up),
                 .down = one(down),
                 .gate_expert_bytes = ff * gate.matrix.row_bytes,
                 .up_expert_bytes = ff * up.matrix.row_bytes,
                 .down_expert_bytes = hidden * down.matrix.row_bytes,
                 .x = x.data(),
                 .x_stride = hidden,
                 .xq = integers ? xq.rows() : QuantRows{},
                 .ids = ids.data(),
                 .weights = weights.data(),
                 .used = static_cast<int32_t>(used),
                 .hidden = scratch.data(),
                 .hidden_q = {hidden_q.data()},
                 .expert_out = expert_out.data(),
                 .experts = static_cast<int32_t>(count),
                 .order = order.data(),
                 .first = first.data(),
                 .y = y.data(),
                 .y_stride = hidden});
  return Output{.floats = y, .integers = {}, .bytes = {}, .status = batch.status};
}

}  // namespace evros::kernels
