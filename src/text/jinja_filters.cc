// Filters on lists, mappings and numbers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_map>

#include "base/str.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_strings.h"

namespace evros::text::jinja {
namespace {

using Args = const Arguments&;
using Values = std::vector<Value>;

/// The attribute that filters look up: "a.b.0" goes through items and attributes. Null: the element itself.
Value look_up(Interpreter& interpreter, const Value& element, const Value* path) {
  if (!path || path->is_none()) return element;
  if (path->is_integral()) return interpreter.item(element, *path);
  if (!path->is_string()) fail("an attribute name must be a string or a whole number");
  Value at = element;
  for (const std::string_view part : split(path->as_string(), ".", -1)) {
    interpreter.charge(0);
    const bool number = !part.empty() &&
                        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
                        part.size() < 10;
    Value next = interpreter.item(at, number ? Value(int64_t{std::stoi(std::string(part))}) : Value(part));
    if (next.is_undefined() && !number) next = interpreter.attribute(at, std::string(part));
    at = std::move(next);
  }
  return at;
}

/// How sort, unique, min, max and groupby compare: strings without regard to case unless asked.
Value sort_key(Interpreter& interpreter, const Value& element, const Value* path, bool case_sensitive) {
  Value key = look_up(interpreter, element, path);
  if (!case_sensitive && key.is_string()) return interpreter.string(lower(key.as_string()));
  return key;
}

Values sorted(Interpreter& interpreter, const Value& v, const Value* path, bool case_sensitive, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& element : interpreter.elements(v)) {
    Value key = sort_key(interpreter, element, path, case_sensitive);
    keyed.emplace_back(std::move(key), std::move(element));
  }
  // std::stable_sort does not misbehave on an order that is none (NaN), unlike std::sort.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    interpreter.charge(0);
    return reverse ? less(b.first, a.first) : less(a.first, b.first);
  });
  Values out;
  for (auto& [key, element] : keyed) out.push_back(std::move(element));
  return out;
}

Value sort(Interpreter& i, const Value& v, Args a) {
  return i.list(sorted(i, v, a.find(2, "attribute"), a.flag(1, "case_sensitive", false), a.flag(0, "reverse", false)));
}

Value unique(Interpreter& i, const Value& v, Args a) {
  Values keys, out;
  for (Value& element : i.elements(v)) {
    const Value key = sort_key(i, element, a.find(1, "attribute"), a.flag(0, "case_sensitive", false));
    i.charge(keys.size());
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key); })) continue;
    keys.push_back(key);
    out.push_back(std::move(element));
  }
  return i.list(std::move(out));
}

Value extreme(Interpreter& i, const Value& v, Args a, bool reverse) {
  const Values out = sorted(i, v, a.find(1, "attribute"), a.flag(0, "case_sensitive", false), reverse);
  return out.empty() ? Value::undefined("No aggregated item, sequence was empty.") : out.front();
}
Value min(Interpreter& i, const Value& v, Args a) { return extreme(i, v, a, false); }
Value max(Interpreter& i, const Value& v, Args a) { return extreme(i, v, a, true); }

Value groupby(Interpreter& i, const Value& v, Args a) {
  const Value& path = a.require(0, "attribute", "groupby");
  const bool case_sensitive = a.flag(2, "case_sensitive", false);
  Values groups, group;
  Value group_key, shown;
  const auto close = [&] {
    if (!group.empty()) groups.push_back(i.list({shown, i.list(std::exchange(group, {}))}, true));
  };
  for (Value& element : sorted(i, v, &path, case_sensitive, false)) {
    const Value key = sort_key(i, element, &path, case_sensitive);
    if (group.empty() || !equal(key, group_key)) {
      close();
      group_key = key;
      shown = look_up(i, element, &path);
    }
    group.push_back(std::move(element));
  }
  close();
  return i.list(std::move(groups));
}

