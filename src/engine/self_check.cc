#include "engine/self_check.h"

#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/rng.h"
#include "base/str.h"
#include "kernels/derive.h"
#include "kernels/layout.h"

namespace evros::engine {
namespace {

constexpr int32_t kRows = 3, kPageTokens = 4;

// The digests of the scalar reference kernels; self_check_test.cc computes them from the baseline table.
struct Expected {
  std::string_view kernel, digest;
};
constexpr std::array<Expected, 7> kExpected{{
    {"matmul f32", "593fa9f15b82a67d8dd1f58affbf9358"},
    {"matmul q8_0", "ad499fe5ad4a7ca760671cb50d61abc4"},
    {"matmul q4_0", "dce51b4af73f854772e886a021c07f1b"},
    {"rms_norm", "188d12db39e1a47b2a8c7b1b1f181dab"},
    {"gdn_delta", "765ec546a91bb795d48ed5be8245d2ba"},
    {"router", "887cd22853265433b09a7675fb61ea11"},
    {"attention", "c0c1433351ccb031eac8cf9712c92775"},
}};

// Three rows of one sequence that starts empty, with a bank pair and one page, all in one device buffer.
class Bench {
 public:
  Bench(const kernels::Kernels& kernels, device::Device& device) : kernels_(kernels), device_(device) {}

  Status open() {
    EVROS_ASSIGN(memory_, device_.allocate(kBytes, "the self-test"));
    EVROS_TRY(device_.fill(memory_.data(), 0, kBytes));
    EVROS_ASSIGN(std::byte * page, take(kPageBytes));
    EVROS_ASSIGN(std::byte * bank_in, take(kBankBytes));
    EVROS_ASSIGN(std::byte * bank_out, take(kBankBytes));
    const std::byte* pages[] = {page};
    EVROS_ASSIGN(auto* table, put<std::byte*>(std::as_bytes(std::span(pages))));
    const kernels::SequenceRows sequence{0, kRows, 0, bank_in, bank_out, table};
    EVROS_ASSIGN(auto* sequences, put<kernels::SequenceRows>(std::as_bytes(std::span(&sequence, 1))));
    const std::array<int32_t, kRows> zero{};
    EVROS_ASSIGN(auto* row_sequence, put<int32_t>(std::as_bytes(std::span(zero))));
    const std::array<int64_t, kRows> positions{0, 1, 2};
    EVROS_ASSIGN(auto* row_position, put<int64_t>(std::as_bytes(std::span(positions))));
    EVROS_ASSIGN(auto* status, put<uint32_t>(std::as_bytes(std::span(zero))));
    batch_ = {kRows, 1, kPageTokens, sequences, row_sequence, row_position, status};
    return {};
  }

  /// n floats in [-1, 1), the same for the same stream everywhere.
  static std::vector<float> numbers(uint32_t stream, size_t n) {
    std::vector<float> out(n);
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(2 * uniform(0x45564F53, stream, i) - 1);
    return out;
  }

  Result<float*> floats(uint32_t stream, size_t n) {
    const std::vector<float> values = numbers(stream, n);
    return put<float>(std::as_bytes(std::span(values)));
  }
  Result<std::byte*> take(uint64_t bytes) {
    CHECK(used_ + bytes <= kBytes);
    std::byte* at = memory_.data() + used_;
    used_ += (bytes + 63) / 64 * 64;
    return at;
  }
  Result<float*> room(size_t n) {
    EVROS_ASSIGN(std::byte * at, take(n * sizeof(float)));
    return reinterpret_cast<float*>(at);
  }
  template <typename T>
  Result<T*> put(std::span<const std::byte> bytes) {
    EVROS_ASSIGN(std::byte * at, take(bytes.size()));
    EVROS_TRY(device_.upload(at, bytes));
    return reinterpret_cast<T*>(at);
  }

