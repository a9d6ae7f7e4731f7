// Cuts text into pre-tokens with a published regular expression, and normalises text. Internal to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evros::text {

/// A compiled pattern; immutable, any thread may call split. Unicode classes are those of PCRE2 10.42 (Unicode 14), with \s
/// meaning White_Space exactly, as in the engines that the patterns were written for.
class PreTokenizer {
 public:
  /// The error names the offset in the pattern. Patterns come from files: their length and nesting are bounded.
  static Result<PreTokenizer> create(std::string_view pattern);

  /// Appends the end offset of every piece of `text`, which must be UTF-8, in order: the matches, and what lies between
  /// them. The last one is text.size(). A pattern that backtracks beyond the limit is an error.
  Status split(std::string_view text, std::vector<size_t>& ends) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

/// The canonical composition (NFC) of `text`, which must be UTF-8. O(n log n), whatever the text.
std::string to_nfc(std::string_view text);

}  // namespace evros::text
