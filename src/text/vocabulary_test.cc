// Hostile and unknown vocabularies: every one must end in one sentence that names what is wrong.
#include <functional>

#include "text/byte_alphabet.h"
#include "text/test_data.h"

namespace evros::text {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

/// The smallest complete tokenizer.json: 256 bytes, two merges, two added tokens.
value small_json() {
  object vocab;
  for (size_t b = 0; b < 256; ++b) {
    std::string c;
    append_utf8(c, kByteAlphabet[b]);
    vocab[c] = b;
  }
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  const auto added = [](const char* content, int id, bool special) {
    return object{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                  {"rstrip", false}, {"normalized", false}, {"special", special}};
  };
  return object{{"normalizer", object{{"type", "NFC"}}},
                {"pre_tokenizer", object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
                {"decoder", object{{"type", "ByteLevel"}}},
                {"added_tokens", array{added("<s>", 258, true), added("<t>", 259, false)}},
                {"model", object{{"type", "BPE"}, {"vocab", vocab}, {"merges", array{array{"a", "b"}, "ab c"}}}}};
}

std::string error_of(const TokenizerSpec& spec) {
  const auto made = Tokenizer::create(spec);
  return made.ok() ? "no error" : made.error().message;
}

std::string error_of_json(const std::string& text) {
  TokenizerSpec spec;
  spec.tokenizer_json = text;
  return error_of(spec);
}

TokenizerSpec spec_of(const value& json) {
  TokenizerSpec spec;
  spec.tokenizer_json = boost::json::serialize(json);
  return spec;
}

TEST(Vocabulary, TheSmallOneWorks) {
  const Tokenizer tokenizer = testing::create(spec_of(small_json()));
  EXPECT_EQ(testing::encode(tokenizer, "abc<s>ab<t>"), (std::vector<int32_t>{257, 258, 256, 259}));
}

// Added tokens with `normalized` are looked for behind NFC: "e" + combining acute + "!" finds the token "é!".
TEST(Vocabulary, NormalizedAddedTokensAreFoundInNormalisedText) {
  value json = small_json();
  json.at("added_tokens").at(1).at("content") = "\xC3\xA9!";
  json.at("added_tokens").at(1).at("normalized") = true;
  EXPECT_EQ(testing::encode(testing::create(spec_of(json)), "e\xCC\x81!<s>"), (std::vector<int32_t>{259, 258}));
  json.at("added_tokens").at(1).at("normalized") = false;
  EXPECT_EQ(testing::encode(testing::create(spec_of(json)), "e\xCC\x81!").size(), 3u);
}

TEST(Vocabulary, ErrorsInTokenizerJsonNameTheCulprit) {
  using Change = std::function<void(value&)>;
  const std::pair<Change, const char*> cases[] = {
      {[](value& v) { v.at("model").at("vocab").as_object()["zz"] = 0; }, "both have the id 0"},
      {[](value& v) { v.at("model").at("vocab").as_object()["zz"] = 99999999999; }, "has the id 99999999999"},
      {[](value& v) { v.at("model").at("vocab").as_object()["zz"] = -1; }, "has the id -1"},
      {[](value& v) { v.at("model").at("vocab").as_object()["zz"] = 1.5; }, "has the id 1.5"},
      {[](value& v) { v.at("model").at("vocab").as_object()["zz"] = "x"; }, "has the id \"x\""},
      {[](value& v) {
         v.at("model").at("vocab").as_object()["zz"] = 260;
         v.at("model").at("vocab").as_object()["abc"] = 261;
         v.at("added_tokens").at(0).at("id") = 257;
         v.at("added_tokens").at(1).at("id") = 258;
       },
       "has the id 261"},
      {[](value& v) { v.at("added_tokens").at(1).at("id") = 258; }, "both have the id 258"},
      {[](value& v) { v.at("added_tokens").at(1).at("content") = "<s>"; }, "have the same text \"<s>\""},
      {[](value& v) { v.at("added_tokens").at(1).at("content") = ""; }, "added_tokens[1] has no content"},
      {[](value& v) { v.at("added_tokens").at(1).at("content") = std::string(2000, 'x'); }, "2000 bytes"},
      {[](value& v) { v.at("added_tokens").at(1).at("lstrip") = true; }, "has lstrip set"},
      {[](value& v) { v.at("added_tokens") = 5; }, "added_tokens is 5"},
      {[](value& v) { v.at("model").at("vocab").as_object()["a b"] = 260; },
       "token 260 \"a b\" has a character outside"},
      {[](value& v) {
         v.at("model").at("vocab").as_object()["<s>"] = 258;
         v.at("added_tokens").at(1).at("id") = 260;
       },
       "id 259 has no token"},
      {[](value& v) { v.at("model").at("vocab").as_object().erase("\xC4\x80"); }, "the file lists 259 tokens"},
      {[](value& v) { v.at("model").at("merges").as_array().push_back("x yz"); },
       "merge 2 \"x yz\" needs the token \"yz\""},
      {[](value& v) { v.at("model").at("merges").as_array().push_back("x y"); }, "needs the token \"xy\""},
      {[](value& v) { v.at("model").at("merges").as_array().push_back("a b"); }, "appears a second time"},
      {[](value& v) { v.at("model").at("merges").as_array().push_back("a  b"); }, "merge 2 is \"a  b\""},
      {[](value& v) { v.at("model").at("merges").as_array().push_back(7); }, "model.merges[2] is 7"},
      {[](value& v) { v.at("model").at("merges") = "x"; }, "model.merges is missing"},
      {[](value& v) { v.at("model").at("merges").as_array().clear(); }, "model.merges is missing or empty"},
      {[](value& v) { v.at("model").at("type") = "Unigram"; }, "model.type is \"Unigram\"; known is \"BPE\""},
      {[](value& v) { v.at("model").as_object()["byte_fallback"] = true; }, "model.byte_fallback"},
      {[](value& v) { v.at("model").as_object()["ignore_merges"] = true; }, "model.ignore_merges"},
      {[](value& v) { v.at("model").as_object()["dropout"] = 0.5; }, "model.dropout"},
      {[](value& v) { v.at("model").as_object()["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix"},
      {[](value& v) { v.at("normalizer").at("type") = "Lowercase"; }, "normalizer.type is \"Lowercase\""},
      {[](value& v) { v.at("pre_tokenizer").at("type") = "Whitespace"; }, "pre_tokenizer.type is \"Whitespace\""},
      {[](value& v) { v.at("pre_tokenizer").at("add_prefix_space") = true; }, "pre_tokenizer.type is \"ByteLevel\""},
      {[](value& v) { v.at("decoder").at("type") = "WordPiece"; }, "decoder.type is \"WordPiece\""},
      {[](value& v) {
         v.as_object()["post_processor"] = object{{"type", "TemplateProcessing"}};
       },
       "TemplateProcessing"},
      {[](value& v) { v.as_object().erase("model"); }, "model is missing"},
      {[](value& v) { v = array{}; }, "no JSON object"},
  };
  for (const auto& [change, wanted] : cases) {
    value json = small_json();
    change(json);
    const std::string seen = error_of(spec_of(json));
    EXPECT_NE(seen.find(wanted), std::string::npos) << "wanted " << wanted << "\nseen   " << seen;
  }
}

TEST(Vocabulary, PatternsFromFilesAreBounded) {
  const auto with_pattern = [](const std::string& pattern) {
    value json = small_json();
    json.at("pre_tokenizer") = object{
        {"type", "Sequence"},
        {"pretokenizers", array{object{{"type", "Split"},
                                       {"pattern", object{{"Regex", pattern}}},
                                       {"behavior", "Isolated"},
                                       {"invert", false}},
                                object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    return spec_of(json);
  };
  EXPECT_NE(error_of(with_pattern("(")).find("pattern is not usable"), std::string::npos);
  EXPECT_NE(error_of(with_pattern("\\C")).find("pattern is not usable"), std::string::npos);  // would cut characters
  EXPECT_NE(error_of(with_pattern(std::string(1 << 20, 'a'))).find("pattern is not usable"), std::string::npos);
  EXPECT_NE(error_of(with_pattern(std::string(10000, '(') + std::string(10000, ')'))).find("pattern is not usable"),
            std::string::npos);
  const auto slow = testing::create(with_pattern("(a+)+b")).encode(std::string(5000, 'a') + "cb");
  ASSERT_FALSE(slow.ok());
  EXPECT_EQ(slow.error().code, Code::unsupported);
  // Empty matches, \K and text between matches leave nothing out.
  for (const char* pattern : {"x*", "(?=b)", "a\\Kb", "b", "\\s\\S"}) {
    const Tokenizer tokenizer = testing::create(with_pattern(pattern));
    EXPECT_EQ(testing::decode(tokenizer, testing::encode(tokenizer, "abab \xC3\xA9 ab")), "abab \xC3\xA9 ab")
        << pattern;
  }
  // U+180E is no white space, though PCRE2 counts it in \s.
  const Tokenizer spaces = testing::create(with_pattern("\\s+|\\S+"));
  EXPECT_EQ(testing::encode(spaces,
                            "a\xE1\xA0\x8E"
                            "b")
                .size(),
            5u);
}

TEST(Vocabulary, BrokenJsonIsRefused) {
  EXPECT_NE(error_of_json("{").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of_json("{} x").find("byte"), std::string::npos);
  EXPECT_NE(error_of_json("\xFF").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of_json(std::string(1 << 20, '[')).find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of_json("{\"a\":\"\xFF\"}").find("not valid JSON"), std::string::npos);
}

TEST(Vocabulary, ErrorsInGgufArraysNameTheCulprit) {
  using Change = std::function<void(TokenizerSpec&)>;
  const std::pair<Change, const char*> cases[] = {
      {[](TokenizerSpec& s) { s.model = "llama"; }, "tokenizer.ggml.model is \"llama\"; known is \"gpt2\""},
      {[](TokenizerSpec& s) { s.pre = "deepseek"; }, "tokenizer.ggml.pre is \"deepseek\"; known are qwen2, qwen35"},
      {[](TokenizerSpec& s) { s.tokens.clear(); }, "tokenizer.ggml.tokens is missing"},
      {[](TokenizerSpec& s) { s.token_types.clear(); }, "tokenizer.ggml.token_type is missing or empty"},
      {[](TokenizerSpec& s) { s.merges.clear(); }, "tokenizer.ggml.merges is missing or empty"},
      {[](TokenizerSpec& s) { s.token_types.pop_back(); }, "tokenizer.ggml.token_type has 4095"},
      {[](TokenizerSpec& s) { s.token_types[7] = 99; }, "of token 7 is 99"},
      {[](TokenizerSpec& s) { s.tokens[300] = s.tokens[299]; }, "tokens 299 and 300 have the same text"},
      {[](TokenizerSpec& s) { s.tokens[9] = ""; }, "token 9 has an empty text"},
      {[](TokenizerSpec& s) { s.tokens[9] = "\xFF"; }, "token 9 \"\\xFF\" is not valid UTF-8"},
      {[](TokenizerSpec& s) {
         s.tokens[9] = "a b";
         s.merges.clear();
       },
       "outside the GPT-2 byte alphabet"},
      {[](TokenizerSpec& s) {
         s.tokens[9] = "zzzz";
         s.merges.clear();
       },
       "no token for the byte"},
      {[](TokenizerSpec& s) { s.token_types[9] = 6; }, "wanted is \"<0xHH>\""},
      {[](TokenizerSpec& s) { s.merges[3] = "nospace"; }, "merge 3 is \"nospace\""},
      {[](TokenizerSpec& s) { s.merges[3] = s.merges[2]; }, "merge 3 of the tokens"},
      {[](TokenizerSpec& s) { s.eos_ids = {4096}; }, "end-of-text id 4096"},
      {[](TokenizerSpec& s) { s = {}; }, "brings no tokenizer"},
  };
  const TokenizerSpec good = testing::array_spec();
  for (const auto& [change, wanted] : cases) {
    TokenizerSpec spec = good;
    change(spec);
    const std::string seen = error_of(spec);
    EXPECT_NE(seen.find(wanted), std::string::npos) << "wanted " << wanted << "\nseen   " << seen;
  }
}

}  // namespace
}  // namespace evros::text
