// What the tests of this folder share: the bundled model's files, and its vocabulary in both forms. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace evros::text::testing {

inline std::string read_file(const std::string& below_root) {
  std::ifstream in(std::string(EVROS_SOURCE_DIR) + "/" + below_root, std::ios::binary);
  EXPECT_TRUE(in.good()) << below_root;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string str(const boost::json::value& v) { return std::string(v.as_string()); }

inline std::vector<int32_t> ids_of(const boost::json::value& v) {
  return boost::json::value_to<std::vector<int32_t>>(v);
}

inline boost::json::value tiny_json(const std::string& name) {
  return boost::json::parse(read_file("models/evros-tiny/" + name));
}

/// The bundled model's vocabulary as its tokenizer.json.
inline TokenizerSpec json_spec() {
  TokenizerSpec spec;
  spec.tokenizer_json = read_file("models/evros-tiny/tokenizer.json");
  spec.eos_ids = {4089, 4087};
  return spec;
}

/// The same as a GGUF writer lays it out.
inline TokenizerSpec array_spec() {
  const boost::json::value root = tiny_json("tokenizer.json");
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "qwen35";
  std::map<int64_t, std::pair<std::string, int32_t>> by_id;
  for (const auto& [key, id] : root.at("model").at("vocab").as_object()) by_id[id.as_int64()] = {std::string(key), 1};
  for (const auto& token : root.at("added_tokens").as_array()) {
    by_id[token.at("id").as_int64()] = {str(token.at("content")), token.at("special").as_bool() ? 3 : 4};
  }
  for (const auto& [id, token] : by_id) {
    spec.tokens.push_back(token.first);
    spec.token_types.push_back(token.second);
  }
  for (const auto& merge : root.at("model").at("merges").as_array()) {
    spec.merges.push_back(str(merge.at(0)) + " " + str(merge.at(1)));
  }
  spec.eos_ids = {4089, 4087};
  return spec;
}

inline Tokenizer create(const TokenizerSpec& spec) {
  auto made = Tokenizer::create(spec);
  if (!made.ok()) ADD_FAILURE() << made.error().message;
  return made.value();
}

inline const Tokenizer& tiny() {
  static const Tokenizer tokenizer = create(json_spec());
  return tokenizer;
}

inline std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text,
                                   SpecialTokens special = SpecialTokens::parse) {
  auto ids = tokenizer.encode(text, special);
  if (!ids.ok()) ADD_FAILURE() << ids.error().message;
  return ids.ok() ? ids.value() : std::vector<int32_t>{};
}

inline std::string decode(const Tokenizer& tokenizer, std::span<const int32_t> ids, bool skip_special = false) {
  auto text = tokenizer.decode(ids, skip_special);
  if (!text.ok()) ADD_FAILURE() << text.error().message;
  return text.ok() ? text.value() : std::string{};
}

}  // namespace evros::text::testing
