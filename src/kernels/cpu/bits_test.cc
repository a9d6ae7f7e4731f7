// The vector tables against the scalar reference, bit for bit, where vectors are easy to get wrong: widths around multiples
// of the lanes, rows on odd addresses, long rows, values at the edges of the elementary functions. That the reference is
// right is the business of the tests beside it.
#include <algorithm>
#include <cmath>

#include "kernels/codec/float16.h"
#include "kernels/test_support.h"

namespace evros::kernels {
namespace {

/// Rows of floats on an odd address with a stride wider than the row; what lies between must stay.
struct Loose {
  int64_t stride;
  Floats data;
  Loose(Random& random, int64_t rows, int64_t width, float deviation = 1.0f)
      : stride(width + random.integer(0, 5)), data(random.normal(rows * stride + 3, deviation)) {}
  float* rows() { return data.data() + 1; }
  const float* rows() const { return data.data() + 1; }
};

Output compare(int64_t rows, const Loose& start,
               const std::function<void(const Kernels&, device::Queue&, const Batch&, Loose&)>& body) {
  return everywhere([&](const Kernels& table, device::Queue& queue) {
    Rows batch(rows);
    Loose out = start;
    body(table, queue, batch.batch, out);
    return Output{.floats = out.data, .integers = {}, .bytes = {}, .status = batch.status};
  });
}

/// Widths around multiples of 8, 16, 64 and 256, and wide ones.
int64_t any_width(Random& random) {
  const int64_t choice = random.integer(0, 3);
  if (choice == 0) return random.integer(1, 40);
  if (choice == 1) return 64 * random.integer(1, 5) + random.integer(-2, 2);
  if (choice == 2) return 256 * random.integer(1, 12);
  return random.integer(1, 3000);
}

/// Every 2^13th float of both signs and what lies around the functions' limits; numbers only.
Floats edges() {
  Floats out;
  for (uint64_t bits = 0; bits < 0x7f800000u; bits += 0x1ffdu) {
    out.push_back(float_from_bits(static_cast<uint32_t>(bits)));
    out.push_back(-out.back());
  }
  for (const float limit : {87.3365f, 87.5f, 88.7228f, 88.75f, 103.0f, 0.41421f, 0.29289f, 1.0f, 0.0f}) {
    float up = limit, down = limit;
    for (int i = 0; i < 50; ++i) {
      out.insert(out.end(), {up, -up, down, -down});
      up = std::nextafter(up, INFINITY);
      down = std::nextafter(down, 0.0f);
    }
  }
  out.insert(out.end(), {INFINITY, -INFINITY});
  return out;
}

TEST(VectorMath, IsTheScalarFunctionFromTheSmallestToTheLargestNumber) {
  const Floats x = edges(), ones(x.size(), 1.0f), zeros(x.size(), 0.0f);
  const int64_t n = static_cast<int64_t>(x.size());
  const auto run = [&](const std::function<void(const Kernels&, device::Queue&, const Batch&, float*)>& body) {
    return everywhere([&](const Kernels& table, device::Queue& queue) {
      Rows batch(1);
      Output out{.floats = ones, .integers = {}, .bytes = {}, .status = {}};
      body(table, queue, batch.batch, out.floats.data());
      return out;
    });
  };
  run([&](const Kernels& table, device::Queue& queue, const Batch& batch, float* y) {
    table.swiglu(queue, batch, {x.data(), ones.data(), n, n, n, y, n});  // silu
  });
  run([&](const Kernels& table, device::Queue& queue, const Batch& batch, float* y) {
    table.head_gate(queue, batch, {y, n, x.data(), n, n, 1, static_cast<int32_t>(n)});  // sigmoid
  });
  for (const Floats& factor : {ones, Floats(x.size(), -0.5f)}) {  // exp of a multiple of softplus, and sigmoid
    run([&](const Kernels& table, device::Queue& queue, const Batch& batch, float* y) {
      Floats beta = x;
      std::copy(x.begin(), x.end(), y);
      table.gdn_gates(queue, batch, {y, beta.data(), n, factor.data(), zeros.data(), static_cast<int32_t>(n)});
    });
  }
}

TEST(VectorRows, NormsHaveTheReferencesBitsAtEveryWidth) {
  Random random(101);
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = random.integer(1, 4), groups = random.integer(1, 3), width = any_width(random);
    const Loose x(random, rows, groups * width), z(random, rows, groups * width);
    const Floats gain = random.normal(groups * width);
    compare(rows, x, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.rms_norm(queue, batch,
                     {.x = y.rows(),
                      .x_stride = y.stride,
                      .x_group_stride = width,
                      .gain = gain.data(),
                      .gain_stride = width,
                      .groups = static_cast<int32_t>(groups),
                      .width = static_cast<int32_t>(width),
                      .eps = 1e-6f,
                      .y = y.rows(),
                      .y_stride = y.stride,
                      .y_group_stride = width});
    });
    compare(rows, x, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.gdn_out_norm(queue, batch,
                         {.o = y.rows(),
                          .z = z.rows(),
                          .o_stride = y.stride,
                          .z_stride = z.stride,
                          .w = gain.data(),
                          .value_heads = static_cast<int32_t>(groups),
                          .value_dim = static_cast<int32_t>(width),
                          .eps = 1e-6f,
                          .silu = round % 2 == 0});
    });
    const Loose qkv(random, rows, 2 * groups * width + 3);
    compare(rows, qkv, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.gdn_qk_norm(queue, batch, {y.rows(), y.stride, static_cast<int32_t>(groups), static_cast<int32_t>(width)});
    });
    const int64_t dims = 2 * random.integer(0, width / 2);
    const Floats phases = random.normal(rows * dims + 1);
    compare(rows, x, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.rope(queue, batch,
                 {y.rows(), y.stride, width, static_cast<int32_t>(groups), static_cast<int32_t>(dims), phases.data()});
    });
  }
}

