// Methods of strings, lists and mappings: those that change nothing, as the immutable sandbox allows.
#include <algorithm>
#include <unordered_map>

#include "base/str.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_strings.h"

namespace evros::text::jinja {
namespace {

using Args = const Arguments&;
using Method = Value (*)(Interpreter&, const Value&, Args);
using Methods = std::unordered_map<std::string_view, Method>;

const std::string& self(const Value& v) { return v.as_string(); }

Value strings(Interpreter& i, const std::vector<std::string_view>& parts, bool tuple = false) {
  std::vector<Value> out;
  for (const std::string_view part : parts) out.push_back(i.string(std::string(part)));
  return i.list(std::move(out), tuple);
}

Value stripped(Interpreter& i, const Value& v, Args a, bool left, bool right) {
  const Value* chars = a.find(0, "chars");
  const bool given = chars && !chars->is_none();
  const std::string set = given ? a.text(0, "chars", "") : std::string();
  return i.string(std::string(strip(self(v), given ? &set : nullptr, left, right)));
}
Value method_strip(Interpreter& i, const Value& v, Args a) { return stripped(i, v, a, true, true); }
Value method_lstrip(Interpreter& i, const Value& v, Args a) { return stripped(i, v, a, true, false); }
Value method_rstrip(Interpreter& i, const Value& v, Args a) { return stripped(i, v, a, false, true); }

Value method_split(Interpreter& i, const Value& v, Args a) {
  const Value* separator = a.find(0, "sep");
  const int64_t limit = a.integer(1, "maxsplit", -1);
  i.charge(self(v).size());
  if (!separator || separator->is_none()) return strings(i, split_space(self(v), limit));
  const std::string at = a.text(0, "sep", "");
  if (at.empty()) fail("empty separator");
  return strings(i, split(self(v), at, limit));
}

Value method_rsplit(Interpreter& i, const Value& v, Args a) {
  const std::string at = a.text(0, "sep", "");
  if (at.empty()) fail("rsplit needs a separator", Code::unsupported);
  i.charge(self(v).size());
  return strings(i, rsplit(self(v), at, a.integer(1, "maxsplit", -1)));
}

Value method_splitlines(Interpreter& i, const Value& v, Args a) {
  i.charge(self(v).size());
  return strings(i, split_lines(self(v), a.flag(0, "keepends", false)));
}

Value parted(Interpreter& i, const Value& v, Args a, bool last) {
  const std::string at = a.text(0, "sep", "");
  if (at.empty()) fail("empty separator");
  const std::string_view text = self(v);
  const size_t found = last ? text.rfind(at) : text.find(at);
  if (found == std::string_view::npos)
    return last ? strings(i, {"", "", text}, true) : strings(i, {text, "", ""}, true);
  return strings(i, {text.substr(0, found), at, text.substr(found + at.size())}, true);
}
Value method_partition(Interpreter& i, const Value& v, Args a) { return parted(i, v, a, false); }
Value method_rpartition(Interpreter& i, const Value& v, Args a) { return parted(i, v, a, true); }

/// startswith and endswith take a string or a tuple of them.
Value touches(const Value& v, Args a, bool end) {
  const Value& wanted = a.require(0, "prefix", end ? "endswith" : "startswith");
  if (a.positional.size() > 1) fail("startswith and endswith with a range are not supported", Code::unsupported);
  const auto one = [&](const Value& w) {
    if (w.is_undefined()) w.fail_undefined();
    if (!w.is_string()) fail(cat("startswith and endswith need a string, not ", w.type_name()));
    return end ? self(v).ends_with(w.as_string()) : self(v).starts_with(w.as_string());
  };
  if (wanted.is_list() && wanted.as_list().tuple) return std::any_of(wanted.items().begin(), wanted.items().end(), one);
  return one(wanted);
}
Value method_startswith(Interpreter&, const Value& v, Args a) { return touches(v, a, false); }
Value method_endswith(Interpreter&, const Value& v, Args a) { return touches(v, a, true); }

Value method_replace(Interpreter& i, const Value& v, Args a) {
  if (!a.find(0, "old") || !a.find(1, "new")) fail("replace needs two strings");
  a.text(0, "old", ""), a.text(1, "new", "");
  return find_text_filter("replace")(i, v, a);
}

Value method_removeprefix(Interpreter& i, const Value& v, Args a) {
  const std::string prefix = a.text(0, "prefix", "");
  return self(v).starts_with(prefix) ? i.string(self(v).substr(prefix.size())) : v;
}
Value method_removesuffix(Interpreter& i, const Value& v, Args a) {
  const std::string suffix = a.text(0, "suffix", "");
  return self(v).ends_with(suffix) ? i.string(self(v).substr(0, self(v).size() - suffix.size())) : v;
}

Value found(Interpreter& i, const Value& v, Args a, bool last, bool required) {
  const std::string wanted = a.text(0, "sub", "");
  if (a.positional.size() > 1) fail("find with a range is not supported", Code::unsupported);
  i.charge(self(v).size());
  const size_t at = last ? self(v).rfind(wanted) : self(v).find(wanted);
  if (at == std::string::npos && required) fail("substring not found");
  return at == std::string::npos ? int64_t{-1}
                                 : static_cast<int64_t>(character_count(std::string_view(self(v)).substr(0, at)));
}
Value method_find(Interpreter& i, const Value& v, Args a) { return found(i, v, a, false, false); }
Value method_rfind(Interpreter& i, const Value& v, Args a) { return found(i, v, a, true, false); }
Value method_index(Interpreter& i, const Value& v, Args a) { return found(i, v, a, false, true); }

Value method_count(Interpreter& i, const Value& v, Args a) {
  const std::string wanted = a.text(0, "sub", "");
  i.charge(self(v).size());
  if (wanted.empty()) return static_cast<int64_t>(character_count(self(v))) + 1;
  return static_cast<int64_t>(split(self(v), wanted, -1).size()) - 1;
}

Value method_join(Interpreter& i, const Value& v, Args a) {
  const std::vector<Value> parts = i.elements(a.require(0, "iterable", "join"));
  std::string out;
  for (size_t n = 0; n < parts.size(); ++n) {
    if (!parts[n].is_string())
      fail(cat("sequence item ", n, ": expected str instance, ", parts[n].type_name(), " found"));
    i.charge(parts[n].as_string().size() + self(v).size());
    if (n > 0) out += self(v);
    out += parts[n].as_string();
  }
  return i.string(std::move(out));
}

Value method_upper(Interpreter& i, const Value& v, Args) { return i.string(upper(self(v))); }
Value method_lower(Interpreter& i, const Value& v, Args) { return i.string(lower(self(v))); }
Value method_title(Interpreter& i, const Value& v, Args) { return i.string(title(self(v))); }
Value method_capitalize(Interpreter& i, const Value& v, Args) { return i.string(capitalize(self(v))); }

template <bool (*wanted)(uint32_t)>
Value all_characters(Interpreter& i, const Value& v, Args) {
  bool all = !self(v).empty();
  i.charge(self(v).size());
  for_each_character(self(v), [&](std::string_view, uint32_t c) { all = all && wanted(c); });
  return all;
}

bool is_alphanumeric(uint32_t c) { return is_alpha(c) || is_digit(c); }

template <const char* name>
Value cased(Interpreter& i, const Value& v, Args) {
  return find_test(name)(i, v, Arguments());
}
constexpr char kLower[] = "lower", kUpper[] = "upper";

Value padded(Interpreter& i, const Value& v, Args a, bool left) {
  const int64_t width = a.integer(0, "width", 0);
  const std::string fill = a.text(1, "fillchar", " ");
  if (character_count(fill) != 1) fail("the fill character must be exactly one character long");
  const auto missing = width - static_cast<int64_t>(character_count(self(v)));
  if (missing <= 0) return v;
  if (static_cast<uint64_t>(missing) > i.text_limit() / 4) fail("a padded text grows too long", Code::out_of_memory);
  i.charge(static_cast<size_t>(missing) * fill.size());
  std::string padding;
  for (int64_t n = 0; n < missing; ++n) padding += fill;
  return i.string(left ? self(v) + padding : padding + self(v));
}
Value method_ljust(Interpreter& i, const Value& v, Args a) { return padded(i, v, a, true); }
Value method_rjust(Interpreter& i, const Value& v, Args a) { return padded(i, v, a, false); }

const Methods& string_methods() {
  static const Methods kMethods = {
      {"strip", method_strip},
      {"lstrip", method_lstrip},
      {"rstrip", method_rstrip},
      {"split", method_split},
      {"rsplit", method_rsplit},
      {"splitlines", method_splitlines},
      {"partition", method_partition},
      {"rpartition", method_rpartition},
      {"startswith", method_startswith},
      {"endswith", method_endswith},
      {"replace", method_replace},
      {"removeprefix", method_removeprefix},
      {"removesuffix", method_removesuffix},
      {"find", method_find},
      {"rfind", method_rfind},
      {"index", method_index},
      {"count", method_count},
      {"join", method_join},
      {"upper", method_upper},
      {"lower", method_lower},
      {"title", method_title},
      {"capitalize", method_capitalize},
      {"isspace", all_characters<is_space>},
      {"isdigit", all_characters<is_digit>},
      {"isdecimal", all_characters<is_digit>},
      {"isnumeric", all_characters<is_digit>},
      {"isalpha", all_characters<is_alpha>},
      {"isalnum", all_characters<is_alphanumeric>},
      {"islower", cased<kLower>},
      {"isupper", cased<kUpper>},
      {"ljust", method_ljust},
      {"rjust", method_rjust},
  };
  return kMethods;
}

Value map_items(Interpreter& i, const Value& v, Args) { return find_filter("items")(i, v, Arguments()); }
Value map_keys(Interpreter& i, const Value& v, Args) { return i.list(i.elements(v)); }
Value map_values(Interpreter& i, const Value& v, Args) {
  std::vector<Value> out;
  for (const auto& [key, value] : v.as_map().entries) out.push_back(value);
  return i.list(std::move(out));
}
Value map_get(Interpreter&, const Value& v, Args a) {
  const Value& key = a.require(0, "key", "get");
  if (key.is_string()) {
    if (const Value* value = v.as_map().find(key.as_string())) return *value;
  }
  const Value* otherwise = a.find(1, "default");
  return otherwise ? *otherwise : Value();
}
Value map_copy(Interpreter&, const Value& v, Args) { return v; }

const Methods& map_methods() {
  static const Methods kMethods = {
      {"items", map_items}, {"keys", map_keys}, {"values", map_values}, {"get", map_get}, {"copy", map_copy}};
  return kMethods;
}

Value list_index(Interpreter& i, const Value& v, Args a) {
  const Value& wanted = a.require(0, "value", "index");
  i.charge(v.items().size());
  for (size_t n = 0; n < v.items().size(); ++n) {
    if (equal(v.items()[n], wanted)) return static_cast<int64_t>(n);
  }
  fail("the value is not in the list");
}
Value list_count(Interpreter& i, const Value& v, Args a) {
  const Value& wanted = a.require(0, "value", "count");
  i.charge(v.items().size());
  return static_cast<int64_t>(
      std::count_if(v.items().begin(), v.items().end(), [&](const Value& x) { return equal(x, wanted); }));
}

const Methods& list_methods() {
  static const Methods kMethods = {{"index", list_index}, {"count", list_count}};
  return kMethods;
}

}  // namespace

Value find_method(const Value& object, const std::string& name) {
  const Methods* methods = object.is_string() ? &string_methods()
                           : object.is_map()  ? &map_methods()
                           : object.is_list() ? &list_methods()
                                              : nullptr;
  const auto at = methods ? methods->find(name) : Methods::const_iterator{};
  if (!methods || at == methods->end()) {
    return Value::undefined(cat("'", object.type_name(), " object' has no attribute '", name.substr(0, 100), "'"));
  }
  return make_function(name, [object, method = at->second](Interpreter& i, Args a) {
    if (object.is_string()) i.charge(object.as_string().size());
    return method(i, object, a);
  });
}

}  // namespace evros::text::jinja
