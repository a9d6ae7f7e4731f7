// Reading JSON files of models: parsing with limits, and typed look-ups whose errors name file and key. Private to
// format.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evros::format {

/// Parses one JSON object, at most 64 levels deep, no key twice in one object. Errors are Code::bad_file and say where
/// in the text it went wrong.
Result<boost::json::object> parse_json_object(std::string_view text, std::string_view path);

/// A whole number, also when written as 4096.0; nothing for other values or what does not fit.
std::optional<int64_t> json_integer(const boost::json::value& value);
std::optional<uint64_t> json_unsigned(const boost::json::value& value);
/// A finite number.
std::optional<double> json_number(const boost::json::value& value);
/// Short, for messages: "\"abc\"", "12", "an array of 3".
std::string json_short(const boost::json::value& value);

/// Typed look-ups in one object. The first failure stays in status() and later look-ups go on with harmless values, so
/// that a reader can run through and test once. A key that is null counts as absent, as transformers writes it.
class JsonReader {
 public:
  /// `prefix` stands before keys in messages: "text_config.". The object and path must outlive the reader.
  JsonReader(const boost::json::object& object, std::string_view path, std::string prefix = "")
      : object_(object), path_(path), prefix_(std::move(prefix)) {}

  const boost::json::value* find(std::string_view key) const;
  int32_t integer(std::string_view key);  // required
  int32_t integer_or(std::string_view key, int32_t absent);
  int64_t wide_or(std::string_view key, int64_t absent);
  double real(std::string_view key);  // required
  double real_or(std::string_view key, double absent);
  bool truth_or(std::string_view key, bool absent);
  std::optional<std::string> text(std::string_view key);
  /// A list of integers, or one integer; empty when absent.
  std::vector<int64_t> integers(std::string_view key);
  /// The object under `key`; null when absent.
  const boost::json::object* object(std::string_view key);

  void fail(std::string_view key, std::string_view seen, std::string_view wanted, Code code = Code::bad_file);
  void fail(std::string_view key, std::string_view wanted, Code code = Code::bad_file);
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  std::string_view path() const { return path_; }

 private:
  const boost::json::object& object_;
  std::string_view path_;
  std::string prefix_;
  Status status_;
};

}  // namespace evros::format
