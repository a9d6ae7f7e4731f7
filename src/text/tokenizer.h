// Text to token ids and back: byte-level BPE as published models of this family use it. A prompt goes through
//   added tokens matched in the raw text (leftmost, then longest) -> NFC -> pre-tokenizer pattern -> byte-pair merges,
// which is the order of the reference library. The two sources of a vocabulary, tokenizer.json and GGUF arrays, give the
// same ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace evros::text {

/// What encode does with the text of an added token ("<|im_end|>", "<think>") inside the prompt.
enum class SpecialTokens {
  parse,          // it becomes that token
  plain,          // it is text like any other: for text that comes from users
  parse_trusted,  // it becomes that token, unless Tokenizer::defuse has marked it as a user's text
};

/// Immutable; every method may be called from any thread. A copy is a reference to the same vocabulary.
class Tokenizer {
 public:
  /// Checks the whole vocabulary: one error names the first thing that is wrong (a duplicate, a hole in the ids, a merge of
  /// a missing token, a byte that has no token, an unknown model or pre-tokenizer). Takes about a second for 250,000 tokens.
  static Result<Tokenizer> create(const TokenizerSpec& spec);

  /// The ids of `text`. Text that is not UTF-8 is refused with the offset of the first wrong byte. No token is added that
  /// the text does not contain (this family has no BOS). Time is O(n log n) in the length, whatever the text.
  Result<std::vector<int32_t>> encode(std::string_view text, SpecialTokens special = SpecialTokens::parse) const;

  /// Marks every added token inside a user's text with an invisible character (the noncharacter U+FDD0), so that the text can
  /// be put into a chat template and be encoded with parse_trusted: the mark is dropped there and the text stays text.
  /// U+FDD0 in the text itself, which Unicode never assigns, becomes U+FFFD.
  std::string defuse(std::string_view text) const;

  /// The text of the ids; broken UTF-8 becomes U+FFFD as Python's errors="replace" makes it. skip_special leaves out control
  /// tokens (is_control). An id outside the vocabulary is an error that names it. Unused ids have no text.
  Result<std::string> decode(std::span<const int32_t> ids, bool skip_special = false) const;

  /// The bytes that the id stands for, not necessarily whole characters; empty for an id outside the vocabulary.
  /// Valid as long as any copy of the tokenizer lives.
  std::string_view token_bytes(int64_t id) const;

  /// A token that structures the prompt and is not part of a reply's text: <|im_start|>, <|im_end|>, ...
  bool is_control(int64_t id) const;
  /// A row of the vocabulary that no text maps to ("[PAD248100]"); sampling must not choose it.
  bool is_unused(int64_t id) const;
  bool contains(int64_t id) const { return id >= 0 && id < vocab_size(); }

  /// The id whose bytes are exactly `text`; an added token goes before a normal one.
  std::optional<int32_t> find(std::string_view text) const;

  int32_t vocab_size() const;
  /// The ids that end a reply, in the order of the spec; all inside the vocabulary.
  const std::vector<int32_t>& eos_ids() const;
  bool is_eos(int64_t id) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace evros::text
