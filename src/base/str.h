// cat(...): builds a sentence from strings, characters and numbers. The standard library of GCC 12 has no std::format,
// and the engine must build with the standard library alone.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>

namespace evros {

namespace detail {
inline void append(std::string& out, std::string_view s) { out.append(s); }
inline void append(std::string& out, const char* s) { out.append(s); }
inline void append(std::string& out, const std::string& s) { out.append(s); }
inline void append(std::string& out, char c) { out.push_back(c); }
inline void append(std::string& out, bool b) { out.append(b ? "true" : "false"); }
template <typename N>
requires std::is_arithmetic_v<N>
void append(std::string& out, N n) {
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, n).ptr;
  out.append(digits, end);
}
}  // namespace detail

template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

}  // namespace evros
