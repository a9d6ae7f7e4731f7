// Values as text: Python's str and repr, and JSON as Python's json.dumps writes it.
#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "text/jinja_strings.h"
#include "text/jinja_value.h"
#include "text/utf8.h"

namespace evros::text::jinja {
namespace {

void check_size(const std::string& out, size_t limit) {
  if (out.size() > limit) fail(cat("a text grows beyond ", limit, " bytes"), Code::out_of_memory);
}

void append_hex(std::string& out, uint32_t c, int digits) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out.push_back(kHex[c >> shift & 15]);
}

void append_string_repr(std::string& out, std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = single ? '"' : '\'';
  out.push_back(quote);
  for_each_character(text, [&](std::string_view bytes, uint32_t c) {
    if (c == static_cast<uint32_t>(quote) || c == '\\') {
      out.push_back('\\');
      out.append(bytes);
    } else if (c == '\n') {
      out.append("\\n");
    } else if (c == '\r') {
      out.append("\\r");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (is_printable(c)) {
      out.append(bytes);
    } else if (c < 0x100) {
      out.append("\\x");
      append_hex(out, c, 2);
    } else {
      out.append(c < 0x10000 ? "\\u" : "\\U");
      append_hex(out, c, c < 0x10000 ? 4 : 8);
    }
  });
  out.push_back(quote);
}

/// A character beyond ASCII as JSON escapes: one, or a surrogate pair.
void append_json_escape(std::string& out, uint32_t c) {
  const uint32_t units[] = {c < 0x10000 ? c : 0xD7C0 + (c >> 10), c < 0x10000 ? 0 : 0xDC00 + (c & 0x3FF)};
  for (const uint32_t unit : units) {
    if (unit == 0) continue;
    out.append("\\u");
    append_hex(out, unit, 4);
  }
}

void append_json_string(std::string& out, std::string_view text, bool ensure_ascii) {
  out.push_back('"');
  for_each_character(text, [&](std::string_view bytes, uint32_t code_point) {
    if (code_point >= 0x80) {
      if (ensure_ascii) return append_json_escape(out, code_point);
      out.append(bytes);
      return;
    }
    const char c = bytes[0];
    switch (c) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      case '\b':
        out.append("\\b");
        break;
      case '\f':
        out.append("\\f");
        break;
      default:
        if (static_cast<uint8_t>(c) < 0x20) {
          out.append("\\u");
          append_hex(out, static_cast<uint8_t>(c), 4);
        } else {
          out.push_back(c);
        }
    }
  });
  out.push_back('"');
}

struct JsonWriter {
  const JsonStyle& style;
  size_t limit;
  std::string out;

  void line(size_t level) {
    if (style.indent < 0) return;
    out.push_back('\n');
    out.append(level * static_cast<size_t>(std::min<int64_t>(style.indent, 64)), ' ');
  }
  void separator(bool first) {
    if (!first) out.append(style.between);
  }

  void write(const Value& value, size_t level) {
    check_size(out, limit);
    if (value.is_none()) {
      out.append("null");
    } else if (value.is_bool()) {
      out.append(value.as_bool() ? "true" : "false");
    } else if (value.is_int()) {
      out.append(std::to_string(value.as_int()));
    } else if (value.is_float()) {
      const double d = value.as_double();
      out.append(std::isnan(d) ? "NaN" : std::isinf(d) ? (d < 0 ? "-Infinity" : "Infinity") : float_repr(d));
    } else if (value.is_string()) {
      append_json_string(out, value.as_string(), style.ensure_ascii);
    } else if (value.is_list()) {
      write_list(value.items(), level);
    } else if (value.is_map()) {
      write_map(value.as_map(), level);
    } else {
      fail(cat("Object of type ", value.type_name(), " is not JSON serializable"));
    }
    check_size(out, limit);
  }

  void write_list(const std::vector<Value>& items, size_t level) {
    out.push_back('[');
    for (size_t i = 0; i < items.size(); ++i) {
      separator(i == 0);
      line(level + 1);
      write(items[i], level + 1);
    }
    if (!items.empty()) line(level);
    out.push_back(']');
  }

  void write_map(const Map& map, size_t level) {
    std::vector<const std::pair<std::string, Value>*> entries;
    for (const auto& entry : map.entries) entries.push_back(&entry);
    if (style.sort_keys) std::sort(entries.begin(), entries.end(), [](auto a, auto b) { return a->first < b->first; });
    out.push_back('{');
    for (size_t i = 0; i < entries.size(); ++i) {
      separator(i == 0);
      line(level + 1);
      append_json_string(out, entries[i]->first, style.ensure_ascii);
      out.append(style.after_key);
      write(entries[i]->second, level + 1);
    }
    if (!entries.empty()) line(level);
    out.push_back('}');
  }
};

}  // namespace

void append_repr(std::string& out, const Value& value, size_t limit) {
  check_size(out, limit);
  if (value.is_string()) {
    append_string_repr(out, value.as_string());
  } else if (value.is_list()) {
    const auto& items = value.items();
    const bool tuple = value.as_list().tuple;
    out.push_back(tuple ? '(' : '[');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.append(", ");
      append_repr(out, items[i], limit);
    }
    if (tuple && items.size() == 1) out.push_back(',');
    out.push_back(tuple ? ')' : ']');
  } else if (value.is_map()) {
    out.push_back('{');
    bool first = true;
    for (const auto& [key, item] : value.as_map().entries) {
      if (!first) out.append(", ");
      first = false;
      append_string_repr(out, key);
      out.append(": ");
      append_repr(out, item, limit);
    }
    out.push_back('}');
  } else if (value.is_undefined()) {
    out.append("Undefined");
  } else {
    out.append(to_text(value, limit));
  }
  check_size(out, limit);
}

std::string to_text(const Value& value, size_t limit) {
  if (value.is_string()) return value.as_string();
  if (value.is_undefined()) return {};
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_int()) return std::to_string(value.as_int());
  if (value.is_float()) return float_repr(value.as_double());
  if (value.is_object()) return cat("<", value.type_name(), ">");
  std::string out;
  append_repr(out, value, limit);
  return out;
}

std::string to_json(const Value& value, const JsonStyle& style, size_t limit) {
  JsonWriter writer{style, limit, {}};
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace evros::text::jinja