Value length(Interpreter& i, const Value& v, Args) {
  if (v.is_string()) return i.charge(v.as_string().size()), static_cast<int64_t>(character_count(v.as_string()));
  if (v.is_list()) return static_cast<int64_t>(v.items().size());
  if (v.is_map()) return static_cast<int64_t>(v.as_map().entries.size());
  if (v.is_undefined()) return int64_t{0};
  fail(cat("object of type '", v.type_name(), "' has no len()"));
}

Value first(Interpreter& i, const Value& v, Args) {
  const Values all = i.elements(v);
  return all.empty() ? Value::undefined("No first item, sequence was empty.") : all.front();
}
Value last(Interpreter& i, const Value& v, Args) {
  const Values all = i.elements(v);
  return all.empty() ? Value::undefined("No last item, sequence was empty.") : all.back();
}
Value list(Interpreter& i, const Value& v, Args) { return i.list(i.elements(v)); }

Value reverse(Interpreter& i, const Value& v, Args) {
  Values all = i.elements(v);
  std::reverse(all.begin(), all.end());
  if (!v.is_string()) return i.list(std::move(all));
  std::string out;
  for (const Value& c : all) out += c.as_string();
  return i.string(std::move(out));
}

Value join(Interpreter& i, const Value& v, Args a) {
  const std::string separator = a.text(0, "d", "");
  const Value* path = a.find(1, "attribute");
  std::string out;
  bool begun = false;
  for (const Value& element : i.elements(v)) {
    if (begun) out += separator;
    begun = true;
    out += i.text(look_up(i, element, path));
    if (out.size() > i.text_limit()) break;  // string() refuses it
  }
  return i.string(std::move(out));
}

Value items(Interpreter& i, const Value& v, Args) {
  if (v.is_undefined()) return i.list({});
  if (!v.is_map()) fail("Can only get item pairs from a mapping.");
  Values out;
  for (const auto& [key, value] : v.as_map().entries) out.push_back(i.list({i.string(key), value}, true));
  return i.list(std::move(out));
}

Value dictsort(Interpreter& i, const Value& v, Args a) {
  const std::string by = a.text(1, "by", "key");
  if (by != "key" && by != "value") fail("dictsort sorts by 'key' or 'value'");
  const Value position(int64_t{by == "key" ? 0 : 1});
  return i.list(
      sorted(i, items(i, v, Arguments()), &position, a.flag(0, "case_sensitive", false), a.flag(2, "reverse", false)));
}

/// map, select, reject and their attr forms: the arguments after `skip` belong to the filter or test.
Arguments rest(Args a, size_t skip) {
  Arguments out;
  for (size_t n = skip; n < a.positional.size(); ++n) out.positional.push_back(a.positional[n]);
  out.named = a.named;
  return out;
}

Value map(Interpreter& i, const Value& v, Args a) {
  Values out;
  const Value* path = a.positional.empty() ? a.find(SIZE_MAX, "attribute") : nullptr;
  if (!path && a.positional.empty()) fail("map requires a filter argument");
  const Value* otherwise = a.find(SIZE_MAX, "default");
  const Arguments inner = rest(a, 1);
  const std::string name = path ? std::string() : a.text(0, "filter", "");
  for (const Value& element : i.elements(v)) {
    Value mapped = path ? look_up(i, element, path) : i.filter(name, element, inner);
    if (path && otherwise && mapped.is_undefined()) mapped = *otherwise;
    out.push_back(std::move(mapped));
  }
  return i.list(std::move(out));
}

Value choose(Interpreter& i, const Value& v, Args a, bool attribute, bool wanted) {
  const size_t skip = attribute ? 1 : 0;
  if (attribute && a.positional.empty()) fail("selectattr and rejectattr need an attribute");
  const Value* path = attribute ? &a.positional[0] : nullptr;
  const bool tested = a.positional.size() > skip;
  const std::string name = tested ? a.text(skip, "test", "") : std::string();
  const Arguments inner = rest(a, skip + 1);
  Values out;
  for (Value& element : i.elements(v)) {
    const Value subject = look_up(i, element, path);
    const bool holds = tested ? i.test(name, subject, inner) : subject.truthy();
    if (holds == wanted) out.push_back(std::move(element));
  }
  return i.list(std::move(out));
}
Value select(Interpreter& i, const Value& v, Args a) { return choose(i, v, a, false, true); }
Value reject(Interpreter& i, const Value& v, Args a) { return choose(i, v, a, false, false); }
Value selectattr(Interpreter& i, const Value& v, Args a) { return choose(i, v, a, true, true); }
Value rejectattr(Interpreter& i, const Value& v, Args a) { return choose(i, v, a, true, false); }

