#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace evros::text {
namespace {

struct Outcome {
  std::string text;
  int32_t match = -1;
  bool operator==(const Outcome&) const = default;
};

/// The definition: the match that is complete first, of those the longest.
Outcome whole(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t s = 0; s < stops.size(); ++s) {
      const bool ends = !stops[s].empty() && std::string_view(text).substr(0, end).ends_with(stops[s]);
      if (ends && (!best || stops[s].size() > stops[*best].size())) best = s;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), static_cast<int32_t>(*best)};
  }
  return {text, -1};
}

Outcome streamed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Outcome out;
  for (const std::string& piece : pieces) out.text += matcher.push(piece);
  out.text += matcher.flush();
  out.match = matcher.match();
  EXPECT_EQ(matcher.matched(), out.match >= 0);
  return out;
}

TEST(StopMatcher, EqualsTheDefinitionAtEverySplit) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](size_t longest) {
      std::string w(random() % (longest + 1), 'a');
      for (char& c : w) c = static_cast<char>('a' + random() % 2);
      return w;
    };
    std::vector<std::string> stops(random() % 4);
    for (std::string& s : stops) s = word(5);
    const std::string text = word(14);
    const Outcome wanted = whole(stops, text);
    for (size_t split = 0; split <= text.size(); ++split) {
      EXPECT_EQ(streamed(stops, {text.substr(0, split), text.substr(split)}), wanted) << text << " split at " << split;
    }
    std::vector<std::string> letters;
    for (const char c : text) letters.emplace_back(1, c);
    EXPECT_EQ(streamed(stops, letters), wanted) << text;
  }
}

TEST(StopMatcher, HoldsBackNoMoreThanAPossibleBeginning) {
  StopMatcher matcher({"STOP", "</end>"});
  EXPECT_EQ(matcher.push("hello S"), "hello ");
  EXPECT_EQ(matcher.push("T"), "");
  EXPECT_EQ(matcher.push("x"), "STx");
  EXPECT_EQ(matcher.push("<"), "");
  EXPECT_EQ(matcher.flush(), "<");
  EXPECT_EQ(StopMatcher().push("anything"), "anything");
}

TEST(StopMatcher, NothingFollowsAMatch) {
  StopMatcher matcher({"x", "b"});
  EXPECT_EQ(matcher.push("aabc"), "aa");
  EXPECT_EQ(matcher.match(), 1);
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, CopiesContinueOnTheirOwn) {
  StopMatcher original({"abc"});
  EXPECT_EQ(original.push("xab"), "x");
  StopMatcher draft = original;
  EXPECT_EQ(draft.push("c"), "");
  EXPECT_TRUE(draft.matched());
  EXPECT_EQ(original.push("d"), "abd");
  EXPECT_FALSE(original.matched());
}

}  // namespace
}  // namespace evros::text
