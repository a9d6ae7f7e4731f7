// Python's string methods on UTF-8: what they mean for code points, not bytes. Internal to this folder.
// Broken UTF-8 is harmless: a byte that begins no character counts as a character of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/utf8.h"

namespace evros::text::jinja {

/// Calls f(bytes, code point) for every character.
template <typename F>
void for_each_character(std::string_view text, F f) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    f(text.substr(0, step.bytes), step.state == Utf8Step::valid ? step.code_point : uint32_t{0xFFFD});
    text.remove_prefix(step.bytes);
  }
}

bool is_space(uint32_t c);      // str.isspace of one character
bool is_printable(uint32_t c);  // str.isprintable of one character
bool is_alpha(uint32_t c);
bool is_digit(uint32_t c);  // decimal digits
bool is_upper(uint32_t c);
bool is_lower(uint32_t c);

size_t character_count(std::string_view text);
std::vector<std::string_view> characters(std::string_view text);

/// str.strip and its halves. `set`: the characters to strip; null: white space.
std::string_view strip(std::string_view text, const std::string* set, bool left, bool right);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);         // str.title
std::string title_filter(std::string_view text);  // Jinja's title: words begin after white space and -({[<

/// str.replace; count below 0: all.
std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t count);

/// str.split with a separator (not empty); at most `limit` cuts when that is not negative.
std::vector<std::string_view> split(std::string_view text, std::string_view separator, int64_t limit);
std::vector<std::string_view> rsplit(std::string_view text, std::string_view separator, int64_t limit);
/// str.split() at runs of white space.
std::vector<std::string_view> split_space(std::string_view text, int64_t limit);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

}  // namespace evros::text::jinja
