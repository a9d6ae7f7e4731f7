// The GPT-2 byte alphabet: every byte has a printable character that stands for it in vocabularies and merges.
// Printable Latin-1 bytes stand for themselves; the other 68, in ascending order, are U+0100, U+0101, ...
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace evros::text {

constexpr std::array<uint16_t, 256> make_byte_alphabet() {
  std::array<uint16_t, 256> code_points{};
  uint16_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    code_points[b] = printable ? static_cast<uint16_t>(b) : next++;
  }
  return code_points;
}

/// The code point that stands for each byte.
inline constexpr std::array<uint16_t, 256> kByteAlphabet = make_byte_alphabet();

/// The bytes behind a vocabulary entry, or nothing when a character is not of the alphabet (or the entry no UTF-8).
inline std::optional<std::string> bytes_from_alphabet(std::string_view entry) {
  static const std::array<int16_t, 0x144> kBytes = [] {
    std::array<int16_t, 0x144> bytes;
    bytes.fill(-1);
    for (int16_t b = 0; b < 256; ++b) bytes[kByteAlphabet[static_cast<size_t>(b)]] = b;
    return bytes;
  }();
  std::string out;
  while (!entry.empty()) {
    const Utf8Step step = utf8_step(entry);
    if (step.state != Utf8Step::valid || step.code_point >= kBytes.size() || kBytes[step.code_point] < 0)
      return std::nullopt;
    out.push_back(static_cast<char>(static_cast<uint8_t>(kBytes[step.code_point])));
    entry.remove_prefix(step.bytes);
  }
  return out;
}

}  // namespace evros::text