  /// Runs `body` as one launch and returns the digest of `n` floats at `out`.
  Result<std::string> run(const float* out, size_t n, const std::function<void(device::Queue&)>& body) {
    EVROS_TRY(device_.launch({"self_check", -1, 0, {}, {batch_.status, 1}}, body));
    EVROS_TRY(device_.finish());
    std::vector<std::byte> bytes(n * sizeof(float));
    EVROS_TRY(device_.download(bytes, reinterpret_cast<const std::byte*>(out)));
    return hex(digest(bytes));
  }

  const kernels::Kernels& kernels() const { return kernels_; }
  const kernels::Batch& batch() const { return batch_; }

 private:
  static constexpr uint64_t kBytes = 1 << 20, kPageBytes = 4096, kBankBytes = 64 << 10;
  const kernels::Kernels& kernels_;
  device::Device& device_;
  device::Buffer memory_;
  uint64_t used_ = 0;
  kernels::Batch batch_{};
};

Result<std::string> matmul(Bench& bench, format::TensorType type) {
  constexpr int64_t kOut = 40, kIn = 544;  // two whole segments and a short one
  const std::vector<float> w = Bench::numbers(1, kOut * kIn);
  std::vector<std::byte> stored(kOut * format::row_bytes(type, kIn));
  kernels::quantize_weights(type, w, stored.data());
  std::vector<std::byte> packed(stored.size());
  kernels::pack_rows(type, kOut, static_cast<int64_t>(format::row_bytes(type, kIn)), stored.data(), packed.data());
  EVROS_ASSIGN(const std::byte* data, bench.put<std::byte>(packed));
  EVROS_ASSIGN(const float* x, bench.floats(2, kRows * kIn));
  EVROS_ASSIGN(std::byte * segments, bench.take(kRows * kernels::quant_segments(kIn) * sizeof(kernels::QuantSegment)));
  EVROS_ASSIGN(float* y, bench.room(kRows * kOut));
  const kernels::QuantRows xq{reinterpret_cast<kernels::QuantSegment*>(segments)};
  const bool integers = format::type_info(type).quantised;
  return bench.run(y, kRows * kOut, [&](device::Queue& queue) {
    if (integers) bench.kernels().quantize(queue, bench.batch(), {x, kIn, kIn, xq});
    bench.kernels().matmul(queue, bench.batch(),
                           {{type, data, kOut, kIn, static_cast<int64_t>(format::row_bytes(type, kIn))},
                            x,
                            kIn,
                            integers ? xq : kernels::QuantRows{},
                            y,
                            kOut});
  });
}

Result<std::string> rms_norm(Bench& bench) {
  constexpr int32_t kGroups = 2, kWidth = 100, kAll = kGroups * kWidth;
  EVROS_ASSIGN(const float* x, bench.floats(3, kRows * kAll));
  EVROS_ASSIGN(const float* gain, bench.floats(4, kAll));
  EVROS_ASSIGN(float* y, bench.room(kRows * kAll));
  return bench.run(y, kRows * kAll, [&](device::Queue& queue) {
    bench.kernels().rms_norm(queue, bench.batch(),
                             {x, kAll, kWidth, gain, kWidth, kGroups, kWidth, 1e-6f, y, kAll, kWidth});
  });
}

// Gates, norms and the recurrence: exp, softplus, sigmoid and every sum of the delta rule.
Result<std::string> gdn_delta(Bench& bench) {
  constexpr int32_t kKeyHeads = 1, kValueHeads = 2, kKey = 24, kValue = 20;
  constexpr int32_t kChannels = 2 * kKeyHeads * kKey + kValueHeads * kValue;
  EVROS_ASSIGN(float* qkv, bench.floats(5, kRows * kChannels));
  EVROS_ASSIGN(float* alpha, bench.floats(6, kRows * kValueHeads));
  EVROS_ASSIGN(float* beta, bench.floats(7, kRows * kValueHeads));
  EVROS_ASSIGN(const float* a, bench.floats(8, kValueHeads));
  EVROS_ASSIGN(const float* dt, bench.floats(9, kValueHeads));
  EVROS_ASSIGN(float* o, bench.room(kRows * kValueHeads * kValue));
  return bench.run(o, kRows * kValueHeads * kValue, [&](device::Queue& queue) {
    const auto& k = bench.kernels();
    k.gdn_qk_norm(queue, bench.batch(), {qkv, kChannels, kKeyHeads, kKey});
    k.gdn_gates(queue, bench.batch(), {alpha, beta, kValueHeads, a, dt, kValueHeads});
    k.gdn_delta(
        queue, bench.batch(),
        {qkv, kChannels, alpha, beta, kValueHeads, kKeyHeads, kValueHeads, kKey, kValue, 0, o, kValueHeads * kValue});
  });
}

Result<std::string> router(Bench& bench) {
  constexpr int32_t kExperts = 70, kUsed = 5;
  EVROS_ASSIGN(const float* logits, bench.floats(10, kRows * kExperts));
  EVROS_ASSIGN(float* weights, bench.room(kRows * kUsed));
  EVROS_ASSIGN(std::byte * ids, bench.take(kRows * kUsed * sizeof(int32_t)));
  return bench.run(weights, kRows * kUsed, [&](device::Queue& queue) {
    bench.kernels().router(queue, bench.batch(),
                           {logits, kExperts, kExperts, kUsed, true, reinterpret_cast<int32_t*>(ids), weights});
  });
}

Result<std::string> attention(Bench& bench) {
  constexpr int32_t kHeads = 2, kDim = 40;
  EVROS_ASSIGN(const float* q, bench.floats(11, kRows * kHeads * kDim));
  EVROS_ASSIGN(const float* k, bench.floats(12, kRows * kDim));
  EVROS_ASSIGN(const float* v, bench.floats(13, kRows * kDim));
  EVROS_ASSIGN(float* scores, bench.room(kRows * kHeads * kRows));
  EVROS_ASSIGN(float* out, bench.room(kRows * kHeads * kDim));
  constexpr int64_t kBytes = kDim * 2;
  const kernels::PageRows keys{0, kBytes, 1}, values{kPageTokens * kBytes, kBytes, 1};
  return bench.run(out, kRows * kHeads * kDim, [&](device::Queue& queue) {
    const auto& table = bench.kernels();
    table.store_rows(queue, bench.batch(), {k, kDim, kDim, kernels::CacheType::f16, keys});
    table.store_rows(queue, bench.batch(), {v, kDim, kDim, kernels::CacheType::f16, values});
    table.attention(queue, bench.batch(),
                    {q, kHeads * kDim, kHeads, 1, kDim, kDim, kernels::CacheType::f16, keys, values, 0, 0, nullptr,
                     scores, kRows, out, kHeads * kDim});
  });
}

}  // namespace

Status self_check(const kernels::Kernels& kernels, device::Device& device) {
  using Run = Result<std::string> (*)(Bench&);
  constexpr std::array<Run, kExpected.size()> kRuns{[](Bench& b) { return matmul(b, format::TensorType::f32); },
                                                    [](Bench& b) { return matmul(b, format::TensorType::q8_0); },
                                                    [](Bench& b) { return matmul(b, format::TensorType::q4_0); },
                                                    rms_norm,
                                                    gdn_delta,
                                                    router,
                                                    attention};
  Bench bench(kernels, device);
  EVROS_TRY(bench.open());
  for (size_t i = 0; i < kRuns.size(); ++i) {
    EVROS_ASSIGN(const std::string seen, kRuns[i](bench));
    if (seen == kExpected[i].digest) continue;
    return Error{Code::unsupported, cat("the self-test of ", kExpected[i].kernel, " with kernels \"", kernels.name,
                                        "\" on ", device.name(), " gave ", seen, " instead of ", kExpected[i].digest,
                                        ": this build or machine computes other bits and is not run")};
  }
  return {};
}

}  // namespace evros::engine
