#include "text/jinja_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/str.h"

namespace evros::text::jinja {

void fail(std::string message, Code code) { throw Failure{code, std::move(message)}; }

Value Value::undefined(std::string what) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(what))};
  return value;
}

namespace {

void check_depth(uint32_t depth) {
  if (depth > kMaxValueDepth) fail(cat("a value is nested more than ", kMaxValueDepth, " levels deep"));
}

}  // namespace

Value Value::list(std::vector<Value> items, bool tuple) {
  auto list = std::make_shared<List>();
  for (const Value& item : items) {
    list->depth = std::max(list->depth, item.depth() + 1);
    list->holds_object = list->holds_object || item.holds_object();
  }
  check_depth(list->depth);
  list->items = std::move(items);
  list->tuple = tuple;
  Value value;
  value.data_ = std::shared_ptr<const List>(std::move(list));
  return value;
}

Value Value::map(std::vector<std::pair<std::string, Value>> entries) {
  auto map = std::make_shared<Map>();
  for (auto& [key, item] : entries) {
    map->depth = std::max(map->depth, item.depth() + 1);
    map->holds_object = map->holds_object || item.holds_object();
    const auto [at, fresh] = map->index.emplace(key, map->entries.size());
    if (fresh) {
      map->entries.emplace_back(std::move(key), std::move(item));
    } else {
      map->entries[at->second].second = std::move(item);
    }
  }
  check_depth(map->depth);
  Value value;
  value.data_ = std::shared_ptr<const Map>(std::move(map));
  return value;
}

bool Value::truthy() const {
  if (is_bool()) return as_bool();
  if (is_int()) return as_int() != 0;
  if (is_float()) return as_double() != 0.0;
  if (is_string()) return !as_string().empty();
  if (is_list()) return !items().empty();
  if (is_map()) return !as_map().entries.empty();
  return is_object();
}

std::string Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_undefined()) return "Undefined";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (is_list()) return as_list().tuple ? "tuple" : "list";
  if (is_map()) return "dict";
  return as_object()->type_name();
}

uint32_t Value::depth() const {
  if (is_list()) return as_list().depth;
  if (is_map()) return as_map().depth;
  return 0;
}

bool Value::holds_object() const {
  if (is_list()) return as_list().holds_object;
  if (is_map()) return as_map().holds_object;
  return is_object();
}

bool Value::same_as(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_list()) return &as_list() == &other.as_list();
  if (is_map()) return &as_map() == &other.as_map();
  if (is_object()) return as_object() == other.as_object();
  return equal(*this, other);
}

void Value::fail_undefined() const { fail(*std::get<Undefined>(data_).what); }

Value Object::attribute(const std::string& name) const {
  return Value::undefined(cat("'", type_name(), " object' has no attribute '", name, "'"));
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.as_double() == b.as_double();
    return a.as_int() == b.as_int();
  }
  if (a.is_string() && b.is_string()) return a.as_string() == b.as_string();
  if (a.is_list() && b.is_list()) {
    if (a.as_list().tuple != b.as_list().tuple) return false;
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), equal);
  }
  if (a.is_map() && b.is_map()) {
    const auto& entries = a.as_map().entries;
    if (entries.size() != b.as_map().entries.size()) return false;
    return std::all_of(entries.begin(), entries.end(), [&](const auto& entry) {
      const Value* other = b.as_map().find(entry.first);
      return other && equal(entry.second, *other);
    });
  }
  if (a.is_object() && b.is_object()) return a.as_object() == b.as_object();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool less(const Value& a, const Value& b) {
  if (a.is_undefined()) a.fail_undefined();
  if (b.is_undefined()) b.fail_undefined();
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.as_double() < b.as_double();
    return a.as_int() < b.as_int();
  }
  if (a.is_string() && b.is_string()) return a.as_string() < b.as_string();  // UTF-8 sorts like its code points
  if (a.is_list() && b.is_list() && a.as_list().tuple == b.as_list().tuple) {
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i])) return less(x[i], y[i]);
    }
    return x.size() < y.size();
  }
  fail(cat("'<' not supported between instances of '", a.type_name(), "' and '", b.type_name(), "'"));
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (text[0] == '-') out = "-", text.remove_prefix(1);
  const size_t e = text.find('e');
  int exponent = 0;
  const std::string_view power = text.substr(e + 1 + (text[e + 1] == '+'));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 2) digits.append(text.substr(2, e - 2));
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out.append(digits, 0, 1);
    if (count > 1) out.append(".").append(digits, 1);
    const int size = std::abs(exponent);
    return out.append(exponent < 0 ? "e-" : "e+").append(size < 10 ? "0" : "").append(std::to_string(size));
  }
  if (exponent < 0) return out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  if (count <= exponent + 1)
    return out.append(digits).append(static_cast<size_t>(exponent + 1 - count), '0').append(".0");
  return out.append(digits, 0, static_cast<size_t>(exponent + 1))
      .append(".")
      .append(digits, static_cast<size_t>(exponent + 1));
}

}  // namespace evros::text::jinja
