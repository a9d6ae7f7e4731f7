// The promise of docs/numerics.md: the result of a sequence depends on the weights, the numerics id and the tokens, and
// on nothing else. Every array of a trace must be the same bytes for every way to cut the tokens into chunks, every
// number of threads and every kernel table of this machine.
#include "base/rng.h"
#include "tiny_golden.h"

namespace evros::tests {
namespace {

using Tokens = std::vector<int32_t>;

struct Case {
  const char* name;
  const char* model;  // "hf", "q8_0", "q4_0" of micro, or "tiny"
  const char* numerics;
  const char* kv;
  const char* sequence;  // of the model's reference values
  size_t tokens;         // of it, from the start
  size_t most_cuts;      // of kPartitions: long runs take fewer
};

constexpr Case kCases[] = {
    {"hf_f32", "hf", "N1", "f32", "a", 96, 6},           {"hf_f16", "hf", "N1", "f16", "a", 96, 6},
    {"hf_bf16", "hf", "N1", "bf16", "a", 96, 6},         {"q8_0_f32", "q8_0", "N1", "f32", "a", 50, 6},
    {"q8_0_f16", "q8_0", "N1", "f16", "a", 96, 6},       {"q8_0_bf16", "q8_0", "N1", "bf16", "a", 50, 6},
    {"q8_0_float", "q8_0", "N1-f32", "f16", "a", 50, 6}, {"q4_0_f32", "q4_0", "N1", "f32", "a", 50, 6},
    {"q4_0_f16", "q4_0", "N1", "f16", "a", 96, 6},       {"q4_0_bf16", "q4_0", "N1", "bf16", "a", 50, 6},
    {"q4_0_float", "q4_0", "N1-f32", "f16", "a", 50, 6}, {"tiny_f32", "tiny", "N1", "f32", "raw", 15, 6},
    {"tiny_bf16", "tiny", "N1", "bf16", "qa", 17, 6},    {"tiny_f16_sparse", "tiny", "N1", "f16", "lookup", 290, 2},
};

// Cuts of n tokens; run_trace repeats a list to the end.
std::vector<std::vector<int64_t>> partitions(size_t n, uint64_t seed) {
  std::vector<int64_t> random;
  for (int64_t at = 0; at < static_cast<int64_t>(n); at += random.back()) {
    random.push_back(1 + static_cast<int64_t>(uniform(seed, 0, random.size()) * 24));
  }
  return {{}, random, {64, 1, 1, 1}, {1}, {1, 2, 1}, {7}};
}

std::string model_path(const std::string& model) {
  if (model == "tiny") return source_path("models/evros-tiny");
  return model == "hf" ? micro_file("hf") : micro_gguf(model);
}

Tokens case_tokens(const Case& c) {
  static const Golden micro = load_golden(micro_file("golden.safetensors"));
  const Golden& golden = std::string_view(c.model) == "tiny" ? tiny_golden() : micro;
  const auto ids = golden.at(std::string(c.sequence) + ".tokens").as<int32_t>();
  CHECK(ids.size() >= c.tokens);
  return {ids.begin(), ids.begin() + static_cast<ptrdiff_t>(c.tokens)};
}

std::unique_ptr<engine::Engine> load_case(const Case& c, int threads, const std::string& kernels) {
  engine::EngineOptions options = reference_options(static_cast<int32_t>(c.tokens));
  options.kv = c.kv;
  options.numerics = c.numerics;
  options.threads = threads;
  options.kernels = kernels;
  options.context = 512;
  return must_load(model_path(c.model), options);
}

void expect_same(const ops::Trace& trace, const ops::Trace& first) {
  ASSERT_EQ(trace.size(), first.size());
  for (const auto& [name, array] : first) {
    const auto found = trace.find(name);
    ASSERT_NE(found, trace.end()) << name;
    EXPECT_TRUE(found->second.data == array.data) << name << " differs";
  }
}

// The fastest table takes every partition; a slow one shows with two that it computes the same.
struct Setting {
  std::string kernels;
  int threads;
  size_t cuts;
};

class Invariance : public testing::TestWithParam<Case> {};

TEST_P(Invariance, CutsThreadsAndKernelsChangeNoByte) {
  const Case& c = GetParam();
  const Tokens tokens = case_tokens(c);
  const auto cuts = partitions(tokens.size(), 20261);
  ops::Trace first;
  const std::string best = kernels::best_host_kernels().name;
  std::vector<Setting> settings{{best, 1, cuts.size()}, {best, 2, cuts.size()}};
  for (const kernels::Kernels* table : kernels::host_tables()) {
    if (table->name != best) settings.push_back({table->name, 2, 2});
  }
  for (const Setting& setting : settings) {
    const auto engine = load_case(c, setting.threads, setting.kernels);
    ASSERT_NE(engine, nullptr);
    for (size_t cut = 0; cut < std::min(setting.cuts, c.most_cuts); ++cut) {
      SCOPED_TRACE(testing::Message() << setting.kernels << ", " << setting.threads << " threads, partition " << cut);
      const ops::Trace trace = must_trace(*engine, tokens, cuts[cut], "t");
      ASSERT_GE(trace.size(), 20u);
      if (first.empty()) first = trace;
      expect_same(trace, first);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Invariance, testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

// The trace above must be able to see sparsity, or its long case proves nothing about selection.
TEST(InvarianceTable, TheLongCaseIsSparse) {
  const Case& c = kCases[std::size(kCases) - 1];
  const auto engine = load_case(c, 1, "");
  ASSERT_NE(engine, nullptr);
  const ops::Trace trace = must_trace(*engine, case_tokens(c), {}, "t");
  const auto seen = trace.at("t.qsa_selected").as<uint8_t>();
  const auto last = seen.subspan((c.tokens - 1) * c.tokens, c.tokens);
  EXPECT_LT(std::count(last.begin(), last.end(), uint8_t{1}), static_cast<ptrdiff_t>(c.tokens));
}

}  // namespace
}  // namespace evros::tests
