// UTF-8: one step of decoding, validation, and the replacement of broken sequences. The rules are those of the Unicode
// standard (table 3-7, "maximal subpart" of section 3.9), which Python's errors="replace" follows as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evros::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// What stands at the start of some bytes.
struct Utf8Step {
  enum State : uint8_t {
    valid,       // `bytes` bytes are the code point
    incomplete,  // all of the input is the beginning of a code point
    invalid,     // `bytes` bytes (1 to 3) can begin no code point: one U+FFFD stands for them
  };
  State state;
  uint8_t bytes;
  uint32_t code_point;
};

/// Looks at the start of s, which must not be empty.
Utf8Step utf8_step(std::string_view s);

/// The offset of the first byte that is not part of a whole, legal code point; nothing when all of s is UTF-8.
std::optional<size_t> find_invalid_utf8(std::string_view s);

/// Appends a scalar value (below 0x110000, no surrogate).
void append_utf8(std::string& out, uint32_t code_point);

/// Decodes a stream of bytes. What comes out is UTF-8 whatever goes in, and depends only on the concatenation of the
/// pieces. Copyable; not thread-safe.
class Utf8Decoder {
 public:
  /// Appends all text that is settled now to `out`; at most 3 bytes stay inside.
  void push(std::string_view bytes, std::string& out);
  /// The stream has ended: a dangling beginning of a code point becomes one U+FFFD. The decoder is then as new.
  void flush(std::string& out);
  bool empty() const { return pending_.empty(); }

 private:
  std::string pending_;  // incomplete code point
};

}  // namespace evros::text
