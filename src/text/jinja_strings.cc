#include "text/jinja_strings.h"

#include <utf8proc.h>

#include <algorithm>

namespace evros::text::jinja {
namespace {

utf8proc_category_t category(uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

/// Boundaries of str.splitlines.
bool is_line_end(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

template <typename F>
std::string map_characters(std::string_view text, F f) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](std::string_view bytes, uint32_t c) {
    if (c == 0xFFFD) {
      out.append(bytes);
    } else {
      f(out, c);
    }
  });
  return out;
}

void put_upper(std::string& out, uint32_t c) {
  if (c == 0xDF) {
    out.append("SS");  // the one common character whose upper case is longer
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void put_title(std::string& out, uint32_t c) {
  if (c == 0xDF) {
    out.append("Ss");
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

void put_lower(std::string& out, uint32_t c) {
  append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace

bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(uint32_t c) {
  if (c == ' ') return true;
  const auto kind = category(c);
  return kind != UTF8PROC_CATEGORY_CC && kind != UTF8PROC_CATEGORY_CF && kind != UTF8PROC_CATEGORY_CS &&
         kind != UTF8PROC_CATEGORY_CO && kind != UTF8PROC_CATEGORY_CN && kind != UTF8PROC_CATEGORY_ZL &&
         kind != UTF8PROC_CATEGORY_ZP && kind != UTF8PROC_CATEGORY_ZS;
}

bool is_alpha(uint32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_upper(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }

size_t character_count(std::string_view text) {
  size_t count = 0;
  for_each_character(text, [&](std::string_view, uint32_t) { ++count; });
  return count;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  out.reserve(text.size());
  for_each_character(text, [&](std::string_view bytes, uint32_t) { out.push_back(bytes); });
  return out;
}

std::string_view strip(std::string_view text, const std::string* set, bool left, bool right) {
  std::vector<uint32_t> wanted;
  if (set) for_each_character(*set, [&](std::string_view, uint32_t c) { wanted.push_back(c); });
  std::sort(wanted.begin(), wanted.end());
  const auto goes = [&](uint32_t c) { return set ? std::binary_search(wanted.begin(), wanted.end(), c) : is_space(c); };
  while (left && !text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.state != Utf8Step::valid || !goes(step.code_point)) break;
    text.remove_prefix(step.bytes);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    const Utf8Step step = utf8_step(text.substr(begin));
    if (step.state != Utf8Step::valid || step.bytes != text.size() - begin || !goes(step.code_point)) break;
    text.remove_suffix(step.bytes);
  }
  return text;
}

std::string upper(std::string_view text) { return map_characters(text, put_upper); }
std::string lower(std::string_view text) { return map_characters(text, put_lower); }

std::string capitalize(std::string_view text) {
  bool first = true;
  return map_characters(text, [&](std::string& out, uint32_t c) {
    first ? put_title(out, c) : put_lower(out, c);
    first = false;
  });
}

std::string title(std::string_view text) {
  bool inside = false;
  return map_characters(text, [&](std::string& out, uint32_t c) {
    inside ? put_lower(out, c) : put_title(out, c);
    inside = is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT;
  });
}

std::string title_filter(std::string_view text) {
  bool inside = false;
  return map_characters(text, [&](std::string& out, uint32_t c) {
    inside ? put_lower(out, c) : put_upper(out, c);
    inside = !is_space(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<';
  });
}

std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t count) {
  std::string out;
  if (from.empty()) {  // as Python does: in front of every character and at the end
    for (const std::string_view c : characters(text)) {
      if (count != 0) out.append(to), --count;
      out.append(c);
    }
    if (count != 0) out.append(to);
    return out;
  }
  size_t at = 0;
  for (; count != 0; --count) {
    const size_t next = text.find(from, at);
    if (next == std::string_view::npos) break;
    out.append(text.substr(at, next - at)).append(to);
    at = next + from.size();
  }
  return out.append(text.substr(at));
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string_view> out;
  for (; limit != 0; --limit) {
    const size_t next = text.find(separator);
    if (next == std::string_view::npos) break;
    out.push_back(text.substr(0, next));
    text.remove_prefix(next + separator.size());
  }
  out.push_back(text);
  return out;
}

std::vector<std::string_view> rsplit(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string_view> out;
  for (; limit != 0; --limit) {
    const size_t next = text.rfind(separator);
    if (next == std::string_view::npos) break;
    out.push_back(text.substr(next + separator.size()));
    text = text.substr(0, next);
  }
  out.push_back(text);
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split_space(std::string_view text, int64_t limit) {
  std::vector<std::string_view> out;
  for (text = strip(text, nullptr, true, false); !text.empty(); text = strip(text, nullptr, true, false)) {
    if (limit == 0) {
      out.push_back(strip(text, nullptr, false, true));
      break;
    }
    --limit;
    size_t end = 0;
    while (end < text.size()) {
      const Utf8Step step = utf8_step(text.substr(end));
      if (step.state == Utf8Step::valid && is_space(step.code_point)) break;
      end += step.bytes;
    }
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  size_t begin = 0, at = 0;
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text.substr(at));
    const size_t start = at;
    at += step.bytes;
    if (step.state != Utf8Step::valid || !is_line_end(step.code_point)) continue;
    if (step.code_point == '\r' && at < text.size() && text[at] == '\n') ++at;
    out.push_back(text.substr(begin, (keep_ends ? at : start) - begin));
    begin = at;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

}  // namespace evros::text::jinja