Value batch(Interpreter& i, const Value& v, Args a) {
  const int64_t size = a.integer(0, "linecount", 0);
  if (size <= 0) fail("batch needs a positive count");
  const Value* fill = a.find(1, "fill_with");
  Values out, group;
  for (Value& element : i.elements(v)) {
    group.push_back(std::move(element));
    if (static_cast<int64_t>(group.size()) == size) out.push_back(i.list(std::exchange(group, {})));
  }
  if (!group.empty() && fill && !fill->is_none()) {
    i.charge(static_cast<size_t>(size) * sizeof(Value));
    group.resize(static_cast<size_t>(size), *fill);
  }
  if (!group.empty()) out.push_back(i.list(std::move(group)));
  return i.list(std::move(out));
}

Value sum(Interpreter& i, const Value& v, Args a) {
  const Value* start = a.find(1, "start");
  Value total = start ? *start : Value(int64_t{0});
  for (const Value& element : i.elements(v)) total = i.binary("+", total, look_up(i, element, a.find(0, "attribute")));
  return total;
}

Value absolute(Interpreter& i, const Value& v, Args) {
  if (v.is_float()) return std::fabs(v.as_double());
  if (!v.is_integral()) fail(cat("bad operand type for abs(): '", v.type_name(), "'"));
  return v.as_int() < 0 ? i.binary("-", Value(int64_t{0}), v) : Value(v.as_int());
}

Value round(Interpreter&, const Value& v, Args a) {
  const int64_t precision = a.integer(0, "precision", 0);
  const std::string method = a.text(1, "method", "common");
  if (!v.is_number()) fail(cat("round needs a number, not ", v.type_name()));
  if (precision < 0 || precision > 300) fail("round's precision must be from 0 to 300", Code::unsupported);
  const double value = v.as_double();
  if (method == "common") {
    if (v.is_integral()) return v.as_int();
    if (!std::isfinite(value)) return value;
    char buffer[640];  // 309 digits before the point and 300 behind it
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
    return std::strtod(buffer, nullptr);
  }
  if (method != "ceil" && method != "floor") fail("round's method must be 'common', 'ceil' or 'floor'");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  return (method == "ceil" ? std::ceil(value * scale) : std::floor(value * scale)) / scale;
}

Value otherwise(Interpreter&, const Value& v, Args a) {
  const Value* value = a.find(0, "default_value");
  const bool replace = v.is_undefined() || (a.flag(1, "boolean", false) && !v.truthy());
  return replace ? (value ? *value : Value("")) : v;
}

Value attr(Interpreter& i, const Value& v, Args a) {
  if (v.is_map()) return find_method(v, a.text(0, "name", ""));
  return i.attribute(v, a.text(0, "name", ""));
}

}  // namespace

FilterFunction find_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFunction> kFilters = {
      {"abs", absolute},
      {"attr", attr},
      {"batch", batch},
      {"count", length},
      {"d", otherwise},
      {"default", otherwise},
      {"dictsort", dictsort},
      {"first", first},
      {"groupby", groupby},
      {"items", items},
      {"join", join},
      {"last", last},
      {"length", length},
      {"list", list},
      {"map", map},
      {"max", max},
      {"min", min},
      {"reject", reject},
      {"rejectattr", rejectattr},
      {"reverse", reverse},
      {"round", round},
      {"select", select},
      {"selectattr", selectattr},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  const auto at = kFilters.find(name);
  return at == kFilters.end() ? nullptr : at->second;
}

}  // namespace evros::text::jinja
