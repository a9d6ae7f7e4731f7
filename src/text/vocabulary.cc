#include "text/vocabulary.h"

#include "base/str.h"
#include "text/utf8.h"

namespace evros::text {
namespace detail {

std::string quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "\"";
  const bool cut = text.size() > 60;
  if (cut) text = text.substr(0, 60);
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.state == Utf8Step::valid && step.code_point >= 0x20 && step.code_point != 0x7F) {
      out.append(text.substr(0, step.bytes));
    } else {
      for (size_t i = 0; i < step.bytes; ++i) {
        const auto b = static_cast<uint8_t>(text[i]);
        out.append("\\x");
        out.push_back(kHex[b >> 4]);
        out.push_back(kHex[b & 15]);
      }
    }
    text.remove_prefix(step.bytes);
  }
  return out + (cut ? "\"..." : "\"");
}

Result<TokenIndex> index_tokens(const std::vector<VocabularyToken>& tokens, std::string_view where) {
  TokenIndex index;
  index.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    const VocabularyToken& token = tokens[id];
    if (token.text.empty()) {
      if (token.type == kTokenUnused) continue;
      return Error{Code::bad_file, cat(where, ": token ", id, " has an empty text")};
    }
    const bool matched = token.type == kTokenControl || token.type == kTokenUserDefined;
    if (matched && token.text.size() > kMaxSpecialBytes) {
      return Error{Code::bad_file, cat(where, ": special token ", id, " has ", token.text.size(), " bytes; at most ",
                                       kMaxSpecialBytes, " are possible")};
    }
    if (find_invalid_utf8(token.text)) {
      return Error{Code::bad_file, cat(where, ": token ", id, " ", quote(token.text), " is not valid UTF-8")};
    }
    const auto [at, fresh] = index.emplace(token.text, static_cast<int32_t>(id));
    if (!fresh) {
      return Error{Code::bad_file,
                   cat(where, ": tokens ", at->second, " and ", id, " have the same text ", quote(token.text))};
    }
  }
  return index;
}

Status add_merge(Vocabulary& vocabulary, const TokenIndex& index, std::string_view left, std::string_view right,
                 size_t number, std::string_view where) {
  const std::string joined = cat(left, right);
  Merge merge{};
  const std::pair<std::string_view, int32_t*> parts[] = {
      {left, &merge.left}, {right, &merge.right}, {joined, &merge.result}};
  for (const auto& [text, id] : parts) {
    const auto at = index.find(text);
    if (at == index.end()) {
      return Error{Code::bad_file, cat(where, ": merge ", number, " ", quote(cat(left, " ", right)),
                                       " needs the token ", quote(text), ", which is not in the vocabulary")};
    }
    *id = at->second;
  }
  vocabulary.merges.push_back(merge);
  return {};
}

Status add_joined_merge(Vocabulary& vocabulary, const TokenIndex& index, std::string_view joined, size_t number,
                        std::string_view where) {
  const size_t space = joined.find(' ');
  if (space == std::string_view::npos || joined.find(' ', space + 1) != std::string_view::npos) {
    return Error{Code::bad_file, cat(where, ": merge ", number, " is ", quote(joined),
                                     "; wanted are two tokens with one space between them")};
  }
  return add_merge(vocabulary, index, joined.substr(0, space), joined.substr(space + 1), number, where);
}

}  // namespace detail

std::string_view pattern_of_pre(std::string_view pre) {
  if (pre == "qwen35") {
    return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  if (pre == "qwen2") {
    return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  return {};
}

Result<Vocabulary> vocabulary_from_arrays(const TokenizerSpec& spec) {
  static constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  if (spec.model != "gpt2") {
    return Error{Code::unsupported,
                 cat("tokenizer.ggml.model is ", detail::quote(spec.model), "; known is \"gpt2\" (byte-level BPE)")};
  }
  Vocabulary vocabulary;
  vocabulary.pattern = pattern_of_pre(spec.pre);
  if (vocabulary.pattern.empty()) {
    return Error{Code::unsupported, cat("tokenizer.ggml.pre is ", detail::quote(spec.pre), "; known are ", kKnownPre)};
  }
  vocabulary.nfc = true;
  if (spec.tokens.empty()) return Error{Code::bad_file, cat(kTokens, " is missing or empty")};
  if (spec.tokens.size() > size_t{INT32_MAX})
    return Error{Code::bad_file, cat(kTokens, " has ", spec.tokens.size(), " entries")};
  // A file without kinds would have its markers matched as plain text, and answers would never end.
  if (spec.token_types.empty()) {
    return Error{Code::bad_file,
                 cat("tokenizer.ggml.token_type is missing or empty; wanted one number for each of the ",
                     spec.tokens.size(), " tokens")};
  }
  if (spec.token_types.size() != spec.tokens.size()) {
    return Error{Code::bad_file, cat("tokenizer.ggml.token_type has ", spec.token_types.size(), " entries, but ",
                                     kTokens, " has ", spec.tokens.size())};
  }
  vocabulary.tokens.resize(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const int32_t type = spec.token_types[id];
    if (type < kTokenNormal || type > kTokenByte) {
      return Error{Code::bad_file, cat("tokenizer.ggml.token_type of token ", id, " is ", type, "; known are 1 to 6")};
    }
    // An unknown token is a kind of control token in byte-level BPE, which never needs it.
    const auto kind = type == kTokenUnknown ? kTokenControl : static_cast<TokenType>(type);
    vocabulary.tokens[id] = {spec.tokens[id], kind, false};
  }
  EVROS_ASSIGN(const detail::TokenIndex index, detail::index_tokens(vocabulary.tokens, kTokens));
  vocabulary.merges.reserve(spec.merges.size());
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    EVROS_TRY(detail::add_joined_merge(vocabulary, index, spec.merges[i], i, "tokenizer.ggml.merges"));
  }
  return vocabulary;
}

}  // namespace evros::text
