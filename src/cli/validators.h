// What an option's value must be, said in words when it is something else. They also rewrite the value to the one
// spelling that CLI11 converts without surprises (it reads 010 as 8).
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/str.h"
#include "cli/common.h"

namespace evros::cli {

inline std::string quote(const std::string& text) { return cat('"', text, '"'); }

/// A decimal number from `least` to `most`; `wanted` when that needs other words.
template <typename N>
CLI::Validator number(N least, N most = std::numeric_limits<N>::max(), std::string wanted = {}) {
  if (wanted.empty()) {
    const bool open = std::is_floating_point_v<N> && most == std::numeric_limits<N>::max();
    wanted = cat(std::is_integral_v<N> ? "a whole number" : "a number",
                 open ? cat(" of at least ", least) : cat(" from ", least, " to ", most));
  }
  const auto check = [=](std::string& text) -> std::string {
    N value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool inside = error == std::errc() && stop == end && value >= least && value <= most;  // NaN is not
    if (!inside) return cat(quote(text), " is not ", wanted);
    text = cat(value);
    return {};
  };
  return CLI::Validator(check, "");
}

/// One of some names, in whatever case.
inline CLI::Validator one_of(std::vector<std::string> names) {
  const auto check = [names = std::move(names)](std::string& text) -> std::string {
    const auto same = [&](const std::string& name) {
      return CLI::detail::to_lower(name) == CLI::detail::to_lower(text);
    };
    const auto found = std::find_if(names.begin(), names.end(), same);
    if (found == names.end()) return cat(quote(text), " is none of ", CLI::detail::join(names, ", "));
    text = *found;
    return {};
  };
  return CLI::Validator(check, "");
}

/// One line of text: UTF-8 without control characters.
inline CLI::Validator one_line() {
  const auto check = [](std::string& text) -> std::string {
    if (const Status utf8 = check_utf8("the value", text); !utf8.ok()) return utf8.error().message;
    return printable(text) == text ? "" : cat(quote(printable(text)), " has a control character");
  };
  return CLI::Validator(check, "");
}

/// Anything but nothing.
inline CLI::Validator not_empty() {
  return CLI::Validator([](std::string& text) { return text.empty() ? std::string("the value is empty") : ""; }, "");
}

}  // namespace evros::cli
