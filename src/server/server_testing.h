// The bundled model's text side without the model, for the tests of server/.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "server/model_text.h"
#include "text/tokenizer.h"

namespace evros::server::testing {

inline std::string read_file(const std::string& below_root) {
  std::ifstream in(std::string(EVROS_SOURCE_DIR) + "/" + below_root, std::ios::binary);
  EXPECT_TRUE(in.good()) << below_root;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Named "tiny" and "alias", with a context of 512 tokens.
inline const ModelText& tiny_text() {
  static const ModelText model = [] {
    text::TokenizerSpec spec;
    spec.tokenizer_json = read_file("models/evros-tiny/tokenizer.json");
    spec.eos_ids = {4089, 4087};
    auto tokenizer = text::Tokenizer::create(spec);
    auto chat = text::ChatFormat::create(read_file("models/evros-tiny/chat_template.jinja"));
    EXPECT_TRUE(tokenizer.ok() && chat.ok());
    ModelText out{.tokenizer = *tokenizer, .chat = *chat};
    out.defaults.temperature = 0.7f;
    out.defaults.top_k = 20;
    out.defaults.top_p = 0.9f;
    out.names = {"tiny", "alias"};
    out.fingerprint = "0123456789abcdef-N1/kv=f16,ix=f32";
    out.context = 512;
    out.vocab = out.tokenizer.vocab_size();
    out.most_replies = 16;
    out.im_start_id = 4088;  // models/evros-tiny/tokenizer_config.json
    out.think_id = 4090;
    out.think_end_id = 4091;
    out.closing = out.tokenizer.encode("\n</think>\n\n").value();
    return out;
  }();
  return model;
}

}  // namespace evros::server::testing
