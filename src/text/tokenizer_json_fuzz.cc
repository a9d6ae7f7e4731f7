// Any bytes as tokenizer.json (or, after a zero byte, as GGUF arrays), then a text through the tokenizer that comes out.
#include <cstdlib>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using evros::text::Tokenizer;
using evros::text::TokenizerSpec;

/// Lines as tokens; a line "left right" is a merge; one that begins with a control byte carries its type there.
TokenizerSpec arrays(std::string_view data) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "qwen35";
  while (!data.empty()) {
    const size_t end = std::min(data.find('\n'), data.size());
    std::string_view line = data.substr(0, end);
    data.remove_prefix(std::min(end + 1, data.size()));
    if (line.find(' ') != std::string_view::npos) {
      spec.merges.emplace_back(line);
      continue;
    }
    int32_t type = 1;
    if (!line.empty() && static_cast<unsigned char>(line[0]) < 9) type = line[0], line.remove_prefix(1);
    spec.tokens.emplace_back(line);
    spec.token_types.push_back(type);
  }
  return spec;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view data(reinterpret_cast<const char*>(bytes), size);
  TokenizerSpec spec;
  if (!data.empty() && data[0] == '\0') {
    spec = arrays(data.substr(1));
  } else {
    spec.tokenizer_json = data;
  }
  spec.eos_ids = {0};
  const auto tokenizer = Tokenizer::create(spec);
  if (!tokenizer.ok()) return 0;
  const std::string text = "It's <|im_end|>12 na\xC3\xAFve \n\n \t e\xCC\x81 \xF0\x9F\x99\x82 " + std::string(100, 'a');
  for (const auto special : {evros::text::SpecialTokens::parse, evros::text::SpecialTokens::plain}) {
    const auto ids = tokenizer->encode(text, special);
    if (!ids.ok()) continue;
    const auto whole = tokenizer->decode(ids.value());
    CHECK(whole.ok());
    evros::text::Detokenizer stream(tokenizer.value(), false);
    std::string joined;
    for (const int32_t id : ids.value()) joined += stream.push(id).value();
    CHECK(joined + stream.flush() == whole.value());
  }
  const auto defused = tokenizer->encode(tokenizer->defuse(text), evros::text::SpecialTokens::parse_trusted);
  static_cast<void>(defused);
  return 0;
}
