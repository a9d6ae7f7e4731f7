#include "text/export.h"

#include "base/str.h"
#include "text/vocabulary.h"

namespace evros::text {
namespace {

Result<std::string> pre_of_pattern(const std::string& pattern) {
  for (const char* pre : {"qwen35", "qwen2"}) {
    if (pattern == pattern_of_pre(pre)) return std::string(pre);
  }
  return Error{Code::unsupported, cat("tokenizer.json: the pre_tokenizer's pattern is ", detail::quote(pattern),
                                      ", which has no name in GGUF files; known are those of ", kKnownPre)};
}

}  // namespace

Result<TokenizerSpec> to_arrays(const TokenizerSpec& spec, size_t rows) {
  if (spec.tokenizer_json.empty()) return spec;
  EVROS_ASSIGN(const Vocabulary vocabulary, vocabulary_from_json(spec.tokenizer_json));
  if (vocabulary.tokens.size() > rows) {
    return Error{Code::bad_file,
                 cat("tokenizer.json: has ", vocabulary.tokens.size(), " tokens; the model has rows for ", rows)};
  }
  TokenizerSpec out;
  out.model = "gpt2";
  EVROS_ASSIGN(out.pre, pre_of_pattern(vocabulary.pattern));
  for (const VocabularyToken& token : vocabulary.tokens) {
    if (token.normalized && token.type != kTokenNormal) {
      return Error{Code::unsupported, cat("tokenizer.json: added token ", detail::quote(token.text),
                                          " is matched in normalised text, which GGUF files cannot express")};
    }
    out.tokens.push_back(token.text);
    out.token_types.push_back(token.type);
  }
  for (size_t id = out.tokens.size(); id < rows; ++id) {
    out.tokens.push_back(cat("[PAD", id, ']'));
    out.token_types.push_back(kTokenUnused);
  }
  const auto text_of = [&](int32_t id) -> const std::string& {
    return vocabulary.tokens[static_cast<size_t>(id)].text;
  };
  for (const Merge& merge : vocabulary.merges) {
    out.merges.push_back(cat(text_of(merge.left), ' ', text_of(merge.right)));
  }
  out.nfc = spec.nfc.value_or(vocabulary.nfc);
  out.eos_ids = spec.eos_ids;
  out.chat_template = spec.chat_template;
  return out;
}

}  // namespace evros::text
