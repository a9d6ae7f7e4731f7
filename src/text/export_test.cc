#include "text/export.h"

#include "text/test_data.h"

namespace evros::text {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

TEST(Export, ArraysAreWhatTheFileListsInIdOrder) {
  const TokenizerSpec wanted = array_spec();
  const auto made = to_arrays(json_spec(), 4096);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->tokenizer_json, "");
  EXPECT_EQ(made->model, wanted.model);
  EXPECT_EQ(made->pre, wanted.pre);
  EXPECT_EQ(made->tokens, wanted.tokens);
  EXPECT_EQ(made->token_types, wanted.token_types);
  EXPECT_EQ(made->merges, wanted.merges);
  EXPECT_EQ(made->eos_ids, wanted.eos_ids);
  EXPECT_EQ(made->nfc, true);
}

TEST(Export, ArraysStayAsTheyAre) {
  TokenizerSpec spec = array_spec();
  spec.pre = "something else";
  const auto made = to_arrays(spec, 10);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->pre, "something else");
  EXPECT_EQ(made->tokens.size(), 4096u);
}

TEST(Export, MoreTokensThanRowsAreRefusedWithBothNumbers) {
  const auto made = to_arrays(json_spec(), 4095);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("4096"), std::string::npos);
  EXPECT_NE(made.error().message.find("4095"), std::string::npos);
}

}  // namespace
}  // namespace evros::text