TEST(VectorRows, StreamsAndGatesHaveTheReferencesBitsAtEveryWidth) {
  Random random(102);
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = random.integer(1, 4), hidden = any_width(random), hc = random.integer(1, 5);
    const Loose wide(random, rows, hc * hidden, 3.0f), normed = wide, narrow(random, rows, hidden, 3.0f);
    const Floats inject = random.normal(rows * hc, 3.0f);
    const int32_t n = static_cast<int32_t>(hidden), streams = static_cast<int32_t>(hc);
    compare(rows, narrow, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.hc_mix(queue, batch, {wide.rows(), normed.rows(), wide.stride, streams, n, y.rows(), y.stride});
    });
    compare(rows, narrow, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.hc_low(queue, batch, {y.rows(), y.stride, hidden, streams});
    });
    compare(rows, wide, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.hc_write(queue, batch, {inject.data(), narrow.rows(), narrow.stride, streams, n, y.rows(), y.stride});
    });
    compare(rows, narrow, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.shared_add(queue, batch, {inject.data(), narrow.rows(), narrow.stride, hidden, y.rows(), y.stride});
    });
    compare(rows, wide, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.head_gate(queue, batch, {y.rows(), y.stride, normed.rows(), normed.stride, hidden, streams, n});
    });
    compare(rows, wide, [&](const Kernels& table, device::Queue& queue, const Batch& batch, Loose& y) {
      table.ple_gate(
          queue, batch,
          {wide.rows(), normed.rows(), wide.stride, narrow.rows(), narrow.stride, streams, n, y.rows(), y.stride});
    });
  }
}

TEST(VectorRows, CacheRowsAreRoundedAsTheCodecRounds) {
  Random random(103);
  Floats values;
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 0xff1u) values.push_back(float_from_bits(bits ^ (bits << 31)));
  for (uint32_t h = 0; h < 0x7c00u; h += 3) {  // halves, their middles, and their neighbours
    const float low = f16_to_f32(static_cast<uint16_t>(h)), high = f16_to_f32(static_cast<uint16_t>(h + 1));
    const float middle = h == 0x7bffu ? 65520.0f : (low + high) / 2;
    values.insert(values.end(), {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)});
  }
  for (const CacheType type : {CacheType::f32, CacheType::f16, CacheType::bf16}) {
    for (const int64_t width : {int64_t{1}, int64_t{7}, int64_t{24}, int64_t{250}, int64_t{4099}}) {
      const int64_t rows = std::min<int64_t>(static_cast<int64_t>(values.size()) / width, 64);
      const int64_t first = random.integer(0, static_cast<int64_t>(values.size()) - rows * width);
      everywhere([&](const Kernels& table, device::Queue& queue) {
        const int64_t row_bytes = width * cache_bytes(type) + 4;
        World world(1, 0, 64, 64 * row_bytes + 4, rows);
        world.step({rows}, [&](const Batch& batch) {
          table.store_rows(queue, batch,
                           {.x = &values[first],
                            .x_stride = width,
                            .width = width,
                            .type = type,
                            .page = {.offset = 4, .row_bytes = row_bytes, .tokens_per_row = 1}});
        });
        return Output{.floats = {}, .integers = {}, .bytes = world.bytes(), .status = {world.status()}};
      });
    }
  }
}

