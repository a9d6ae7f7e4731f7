#include "base/json_writer.h"

#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/str.h"

namespace evros {
namespace {

// Length of the valid UTF-8 sequence at the start of `s`, or 0 (RFC 3629).
size_t utf8_length(std::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    const unsigned low = b == 0xE0 ? 0xA0 : 0x80, high = b == 0xED ? 0x9F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) ? 3 : 0;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    const unsigned low = b == 0xF0 ? 0x90 : 0x80, high = b == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

void append_control(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    default:
      out += {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
  }
}

}  // namespace

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t n = utf8_length(text.substr(i));
    if (c < 0x20)
      append_control(out, c);
    else if (c == '"' || c == '\\')
      out += {'\\', text[i]};
    else if (n == 0)
      out += "\xEF\xBF\xBD";
    else
      out += text.substr(i, n);
    i += n == 0 ? 1 : n;
  }
  return out += '"';
}

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  out_ += '\n';
  out_.append(open_.size() * static_cast<size_t>(indent_), ' ');
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  CHECK(open_.empty() ? out_.empty() : open_.back() == '[');
  if (open_.empty()) return;
  if (!first_) out_ += ',';
  new_line();
  first_ = false;
}

JsonWriter& JsonWriter::open(char bracket) {
  before_value();
  out_ += bracket;
  open_.push_back(bracket);
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  CHECK(!open_.empty() && open_.back() == (bracket == '}' ? '{' : '[') && !after_key_);
  open_.pop_back();
  if (!first_) new_line();
  out_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  CHECK(!open_.empty() && open_.back() == '{' && !after_key_);
  if (!first_) out_ += ',';
  new_line();
  first_ = false;
  out_ += json_quote(name);
  out_ += indent_ > 0 ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) { return raw(json_quote(text)); }

JsonWriter& JsonWriter::value(double number) { return std::isfinite(number) ? raw(cat(number)) : null(); }
JsonWriter& JsonWriter::value(float number) { return std::isfinite(number) ? raw(cat(number)) : null(); }
JsonWriter& JsonWriter::signed_value(int64_t number) { return raw(cat(number)); }
JsonWriter& JsonWriter::unsigned_value(uint64_t number) { return raw(cat(number)); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  before_value();
  out_ += json;
  return *this;
}

std::string JsonWriter::take() {
  CHECK(open_.empty() && !out_.empty());
  return std::move(out_);
}

}  // namespace evros
