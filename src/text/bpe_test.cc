#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace evros::text {
namespace {

struct Rule {
  uint32_t rank;
  int32_t result;
};
using Rules = std::map<std::pair<int32_t, int32_t>, Rule>;

/// The definition: look at all pairs, join the leftmost of the lowest rank, start again.
std::vector<int32_t> naive(const Rules& rules, std::vector<int32_t> ids) {
  for (;;) {
    auto best = rules.end();
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule != rules.end() && (best == rules.end() || rule->second.rank < best->second.rank)) best = rule, at = i;
    }
    if (best == rules.end()) return ids;
    ids[at] = best->second.result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, EqualsTheDefinitionOnRandomRulesAndStrings) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    const int32_t letters = 2 + static_cast<int32_t>(random() % 4);
    const size_t count = 1 + random() % 40;
    MergeTable table(count);
    Rules rules;
    for (size_t m = 0; m < count; ++m) {
      const auto any = [&] { return static_cast<int32_t>(random() % (static_cast<uint32_t>(letters) + m)); };
      const std::pair<int32_t, int32_t> pair{any(), any()};
      // Results of different rules may coincide, as "a"+"bc" and "ab"+"c" do.
      const int32_t result = letters + static_cast<int32_t>(random() % (m + 1));
      const auto rank = static_cast<uint32_t>(rules.size());
      EXPECT_EQ(table.add(pair.first, pair.second, result), rules.emplace(pair, Rule{rank, result}).second);
    }
    for (const size_t n : {0, 1, 2, 7, 31, 32, 33, 34, 100, 300}) {
      std::vector<int32_t> ids(n), merged;
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(letters));
      table.merge(ids, merged);
      ASSERT_EQ(merged, naive(rules, ids)) << "round " << round << " length " << n;
    }
  }
}

TEST(Bpe, AppendsToWhatIsThere) {
  MergeTable table(1);
  ASSERT_TRUE(table.add(1, 2, 3));
  std::vector<int32_t> out{9};
  table.merge(std::vector<int32_t>{1, 2, 1}, out);
  EXPECT_EQ(out, (std::vector<int32_t>{9, 3, 1}));
}

}  // namespace
}  // namespace evros::text
