#include "format/json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/str.h"
#include "format/message.h"

namespace evros::format {

namespace json = boost::json;

namespace {

constexpr size_t kMaxDepth = 64;

json::parse_options limits() {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  return options;
}

/// Events of a parse that looks for one thing only: a key that stands twice in one object. The library's own documents
/// keep the last of them silently, which would hide a damaged or contradictory file. Names are the library's.
struct DuplicateKeys {
  static constexpr size_t max_object_size = SIZE_MAX, max_array_size = SIZE_MAX, max_key_size = SIZE_MAX,
                          max_string_size = SIZE_MAX;
  using Text = json::string_view;
  using Fault = json::error_code;

  bool on_key_part(Text text, size_t, Fault&) { return key.append(text.data(), text.size()), true; }
  bool on_key(Text text, size_t, Fault& fault) {
    key.append(text.data(), text.size());
    if (!objects.back().insert(key).second) {
      fault = json::error::syntax;
      return false;
    }
    key.clear();
    return true;
  }
  bool on_object_begin(Fault&) { return objects.emplace_back(), true; }
  bool on_object_end(size_t, Fault&) { return objects.pop_back(), true; }

  bool on_document_begin(Fault&) { return true; }
  bool on_document_end(Fault&) { return true; }
  bool on_array_begin(Fault&) { return true; }
  bool on_array_end(size_t, Fault&) { return true; }
  bool on_string_part(Text, size_t, Fault&) { return true; }
  bool on_string(Text, size_t, Fault&) { return true; }
  bool on_number_part(Text, Fault&) { return true; }
  bool on_int64(int64_t, Text, Fault&) { return true; }
  bool on_uint64(uint64_t, Text, Fault&) { return true; }
  bool on_double(double, Text, Fault&) { return true; }
  bool on_bool(bool, Fault&) { return true; }
  bool on_null(Fault&) { return true; }
  bool on_comment_part(Text, Fault&) { return true; }
  bool on_comment(Text, Fault&) { return true; }

  std::vector<std::unordered_set<std::string>> objects;
  std::string key;
};

/// `text` is valid JSON.
Status expect_unique_keys(std::string_view text, std::string_view path) {
  json::basic_parser<DuplicateKeys> parser(limits());
  json::error_code fault;
  parser.write_some(false, text.data(), text.size(), fault);
  if (!fault) return {};
  return Error{Code::bad_file, cat(path, ": key ", quoted(parser.handler().key), " stands twice in one object")};
}

}  // namespace

Result<json::object> parse_json_object(std::string_view text, std::string_view path) {
  json::stream_parser parser({}, limits());
  json::error_code error;
  const size_t used = parser.write_some(text.data(), text.size(), error);
  if (!error && used < text.size()) error = json::error::extra_data;
  if (!error) parser.finish(error);
  if (error)
    return Error{Code::bad_file, cat(path, ": not valid JSON after about ", used, " bytes: ", error.message())};
  json::value value = parser.release();
  if (!value.is_object()) return Error{Code::bad_file, cat(path, ": is ", json_short(value), "; wanted a JSON object")};
  EVROS_TRY(expect_unique_keys(text, path));
  return std::move(value.get_object());
}

std::optional<int64_t> json_integer(const json::value& value) {
  static constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_int64()) return value.get_int64();
  if (value.is_double() && std::abs(value.get_double()) <= kExact &&
      value.get_double() == std::floor(value.get_double())) {
    return static_cast<int64_t>(value.get_double());
  }
  return std::nullopt;
}

std::optional<uint64_t> json_unsigned(const json::value& value) {
  if (value.is_uint64()) return value.get_uint64();
  const auto number = json_integer(value);
  if (!number || *number < 0) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

std::optional<double> json_number(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (value.is_double() && std::isfinite(value.get_double())) return value.get_double();
  return std::nullopt;
}

std::string json_short(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return value.get_bool() ? "true" : "false";
    case json::kind::int64:
      return cat(value.get_int64());
    case json::kind::uint64:
      return cat(value.get_uint64());
    case json::kind::double_:
      return cat(value.get_double());
    case json::kind::string:
      return quoted(std::string_view(value.get_string().data(), value.get_string().size()));
    case json::kind::array:
      return cat("an array of ", value.get_array().size());
    case json::kind::object:
      return "an object";
  }
  return "unknown";
}

const json::value* JsonReader::find(std::string_view key) const {
  const json::value* value = object_.if_contains(json::string_view(key.data(), key.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

void JsonReader::fail(std::string_view key, std::string_view seen, std::string_view wanted, Code code) {
  if (status_.ok()) status_ = Error{code, cat(path_, ": key ", prefix_, key, " is ", seen, "; wanted ", wanted)};
}

void JsonReader::fail(std::string_view key, std::string_view wanted, Code code) {
  const json::value* value = find(key);
  fail(key, value == nullptr ? "absent" : json_short(*value), wanted, code);
}

int64_t JsonReader::wide_or(std::string_view key, int64_t absent) {
  const json::value* value = find(key);
  if (value == nullptr) return absent;
  const auto number = json_integer(*value);
  if (!number) fail(key, "an integer");
  return number.value_or(absent);
}

int32_t JsonReader::integer_or(std::string_view key, int32_t absent) {
  static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t number = wide_or(key, absent);
  if (number >= -kMost && number <= kMost) return static_cast<int32_t>(number);
  fail(key, "a 32-bit integer");
  return absent;
}

int32_t JsonReader::integer(std::string_view key) {
  if (find(key) == nullptr) fail(key, "an integer");
  return integer_or(key, 0);
}

double JsonReader::real_or(std::string_view key, double absent) {
  const json::value* value = find(key);
  if (value == nullptr) return absent;
  const auto number = json_number(*value);
  if (!number) fail(key, "a finite number");
  return number.value_or(absent);
}

double JsonReader::real(std::string_view key) {
  if (find(key) == nullptr) fail(key, "a number");
  return real_or(key, 0);
}

bool JsonReader::truth_or(std::string_view key, bool absent) {
  const json::value* value = find(key);
  if (value == nullptr) return absent;
  if (value->is_bool()) return value->get_bool();
  fail(key, "true or false");
  return absent;
}

std::optional<std::string> JsonReader::text(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::string(value->get_string().data(), value->get_string().size());
  fail(key, "a string");
  return std::nullopt;
}

std::vector<int64_t> JsonReader::integers(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return {};
  if (const auto one = json_integer(*value)) return {*one};
  std::vector<int64_t> out;
  if (value->is_array()) {
    for (const json::value& element : value->get_array()) {
      const auto number = json_integer(element);
      if (!number) fail(key, cat("an array with ", json_short(element)), "integers");
      out.push_back(number.value_or(0));
    }
  } else {
    fail(key, "an integer or a list of integers");
  }
  return out;
}

const json::object* JsonReader::object(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->is_object()) return &value->get_object();
  fail(key, "an object");
  return nullptr;
}

}  // namespace evros::format
