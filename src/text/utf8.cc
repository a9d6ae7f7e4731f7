#include "text/utf8.h"

namespace evros::text {

Utf8Step utf8_step(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Step::valid, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Step::invalid, 1, 0};
  const uint8_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte alone carries the rules against overlong forms, surrogates and values beyond U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  uint32_t code_point = lead & (0x7Fu >> length);
  for (uint8_t i = 1; i < length; ++i) {
    if (i >= s.size()) return {Utf8Step::incomplete, i, 0};
    const uint8_t b = byte(i);
    if (b < (i == 1 ? low : 0x80) || b > (i == 1 ? high : 0xBF)) return {Utf8Step::invalid, i, 0};
    code_point = code_point << 6 | (b & 0x3Fu);
  }
  return {Utf8Step::valid, length, code_point};
}

std::optional<size_t> find_invalid_utf8(std::string_view s) {
  size_t at = 0;
  while (at < s.size()) {
    if (static_cast<uint8_t>(s[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = utf8_step(s.substr(at));
    if (step.state != Utf8Step::valid) return at;
    at += step.bytes;
  }
  return std::nullopt;
}

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t b) { out.push_back(static_cast<char>(static_cast<uint8_t>(b))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

void Utf8Decoder::push(std::string_view bytes, std::string& out) {
  std::string joined;
  std::string_view rest = bytes;
  if (!pending_.empty()) {
    joined = pending_;
    joined.append(bytes);
    rest = joined;
    pending_.clear();
  }
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.state == Utf8Step::incomplete) {
      pending_ = rest;
      return;
    }
    out.append(step.state == Utf8Step::valid ? rest.substr(0, step.bytes) : kReplacement);
    rest.remove_prefix(step.bytes);
  }
}

void Utf8Decoder::flush(std::string& out) {
  if (!pending_.empty()) out.append(kReplacement);
  pending_.clear();
}

}  // namespace evros::text
