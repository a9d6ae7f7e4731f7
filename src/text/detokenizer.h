// Token ids to text, one at a time, for streaming. Internal state is a tokenizer reference and at most three bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace evros::text {

/// The pieces that push and flush return, put together, are exactly Tokenizer::decode of the ids, and each piece is whole
/// UTF-8 characters. Copyable: a copy continues on its own from the same place. Not thread-safe.
class Detokenizer {
 public:
  /// skip_special as in Tokenizer::decode.
  explicit Detokenizer(Tokenizer tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  /// The text that is settled now, often empty inside a character. An id outside the vocabulary is an error and changes
  /// nothing.
  Result<std::string> push(int32_t id);

  /// The stream has ended: the text of a dangling incomplete character (one U+FFFD), or nothing. Then as new.
  std::string flush();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  Utf8Decoder decoder_;
};

}  // namespace evros::text
