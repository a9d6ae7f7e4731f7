// The JSON of request bodies: parsed within limits, and read field by field. Every error names the field, the value seen and
// what is wanted.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"

namespace evros::server {

/// One JSON object, at most 64 levels deep; of a key that stands twice the last counts.
Refusal parse_body(std::string_view body, boost::json::object& out);

/// Short, for messages: "\"abc\"", "12", "an array of 3".
std::string json_short(const boost::json::value& value);

/// A whole number, also when written as 16.0.
std::optional<int64_t> json_integer(const boost::json::value& value);
std::optional<double> json_number(const boost::json::value& value);  // finite
/// A value inside a field, and how messages call it: "prompt[1][3]".
struct JsonPlace {
  std::string name;
  const boost::json::value* value = nullptr;
};
/// Ids of an array of whole numbers from 0 to `most`; nothing when it is anything else. `place`, which is the array's, then becomes
/// that of the first wrong element, if it is an array at all.
std::optional<std::vector<int32_t>> json_ids(const boost::json::value& value, int32_t most, JsonPlace& place);

/// Typed look-ups in one object. The first failure stays in refusal() and later look-ups go on, so that a reader can run
/// through and test once. A key that is null counts as absent, as OpenAI's clients write it. The object outlives the reader.
class Fields {
 public:
  explicit Fields(const boost::json::object& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  const boost::json::value* find(std::string_view key) const;  // null: absent or null
  std::optional<bool> truth(std::string_view key);
  std::optional<int64_t> integer(std::string_view key, int64_t least, int64_t most);
  std::optional<double> number(std::string_view key, double least, double most);
  std::optional<std::string> text(std::string_view key);
  /// The object under `key`; null when absent.
  const boost::json::object* object(std::string_view key);

  /// "FIELD is SEEN; WANTED": the first sentence stays.
  void refuse(std::string_view key, std::string_view wanted, std::string_view code = "", int status = 400);
  /// The same of a place inside a field: "prompt[3] is SEEN; WANTED", with the field as the param.
  void refuse_at(std::string_view key, const JsonPlace& place, std::string_view wanted);
  const Refusal& refusal() const { return refusal_; }
  bool ok() const { return !refusal_; }
  /// Takes over what another reader found, after what this one did.
  void join(const Fields& other) {
    if (!refusal_) refusal_ = other.refusal_;
  }

 private:
  const boost::json::object& object_;
  std::string prefix_;
  Refusal refusal_;
};

}  // namespace evros::server
