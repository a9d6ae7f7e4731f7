// Filters on text, and the conversions between text and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/str.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_strings.h"

namespace evros::text::jinja {
namespace {

using Args = const Arguments&;

Value to_string(Interpreter& i, const Value& v, Args) { return v.is_string() ? v : i.string(i.text(v)); }
Value to_upper(Interpreter& i, const Value& v, Args) { return i.string(upper(i.text(v))); }
Value to_lower(Interpreter& i, const Value& v, Args) { return i.string(lower(i.text(v))); }
Value to_capitalized(Interpreter& i, const Value& v, Args) { return i.string(capitalize(i.text(v))); }
Value to_title(Interpreter& i, const Value& v, Args) { return i.string(title_filter(i.text(v))); }

Value trim(Interpreter& i, const Value& v, Args a) {
  const Value* chars = a.find(0, "chars");
  const bool given = chars && !chars->is_none();
  const std::string set = given ? i.text(*chars) : std::string();
  return i.string(std::string(strip(i.text(v), given ? &set : nullptr, true, true)));
}

Value replace_all(Interpreter& i, const Value& v, Args a) {
  const std::string from = i.text(a.require(0, "old", "replace")), to = i.text(a.require(1, "new", "replace"));
  const std::string text = i.text(v);
  i.charge(text.size());
  const size_t times = from.empty() ? text.size() + 1 : text.size() / from.size();
  if (!to.empty() && times > 4 * i.text_limit() / to.size()) {
    fail(cat("a replacement may grow beyond ", i.text_limit(), " bytes"), Code::out_of_memory);
  }
  return i.string(replace(text, from, to, a.integer(2, "count", -1)));
}

Value escape(Interpreter& i, const Value& v, Args) {
  std::string out;
  for (const char c : i.text(v)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  }
  return i.string(std::move(out));
}

Value indent(Interpreter& i, const Value& v, Args a) {
  const Value* width = a.find(0, "width");
  const bool as_text = width && width->is_string();
  const int64_t spaces = as_text ? 0 : a.integer(0, "width", 4);
  if (spaces > 1024) fail("indent's width is at most 1024", Code::unsupported);
  const std::string prefix =
      as_text ? width->as_string() : std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
  const bool first = a.flag(1, "first", false), blank = a.flag(2, "blank", false);
  const std::string text = i.text(v) + "\n";
  const auto lines = split_lines(text, false);
  if (!prefix.empty() && lines.size() > i.text_limit() / prefix.size())
    fail("an indented text grows too long", Code::out_of_memory);
  i.charge(text.size() + lines.size() * prefix.size());
  std::string out = first ? prefix : std::string();
  for (size_t n = 0; n < lines.size(); ++n) {
    if (n > 0) out += '\n';
    if (n > 0 && (blank || !lines[n].empty())) out += prefix;
    out += lines[n];
  }
  return i.string(std::move(out));
}

Value tojson(Interpreter& i, const Value& v, Args a) {
  JsonStyle style;
  style.ensure_ascii = a.flag(0, "ensure_ascii", false);
  style.indent = a.integer(1, "indent", -1);
  style.sort_keys = a.flag(3, "sort_keys", false);
  if (style.indent >= 0) style.between = ",";
  if (const Value* separators = a.find(2, "separators"); separators && !separators->is_none()) {
    if (!separators->is_list() || separators->items().size() != 2 || !separators->items()[0].is_string() ||
        !separators->items()[1].is_string()) {
      fail("tojson's separators must be two strings");
    }
    style.between = separators->items()[0].as_string();
    style.after_key = separators->items()[1].as_string();
  }
  return i.string(to_json(v, style, i.text_limit()));
}

/// What Python's float() reads, without the exotic forms.
std::optional<double> parse_double(std::string_view text) {
  text = strip(text, nullptr, true, true);
  const bool signed_plus = text.starts_with('+') && text.size() > 1 && text[1] != '-';
  if (signed_plus) text.remove_prefix(1);
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ptr != text.data() + text.size() || parsed.ec == std::errc::invalid_argument || text.empty())
    return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) return std::nullopt;
  return value;
}

Value from_double(double value, Value otherwise) {
  if (!(std::fabs(value) < 9.2e18)) return otherwise;
  return static_cast<int64_t>(value);
}

Value to_int(Interpreter& i, const Value& v, Args a) {
  const Value* given = a.find(0, "default");
  const Value otherwise = given ? *given : Value(int64_t{0});
  const int64_t base = a.integer(1, "base", 10);
  if (v.is_undefined()) v.fail_undefined();
  if (v.is_integral()) return v.as_int();
  if (v.is_float()) return from_double(v.as_double(), otherwise);
  if (!v.is_string()) return otherwise;
  if (base < 2 || base > 36) fail("int's base must be from 2 to 36", Code::unsupported);
  i.charge(v.as_string().size());
  std::string_view text = strip(v.as_string(), nullptr, true, true);
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, static_cast<int>(base));
  if (parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size()) return value;
  const auto real = parse_double(text);
  return real ? from_double(*real, otherwise) : otherwise;
}

Value to_float(Interpreter& i, const Value& v, Args a) {
  const Value* given = a.find(0, "default");
  const Value otherwise = given ? *given : Value(0.0);
  if (v.is_undefined()) v.fail_undefined();
  if (v.is_number()) return v.as_double();
  if (!v.is_string()) return otherwise;
  i.charge(v.as_string().size());
  const auto real = parse_double(v.as_string());
  return real ? Value(*real) : otherwise;
}

}  // namespace

FilterFunction find_text_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFunction> kFilters = {
      {"capitalize", to_capitalized},
      {"e", escape},
      {"escape", escape},
      {"float", to_float},
      {"indent", indent},
      {"int", to_int},
      {"lower", to_lower},
      {"replace", replace_all},
      {"safe", to_string},
      {"string", to_string},
      {"title", to_title},
      {"tojson", tojson},
      {"trim", trim},
      {"upper", to_upper},
  };
  const auto at = kFilters.find(name);
  return at == kFilters.end() ? nullptr : at->second;
}

}  // namespace evros::text::jinja
