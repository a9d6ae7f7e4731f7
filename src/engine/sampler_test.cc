#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace evros::engine {
namespace {

const std::vector<float> kLogits{1.0f, 3.0f, 2.0f, 3.0f, -1.0f};

std::vector<int32_t> ids(const std::vector<Candidate>& list) {
  std::vector<int32_t> out;
  for (const Candidate& c : list) out.push_back(c.id);
  return out;
}

// The probability of each id by the textbook, in double.
std::vector<double> softmax(std::vector<double> logits) {
  double sum = 0;
  for (double& x : logits) sum += x = std::exp(x);
  for (double& x : logits) x /= sum;
  return logits;
}

TEST(Sampler, GreedyTakesTheLowerIdOfEqualLogits) {
  EXPECT_EQ(sample(kLogits, 5, {}, {}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>(7, 0.5f), 7, {}, {}, 3), 0);
}

TEST(Sampler, TemperatureOneIsTheSoftmaxInRankOrder) {
  SamplingParams params;
  params.temperature = 1;
  const auto list = candidates(kLogits, 5, params, {});
  EXPECT_EQ(ids(list), (std::vector<int32_t>{1, 3, 2, 0, 4}));
  const auto expected = softmax({1, 3, 2, 3, -1});
  for (const Candidate& c : list) EXPECT_NEAR(c.probability, expected[static_cast<size_t>(c.id)], 1e-6);
}

TEST(Sampler, TemperatureDividesLogits) {
  SamplingParams params;
  params.temperature = 0.5f;
  const auto expected = softmax({2, 6, 4, 6, -2});
  for (const Candidate& c : candidates(kLogits, 5, params, {})) {
    EXPECT_NEAR(c.probability, expected[static_cast<size_t>(c.id)], 1e-6);
  }
}

TEST(Sampler, TopKTopPAndMinPCutTheTailAndRenormalise) {
  SamplingParams params;
  params.temperature = 1;
  params.top_k = 3;
  EXPECT_EQ(ids(candidates(kLogits, 5, params, {})), (std::vector<int32_t>{1, 3, 2}));
  params.top_k = 0;
  params.top_p = 0.5f;  // 0.40 + 0.40 reaches it, 0.40 alone does not
  EXPECT_EQ(ids(candidates(kLogits, 5, params, {})), (std::vector<int32_t>{1, 3}));
  params.top_p = 1;
  params.min_p = 0.3f;  // e^-1 = 0.37 of the best stays, e^-2 = 0.14 goes
  const auto list = candidates(kLogits, 5, params, {});
  EXPECT_EQ(ids(list), (std::vector<int32_t>{1, 3, 2}));
  float sum = 0;
  for (const Candidate& c : list) sum += c.probability;
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST(Sampler, TheSmallestTopPKeepsOneToken) {
  SamplingParams params;
  params.temperature = 1;
  params.top_p = 1e-6f;
  EXPECT_EQ(ids(candidates(kLogits, 5, params, {})), (std::vector<int32_t>{1}));
}

TEST(Sampler, ATinyTemperatureIsGreedyAndNeverTheWorst) {
  SamplingParams params;
  params.temperature = 1e-38f;
  params.top_k = 3;
  const std::vector<float> logits{1.0f, 20.0f, 30.0f, 5.0f};
  for (int64_t position = 0; position < 50; ++position) EXPECT_EQ(sample(logits, 4, params, {}, position), 2);
}

TEST(Sampler, RowsOfTheVocabularyWithoutATokenAreNeverDrawn) {
  EXPECT_EQ(sample(kLogits, 1, {}, {}, 0), 0);
  SamplingParams params;
  params.temperature = 100;
  for (int64_t position = 0; position < 500; ++position) EXPECT_LT(sample(kLogits, 3, params, {}, position), 3);
}

TEST(Sampler, PenaltiesFollowTheirDefinitions) {
  SamplingParams params;
  params.temperature = 1;
  params.repetition_penalty = 2;
  params.presence_penalty = 0.25f;
  params.frequency_penalty = 0.5f;
  params.logit_bias = {{0, 4.0f}};
  TokenCounts counts;
  counts.seen = {{1, 3}, {4, 1}, {2, 1}};
  counts.generated = {{2, 3}};
  // bias; seen positive halved, negative doubled; generated minus 0.25 minus 3 x 0.5
  const std::vector<float> expected{5.0f, 1.5f, 1.0f - 0.25f - 1.5f, 3.0f, -2.0f};
  for (const Candidate& c : candidates(kLogits, 5, params, counts)) {
    EXPECT_FLOAT_EQ(c.logit, expected[static_cast<size_t>(c.id)]) << c.id;
  }
}

TEST(Sampler, DrawsWithTheProbabilitiesItStates) {
  SamplingParams params;
  params.temperature = 1;
  params.seed = 7;
  constexpr int kDraws = 20000;
  std::vector<int> hits(5);
  for (int64_t position = 0; position < kDraws; ++position)
    ++hits[static_cast<size_t>(sample(kLogits, 5, params, {}, position))];
  const auto expected = softmax({1, 3, 2, 3, -1});
  for (size_t i = 0; i < 5; ++i) {
    const double p = expected[i];
    EXPECT_NEAR(hits[i] / double{kDraws}, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << i;
  }
}

TEST(Sampler, ADrawDependsOnSeedChoiceAndPositionAlone) {
  SamplingParams params;
  params.temperature = 5;
  const auto run = [&](uint64_t seed, uint32_t choice) {
    params.seed = seed;
    params.choice = choice;
    std::vector<int32_t> out;
    for (int64_t position = 0; position < 64; ++position) out.push_back(sample(kLogits, 5, params, {}, position));
    return out;
  };
  EXPECT_EQ(run(1, 0), run(1, 0));
  EXPECT_NE(run(1, 0), run(2, 0));
  EXPECT_NE(run(1, 0), run(1, 1));
}

TEST(Sampler, RefusesSettingsOutsideTheirRange) {
  const auto refused = [](auto set) {
    SamplingParams params;
    set(params);
    const Status status = validate(params, 5);
    return !status.ok() && status.error().code == Code::invalid_argument;
  };
  EXPECT_TRUE(validate({}, 5).ok());
  EXPECT_TRUE(refused([](auto& p) { p.temperature = -1; }));
  EXPECT_TRUE(refused([](auto& p) { p.temperature = std::numeric_limits<float>::quiet_NaN(); }));
  EXPECT_TRUE(refused([](auto& p) { p.top_k = -1; }));
  EXPECT_TRUE(refused([](auto& p) { p.top_p = 0; }));
  EXPECT_TRUE(refused([](auto& p) { p.top_p = 1.5f; }));
  EXPECT_TRUE(refused([](auto& p) { p.min_p = -0.1f; }));
  EXPECT_TRUE(refused([](auto& p) { p.repetition_penalty = 0; }));
  EXPECT_TRUE(refused([](auto& p) { p.presence_penalty = std::numeric_limits<float>::infinity(); }));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{5, 1.0f}}; }));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{-1, 1.0f}}; }));
}

}  // namespace
}  // namespace evros::engine
