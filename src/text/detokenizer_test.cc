#include "text/detokenizer.h"

#include <random>

#include "text/test_data.h"

namespace evros::text {
namespace {

using testing::decode;
using testing::encode;
using testing::tiny;

std::string bytes_of_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

// tests/data/utf8_golden.json holds what Python's errors="replace" makes of random bytes.
TEST(Utf8, ReplacesBrokenSequencesAsPythonDoesAtEverySplit) {
  const boost::json::value golden = boost::json::parse(testing::read_file("tests/data/utf8_golden.json"));
  ASSERT_GE(golden.as_array().size(), 300u);
  for (const auto& c : golden.as_array()) {
    const std::string bytes = bytes_of_hex(testing::str(c.at(0))), wanted = testing::str(c.at(1));
    for (size_t split = 0; split <= bytes.size(); ++split) {
      Utf8Decoder decoder;
      std::string out;
      decoder.push(std::string_view(bytes).substr(0, split), out);
      EXPECT_FALSE(find_invalid_utf8(out)) << c.at(0);
      decoder.push(std::string_view(bytes).substr(split), out);
      decoder.flush(out);
      EXPECT_EQ(out, wanted) << c.at(0) << " split at " << split;
    }
    EXPECT_EQ(find_invalid_utf8(bytes).has_value(), wanted != bytes) << c.at(0);
  }
}

/// Pushes the ids one by one; every piece must be whole characters.
std::string streamed(Detokenizer stream, std::span<const int32_t> ids) {
  std::string out;
  for (const int32_t id : ids) {
    auto piece = stream.push(id);
    EXPECT_TRUE(piece.ok());
    EXPECT_FALSE(find_invalid_utf8(piece.value())) << "half a character was shown";
    out += piece.value();
  }
  return out + stream.flush();
}

TEST(Detokenizer, StreamsWhatTheWholeDecodesTo) {
  const boost::json::value golden = testing::tiny_json("tokenizer_golden.json");
  for (const auto& c : golden.as_array()) {
    const std::vector<int32_t> ids = testing::ids_of(c.at("ids"));
    EXPECT_EQ(streamed(Detokenizer(tiny(), false), ids), testing::str(c.at("decoded")));
    EXPECT_EQ(streamed(Detokenizer(tiny(), true), ids), testing::str(c.at("decoded_skip_special")));
  }
}

TEST(Detokenizer, StreamsRandomIdsWithBrokenCharacters) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> ids(random() % 40);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % (round % 2 == 0 ? 256 : 4096));
    EXPECT_EQ(streamed(Detokenizer(tiny(), round % 3 == 0), ids), decode(tiny(), ids, round % 3 == 0));
  }
}

TEST(Detokenizer, CopiesContinueOnTheirOwn) {
  const auto ids = encode(tiny(), "\xF0\x9F\x99\x82");
  ASSERT_GT(ids.size(), 1u);
  for (size_t at = 0; at < ids.size(); ++at) {
    Detokenizer original(tiny());
    for (size_t i = 0; i < at; ++i) EXPECT_EQ(original.push(ids[i]).value(), "");
    Detokenizer draft = original;
    EXPECT_EQ(draft.push(encode(tiny(), "x")[0]).value(), at == 0 ? "x" : "\xEF\xBF\xBDx");
    std::string rest;
    for (size_t i = at; i < ids.size(); ++i) rest += original.push(ids[i]).value();
    EXPECT_EQ(rest, "\xF0\x9F\x99\x82");
  }
}

TEST(Detokenizer, ABadIdChangesNothing) {
  const auto ids = encode(tiny(), "\xF0\x9F\x99\x82");
  Detokenizer stream(tiny());
  EXPECT_EQ(stream.push(ids[0]).value(), "");
  for (const int32_t id : {-1, 4096}) {
    const auto result = stream.push(id);
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.error().message.find(std::to_string(id)), std::string::npos);
  }
  std::string rest;
  for (size_t i = 1; i < ids.size(); ++i) rest += stream.push(ids[i]).value();
  EXPECT_EQ(rest, "\xF0\x9F\x99\x82");
}

}  // namespace
}  // namespace evros::text
