#include "format/tensor_type.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace evros::format {
namespace {

TEST(TensorType, IdsNamesAndBlocksAreThoseOfTheGgufPackage) {
  std::ifstream list(std::string(EVROS_SOURCE_DIR) + "/tests/data/ggml_types.txt");
  ASSERT_TRUE(list.good());
  uint32_t id, elements, bytes, count = 0;
  std::string name;
  while (list >> id >> name >> elements >> bytes) {
    const auto info = type_info(id);
    ASSERT_TRUE(info) << name;
    EXPECT_EQ(info->name, name);
    EXPECT_EQ(info->block_elements, elements) << name;
    EXPECT_EQ(info->block_bytes, bytes) << name;
    EXPECT_EQ(type_by_name(name), info->type);
    ++count;
  }
  EXPECT_GE(count, 33U);
}

TEST(TensorType, TypesMissingFromThePackageHaveGgmlsOwnSizes) {
  EXPECT_EQ(type_info(TensorType::q8_1).block_bytes, 36U);
  EXPECT_EQ(type_info(TensorType::q8_1).block_elements, 32U);
  EXPECT_EQ(type_info(TensorType::q2_0).block_bytes, 18U);
  EXPECT_EQ(type_info(TensorType::q2_0).block_elements, 64U);
}

TEST(TensorType, RetiredAndUnknownIdsAreNothing) {
  for (const uint32_t id : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U, 43U, 1000U, ~0U}) EXPECT_FALSE(type_info(id)) << id;
  EXPECT_FALSE(type_by_name("Q4_2"));
  EXPECT_FALSE(type_by_name(""));
}

TEST(TensorType, NamesAreFoundInAnyCase) {
  EXPECT_EQ(type_by_name("q4_k"), TensorType::q4_k);
  EXPECT_EQ(type_by_name("bf16"), TensorType::bf16);
}

TEST(TensorType, ARowOfThePublishedTableIsNinetyBytes) { EXPECT_EQ(row_bytes(TensorType::iq4_nl, 160), 90U); }

}  // namespace
}  // namespace evros::format