TEST(VectorRows, QuantisedActivationsAreTheReferences) {
  Random random(104);
  for (int round = 0; round < 30; ++round) {
    const int64_t rows = random.integer(1, 5), cols = 32 * random.integer(1, 90);
    Floats x = random.normal(rows * cols + 1);
    for (int64_t g = 0; g < rows * cols / 32; ++g) {  // groups of many sizes, some near and below 2^-100, some of zeros
      const float size = std::ldexp(1.0f, static_cast<int>(random.integer(-110, 100)));
      for (int64_t i = 0; i < 32; ++i) x[1 + g * 32 + i] *= g % 7 == 3 ? 0.0f : size;
      if (g % 5 == 1) x[1 + g * 32 + g % 32] = 127.0f * size, x[1 + g * 32 + (g + 3) % 32] = -2.5f * size;
    }
    everywhere([&](const Kernels& table, device::Queue& queue) {
      Rows batch(rows);
      const Quantised xq(table, queue, batch.batch, &x[1], cols);
      Output out{.floats = xq.d, .integers = xq.q, .bytes = {}, .status = batch.status};
      out.integers.insert(out.integers.end(), xq.sums.begin(), xq.sums.end());
      return out;
    });
  }
}

TEST(VectorRouter, HasTheReferencesBitsForEveryCountOfExperts) {
  Random random(105);
  for (int round = 0; round < 60; ++round) {
    const int experts = static_cast<int>(random.integer(1, 600)),
              used = static_cast<int>(random.integer(1, std::min(experts, 16)));
    const int64_t rows = random.integer(1, 3);
    Floats logits = random.normal(rows * experts, round % 2 == 0 ? 1.0f : 30.0f);
    everywhere([&](const Kernels& table, device::Queue& queue) {
      Rows batch(rows);
      Output out{
          .floats = Floats(rows * used), .integers = std::vector<int32_t>(rows * used), .bytes = {}, .status = {}};
      table.router(queue, batch.batch,
                   {logits.data(), experts, experts, used, round % 3 != 0, out.integers.data(), out.floats.data()});
      return out;
    });
  }
}

TEST(VectorSelect, SelectsTheReferencesBlocksForEveryRowOfAChunk) {
  Random random(106);
  for (int round = 0; round < 24; ++round) {
    const int heads = static_cast<int>(round == 7 ? 17 : random.integer(1, 9)),
              ratio = static_cast<int>(random.integer(1, 5));
    const int dim = static_cast<int>(round % 3 == 0 ? random.integer(250, 520) : random.integer(1, 140));
    const int keep = static_cast<int>(random.integer(1, 40));
    const int64_t page_blocks = 5, old = random.integer(0, 500),
                  rows[2] = {random.integer(1, 40), random.integer(1, 20)};
    const Floats keys = random.normal(700 * dim), q = random.normal((rows[0] + rows[1]) * heads * dim);
    everywhere([&](const Kernels& table, device::Queue& queue) {
      World world(2, 0, page_blocks * ratio, page_blocks * dim * 4, old + 40);
      for (int64_t b = 0; b < (old + 40) / ratio; ++b) {
        for (const int s : {0, 1}) {
          std::memcpy(world.page(s, b / page_blocks) + b % page_blocks * dim * 4, &keys[(b + s) * dim],
                      static_cast<size_t>(dim) * 4);
        }
      }
      if (old > 0) world.step({old, old / 2}, [](const Batch&) {});
      Output out;
      world.step({rows[0], rows[1]}, [&](const Batch& batch) {
        const int64_t stride = (old + 40) / ratio + 1;
        Floats scores(static_cast<size_t>(batch.rows * stride));
        out.integers.assign(static_cast<size_t>(batch.rows * keep), 99);
        table.qsa_select(queue, batch,
                         {.q = q.data(),
                          .q_stride = heads * dim,
                          .heads = heads,
                          .dim = dim,
                          .ratio = ratio,
                          .keep = keep,
                          .page = {.offset = 0, .row_bytes = dim * 4, .tokens_per_row = ratio},
                          .scores = scores.data(),
                          .score_stride = stride,
                          .selected = out.integers.data()});
        out.status.assign(batch.status, batch.status + batch.sequences);
      });
      return out;
    });
  }
}

}  // namespace
}  // namespace evros::kernels
