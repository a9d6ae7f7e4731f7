// Writes JSON, and nothing but JSON: strings are escaped and made valid UTF-8 (a wrong byte becomes U+FFFD), numbers are the
// shortest decimal that reads back equal, and a non-finite number becomes null. Misuse (a value without its key, an end
// without a begin) is a CHECK.
//
//   JsonWriter json;
//   json.begin_object();
//   json.key("name").value("evros");
//   json.key("sizes").begin_array().value(1).value(2.5).end_array();
//   json.end_object();
//   std::string text = json.take();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace evros {

class JsonWriter {
 public:
  /// indent 0: one line without spaces; otherwise each element on its own line.
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  template <typename N>
  requires(std::is_integral_v<N> && !std::is_same_v<N, bool>) JsonWriter& value(N number) {
    if constexpr (std::is_signed_v<N>)
      return signed_value(number);
    else
      return unsigned_value(number);
  }
  JsonWriter& null() { return raw("null"); }
  /// A value that is JSON already.
  JsonWriter& raw(std::string_view json);

  /// The finished document; every object and array must be closed.
  std::string take();

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& signed_value(int64_t number);
  JsonWriter& unsigned_value(uint64_t number);
  void before_value();
  void new_line();

  int indent_;
  std::string out_;
  std::vector<char> open_;  // brackets
  bool first_ = true;       // nothing in the innermost bracket yet
  bool after_key_ = false;
};

/// `text` as a JSON string with its quotes.
std::string json_quote(std::string_view text);

}  // namespace evros
