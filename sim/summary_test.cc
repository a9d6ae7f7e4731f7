// The last word of this program: how many faults, and what they left.
#include <cstdio>

#include "sim/bench_testing.h"

namespace evros::sim {
namespace {

class Summary : public testing::Environment {
 public:
  void TearDown() override {
    const Totals& totals = all_faults();
    std::printf("sim: %llu faults injected, %llu left the public digests unchanged\n",
                static_cast<unsigned long long>(totals.injected), static_cast<unsigned long long>(totals.unchanged));
    EXPECT_EQ(totals.injected, totals.unchanged);
  }
};

[[maybe_unused]] const testing::Environment* const kSummary = testing::AddGlobalTestEnvironment(new Summary);

}  // namespace
}  // namespace evros::sim
