#include "format/ngram_hash.h"

#include <gtest/gtest.h>

namespace evros::format {
namespace {

TEST(NgramHash, DerivesTheConstantsThatThePublishedCheckpointShips) {
  const PleLayer ple = derive_ple({1234, 248320, 3, 8, 20000000}, 0);
  EXPECT_EQ(ple.multipliers, (std::vector<uint64_t>{23703573157769, 20109073645365, 8052911324071}));
  EXPECT_EQ(ple.head_vocab,
            (std::vector<uint64_t>{20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077,
                                   20000081, 20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171}));
  EXPECT_EQ(ple.head_offset[1], 20000003U);
  EXPECT_EQ(ple.head_offset[15], 300001275U);
}

TEST(NgramHash, DerivesTheConstantsOfTheMicroFixture) {
  const PleLayer ple = derive_ple({1234, 512, 3, 8, 1000}, 0);
  EXPECT_EQ(ple.multipliers, (std::vector<uint64_t>{4295158889763781, 17440218147737327, 1270917961434445}));
  EXPECT_EQ(ple.head_vocab.front(), 1009U);
  EXPECT_EQ(ple.head_vocab.back(), 1097U);
  EXPECT_EQ(ple.head_offset.back(), 15729U);
}

TEST(NgramHash, TheSecondPleLayerContinuesWithTheNextPrimes) {
  const PleLayer ple = derive_ple({1234, 512, 2, 2, 10}, 1);
  EXPECT_EQ(ple.head_vocab, (std::vector<uint64_t>{17, 19}));  // after 11 and 13
  EXPECT_NE(ple.multipliers, derive_ple({1234, 512, 2, 2, 10}, 0).multipliers);
}

TEST(NgramHash, ABaseThatIsPrimeIsItselfTheFirst) {
  EXPECT_EQ(derive_ple({1, 512, 2, 1, 13}, 0).head_vocab, (std::vector<uint64_t>{13}));
}

}  // namespace
}  // namespace evros::format
