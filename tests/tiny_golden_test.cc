// models/evros-tiny against the reference library (models/evros-tiny/README.md, "Reference values"): a trained model,
// in bfloat16, with a prompt long enough that QSA drops blocks.
#include "tiny_golden.h"

#include <iostream>

namespace evros::tests {
namespace {

constexpr int32_t kEndOfTurn = 4089;  // <|im_end|>
constexpr float kClearGap = 1e-3f;    // of a greedy step: several times the arithmetic difference below

// Visible tokens of every query of one layer. `place` counts full layers: 0 is layer 3, 1 is layer 7.
std::vector<int32_t> visible_counts(const ops::TraceTensor& selected, size_t place) {
  const size_t n = selected.shape[1];
  const auto seen = selected.as<uint8_t>().subspan(place * n * n, n * n);
  std::vector<int32_t> counts(n);
  for (size_t row = 0; row < n; ++row) {
    for (const uint8_t bit : seen.subspan(row * n, n)) counts[row] += bit;
  }
  return counts;
}

std::vector<int32_t> as_vector(std::span<const int32_t> values) { return {values.begin(), values.end()}; }

// Ids of the five largest logits, best first. No two of the reference's are close enough for arithmetic to swap them.
std::vector<int32_t> best_five(std::span<const float> logits) {
  std::vector<int32_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const auto larger = [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  };
  std::partial_sort(ids.begin(), ids.begin() + 5, ids.end(), larger);
  ids.resize(5);
  return ids;
}

void compare_best_five(std::span<const float> logits, size_t vocab, const Golden& golden, const std::string& prompt) {
  const auto ids = golden.at(prompt + ".top5_ids").as<int32_t>();
  const auto values = golden.at(prompt + ".top5_logits").as<float>();
  ASSERT_EQ(ids.size() / 5 * vocab, logits.size());
  float most = 0;
  for (size_t row = 0; row < ids.size() / 5; ++row) {
    const auto ours = logits.subspan(row * vocab, vocab);
    ASSERT_EQ(best_five(ours), as_vector(ids.subspan(row * 5, 5))) << "at position " << row;
    for (size_t i = row * 5; i < row * 5 + 5; ++i)
      most = std::max(most, std::abs(ours[static_cast<size_t>(ids[i])] - values[i]));
  }
  EXPECT_LE(most, kTinyTolerance);
}

// 1.3e-3 is the most of the six prompts.
constexpr float kHalfCacheBound = 0.02f;

class Tiny : public testing::TestWithParam<const char*> {};

TEST_P(Tiny, EveryReferenceValueWithAFloatCache) {
  const std::string prompt = GetParam();
  const Golden& golden = tiny_golden();
  const ops::Trace trace =
      must_trace(tiny_engine("f32"), golden.at(prompt + ".tokens").as<int32_t>(), kTinyChunks, prompt);
  ASSERT_FALSE(trace.empty());
  const size_t vocab = trace.at(prompt + ".logits").shape[1];
  const auto logits = trace.at(prompt + ".logits").as<float>();
  EXPECT_LE(max_difference(logits.last(8 * vocab), golden.at(prompt + ".logits_last8").as<float>()), kTinyTolerance);
  compare_best_five(logits, vocab, golden, prompt);
  const ops::TraceTensor& selected = trace.at(prompt + ".qsa_selected");
  EXPECT_EQ(visible_counts(selected, 0), as_vector(golden.at(prompt + ".qsa_selected_layer3").as<int32_t>()));
  EXPECT_EQ(visible_counts(selected, 1), as_vector(golden.at(prompt + ".qsa_selected_layer7").as<int32_t>()));
  const ops::TraceTensor& out = trace.at(prompt + ".layer_out");
  EXPECT_LE(max_difference(out.as<float>().last(out.shape[2]), golden.at(prompt + ".wide_last").as<float>()),
            kTinyTolerance);
}

// The reference runs on after the end of the turn, into text that was never trained: there it counts while its choice
// is clear.
TEST_P(Tiny, GreedyContinuationTokenForToken) {
  const std::string prompt = GetParam();
  const Golden& golden = tiny_golden();
  engine::Engine& engine = tiny_engine("f32");
  const auto session = engine.open();
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(engine.append(*session, golden.at(prompt + ".tokens").as<int32_t>()).ok());
  const auto expected = golden.at(prompt + ".greedy").as<int32_t>();
  const auto gap = golden.at(prompt + ".greedy_gap").as<float>();
  std::vector<float> logits(static_cast<size_t>(engine.model().hyper.vocab));
  size_t step = 0;
  for (; step < expected.size() && gap[step] > kClearGap; ++step) {
    ASSERT_TRUE(engine.logits(*session, logits).ok());
    const auto id = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    ASSERT_EQ(id, expected[step]) << "at step " << step;
    ASSERT_TRUE(engine.append(*session, {&id, 1}).ok());
  }
  EXPECT_TRUE(engine.close(*session).ok());
  const auto turn = static_cast<size_t>(std::find(expected.begin(), expected.end(), kEndOfTurn) - expected.begin());
  EXPECT_GE(step, std::min(turn + 1, expected.size())) << "the comparison stopped inside the turn";
}

// What rounding keys and values to half precision costs: bounded, and not nothing.
TEST_P(Tiny, AHalfPrecisionCacheStaysClose) {
  const std::string prompt = GetParam();
  const auto ids = tiny_golden().at(prompt + ".tokens").as<int32_t>();
  const ops::Trace exact = must_trace(tiny_engine("f32"), ids, kTinyChunks, prompt);
  const ops::Trace half = must_trace(tiny_engine("f16"), ids, kTinyChunks, prompt);
  ASSERT_FALSE(exact.empty() || half.empty());
  const float most = max_difference(exact.at(prompt + ".logits").as<float>(), half.at(prompt + ".logits").as<float>());
  const auto a = exact.at(prompt + ".qsa_selected").as<uint8_t>(), b = half.at(prompt + ".qsa_selected").as<uint8_t>();
  ASSERT_EQ(a.size(), b.size());
  const size_t n = ids.size();
  size_t changed = 0;
  for (size_t row = 0; row < a.size() / n; ++row) {
    changed += std::equal(a.begin() + static_cast<ptrdiff_t>(row * n), a.begin() + static_cast<ptrdiff_t>(row * n + n),
                          b.begin() + static_cast<ptrdiff_t>(row * n))
                   ? 0
                   : 1;
  }
  std::cout << "[ kv=f16   ] " << prompt << ": largest logit difference " << most << ", " << changed << " of "
            << a.size() / n << " selections changed\n";
  EXPECT_GT(most, 0.0f);
  EXPECT_LT(most, kHalfCacheBound);
  EXPECT_LE(changed * 100, a.size() / n);
}

INSTANTIATE_TEST_SUITE_P(Prompts, Tiny, testing::ValuesIn(kTinyPrompts),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace evros::tests
