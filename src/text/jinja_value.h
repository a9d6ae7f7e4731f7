// Values of the template language, with the semantics of Python objects as Jinja2 templates see them. Values are immutable
// and cheap to copy (containers and strings are shared), except namespaces, which are references.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace evros::text::jinja {

/// How a template fails inside the interpreter; never leaves this folder (Template::render makes it an Error).
struct Failure {
  Code code;
  std::string message;
};
[[noreturn]] void fail(std::string message, Code code = Code::invalid_argument);

class Value;
struct List;
struct Map;
class Object;

/// Lists, tuples and maps may be nested this deep; deeper ones fail to be built.
inline constexpr uint32_t kMaxValueDepth = 200;

class Value {
 public:
  struct None {};
  struct Undefined {
    std::shared_ptr<const std::string> what;  // "'x' is undefined": the message when it is used
  };

  Value() : data_(None{}) {}
  Value(bool b) : data_(b) {}     // NOLINT(google-explicit-constructor)
  Value(int64_t i) : data_(i) {}  // NOLINT(google-explicit-constructor)
  Value(double d) : data_(d) {}   // NOLINT(google-explicit-constructor)
  Value(std::string s)
      : data_(std::make_shared<const std::string>(std::move(s))) {}  // NOLINT(google-explicit-constructor)
  Value(std::string_view s) : Value(std::string(s)) {}               // NOLINT(google-explicit-constructor)
  Value(const char* s) : Value(std::string(s)) {}                    // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<Object> o) : data_(std::move(o)) {}          // NOLINT(google-explicit-constructor)

  static Value undefined(std::string what);
  static Value list(std::vector<Value> items, bool tuple = false);
  static Value map(std::vector<std::pair<std::string, Value>> entries);  // a later equal key replaces the value

  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_int() || is_float() || is_bool(); }  // as in Python, True is 1
  bool is_string() const { return std::holds_alternative<std::shared_ptr<const std::string>>(data_); }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<const List>>(data_); }
  bool is_map() const { return std::holds_alternative<std::shared_ptr<const Map>>(data_); }
  bool is_object() const { return std::holds_alternative<std::shared_ptr<Object>>(data_); }
  bool is_integral() const { return is_int() || is_bool(); }

  // The value of the kind; std::bad_variant_access cannot happen when the kind was asked for first.
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return is_bool() ? static_cast<int64_t>(as_bool()) : std::get<int64_t>(data_); }
  double as_double() const { return is_float() ? std::get<double>(data_) : static_cast<double>(as_int()); }
  const std::string& as_string() const { return *std::get<std::shared_ptr<const std::string>>(data_); }
  const List& as_list() const { return *std::get<std::shared_ptr<const List>>(data_); }
  const std::vector<Value>& items() const;
  const Map& as_map() const { return *std::get<std::shared_ptr<const Map>>(data_); }
  const std::shared_ptr<Object>& as_object() const { return std::get<std::shared_ptr<Object>>(data_); }

  bool truthy() const;
  /// "str", "list", ...: the name of the Python type, for messages.
  std::string type_name() const;
  /// Nesting below this value: 0 for scalars.
  uint32_t depth() const;
  /// A namespace, function or loop is this value or somewhere in it.
  bool holds_object() const;
  /// The same object, as Python's `is` tells for everything that templates compare with it.
  bool same_as(const Value& other) const;
  [[noreturn]] void fail_undefined() const;

 private:
  std::variant<None, Undefined, bool, int64_t, double, std::shared_ptr<const std::string>, std::shared_ptr<const List>,
               std::shared_ptr<const Map>, std::shared_ptr<Object>>
      data_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  uint32_t depth = 1;
  bool holds_object = false;
};

/// Keys are strings (as in JSON) and keep their order.
struct Map {
  std::vector<std::pair<std::string, Value>> entries;
  std::unordered_map<std::string, size_t> index;
  uint32_t depth = 1;
  bool holds_object = false;

  const Value* find(const std::string& key) const {
    const auto at = index.find(key);
    return at == index.end() ? nullptr : &entries[at->second].second;
  }
};

/// What is neither data nor immutable: namespaces, loops, functions.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  /// The attribute, or an undefined value.
  virtual Value attribute(const std::string& name) const;
  virtual bool callable() const { return false; }
};

inline const std::vector<Value>& Value::items() const { return as_list().items; }

/// Python's ==. Never fails.
bool equal(const Value& a, const Value& b);
/// Python's <, for numbers, strings and lists; fails for other pairs.
bool less(const Value& a, const Value& b);

/// Python's str(): what {{ value }} prints. Fails beyond `limit` bytes.
std::string to_text(const Value& value, size_t limit);
/// Python's repr(), appended.
void append_repr(std::string& out, const Value& value, size_t limit);
/// Python's repr of a float: the shortest digits that read back, "1e+16" from 16 digits on.
std::string float_repr(double value);

/// How json.dumps is asked to write.
struct JsonStyle {
  int64_t indent = -1;  // negative: on one line
  bool ensure_ascii = false, sort_keys = false;
  std::string between = ", ";  // elements; with an indent the default is ","
  std::string after_key = ": ";
};

/// Python's json.dumps; keys keep their order unless they are to be sorted. Fails beyond `limit` bytes.
std::string to_json(const Value& value, const JsonStyle& style, size_t limit);

}  // namespace evros::text::jinja
