// A vocabulary in one neutral, checked form, whether it came as a tokenizer.json or as GGUF arrays. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace evros::text {

struct VocabularyToken {
  std::string text;  // as the file has it: alphabet characters for a normal token, plain text for the others
  TokenType type = kTokenUnused;
  bool normalized = false;  // an added token that is looked for in the normalised text instead of the raw one
};

struct Merge {
  int32_t left, right, result;
};

/// Ids are 0 .. tokens.size() - 1, every one defined, no two with the same text; merges name existing tokens.
struct Vocabulary {
  std::vector<VocabularyToken> tokens;
  std::vector<Merge> merges;  // most urgent first
  std::string pattern;        // the pre-tokenizer's regular expression, as published
  bool nfc = false;
};

/// The longest text of a token that is looked for in prompts: matching costs up to this much a character.
inline constexpr size_t kMaxSpecialBytes = 1024;

/// Reads the BPE part, the added tokens, and the normaliser and pre-tokenizer of a tokenizer.json. Whatever would change
/// ids and is not implemented is `unsupported` and named.
Result<Vocabulary> vocabulary_from_json(std::string_view json);

/// The same from tokenizer.ggml.*: `model`, `pre`, `tokens`, `token_types`, `merges` of the spec.
Result<Vocabulary> vocabulary_from_arrays(const TokenizerSpec& spec);

namespace detail {

/// Looks ids up by the text of the file. Views into the vocabulary's tokens.
using TokenIndex = std::unordered_map<std::string_view, int32_t>;

/// Checks that no two tokens share a text; `where` names the file part in messages.
Result<TokenIndex> index_tokens(const std::vector<VocabularyToken>& tokens, std::string_view where);

/// Adds the merge of two texts, or says which of the three tokens is missing. `number` counts from 0.
Status add_merge(Vocabulary& vocabulary, const TokenIndex& index, std::string_view left, std::string_view right,
                 size_t number, std::string_view where);

/// Splits "left right" at its only space and adds it.
Status add_joined_merge(Vocabulary& vocabulary, const TokenIndex& index, std::string_view joined, size_t number,
                        std::string_view where);

/// `text` for an error message: at most 60 bytes, quoted, control bytes and broken UTF-8 as \xHH.
std::string quote(std::string_view text);

}  // namespace detail

/// The published patterns behind tokenizer.ggml.pre. Nothing for an unknown name.
std::string_view pattern_of_pre(std::string_view pre);
inline constexpr std::string_view kKnownPre = "qwen2, qwen35";

/// The split of ByteLevel with use_regex, as GPT-2 published it.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace evros::text
