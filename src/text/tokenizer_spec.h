// What a tokenizer is made of, as found in a model's files: either the text of a tokenizer.json or the arrays of a GGUF
// header. A plain struct over the standard library alone, so that code which only carries it needs no text library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace evros::text {

/// GGUF tokenizer.ggml.token_type.
enum TokenType : int32_t {
  kTokenNormal = 1,       // text in the GPT-2 byte alphabet
  kTokenUnknown = 2,      // text as it stands; treated as a control token
  kTokenControl = 3,      // text as it stands; matched in prompts, left out of replies
  kTokenUserDefined = 4,  // text as it stands; matched in prompts, shown in replies
  kTokenUnused = 5,       // a row that no text maps to
  kTokenByte = 6,         // "<0xHH>"
};

struct TokenizerSpec {
  std::string tokenizer_json;        // used when not empty; then `model` .. `merges` are ignored
  std::string model;                 // "gpt2"
  std::string pre;                   // "qwen35", "qwen2"
  std::vector<std::string> tokens;   // by id
  std::vector<int32_t> token_types;  // TokenType by id
  std::vector<std::string> merges;   // "left right", most urgent first
  std::vector<int64_t> eos_ids;      // ids that end a reply
  std::optional<bool> nfc;           // normalise to NFC first; unset: what tokenizer.json says, or true for the arrays,
                                     // because the reference library normalises for every known `pre`
  std::string chat_template;         // Jinja source; not used by the tokenizer, carried for ChatFormat
};

}  // namespace evros::text
