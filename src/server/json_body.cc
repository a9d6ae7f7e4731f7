#include "server/json_body.h"

#include <cmath>
#include <limits>

#include "base/json_writer.h"
#include "base/str.h"

namespace evros::server {

namespace json = boost::json;

namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kShownBytes = 60;

/// The beginning of a text, cut between characters.
std::string shortened(std::string_view text) {
  if (text.size() <= kShownBytes) return json_quote(text);
  size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return json_quote(text.substr(0, end)) + "...";
}

}  // namespace

Refusal parse_body(std::string_view body, json::object& out) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::stream_parser parser({}, options);
  json::error_code error;
  const size_t used = parser.write_some(body.data(), body.size(), error);
  if (!error && used < body.size()) error = json::error::extra_data;
  if (!error) parser.finish(error);
  if (error) {
    const std::string reason =
        error == json::error::too_deep ? cat("nested deeper than ", kMaxDepth, " levels") : error.message();
    return ApiError{.message = cat("the body is not valid JSON after about ", used, " bytes: ", reason),
                    .code = "invalid_json"};
  }
  json::value value = parser.release();
  if (!value.is_object()) {
    return ApiError{.message = cat("the body is ", json_short(value), "; wanted is a JSON object"),
                    .code = "invalid_json"};
  }
  out = std::move(value.get_object());
  return {};
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
      return shortened({value.get_string().data(), value.get_string().size()});
    case json::kind::array:
      return cat("an array of ", value.get_array().size());
    case json::kind::object:
      return "an object";
  }
  return "unknown";
}

std::optional<int64_t> json_integer(const json::value& value) {
  static constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double() || !(std::abs(value.get_double()) <= kExact)) return std::nullopt;
  const double number = value.get_double();
  if (number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<double> json_number(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (value.is_double() && std::isfinite(value.get_double())) return value.get_double();
  return std::nullopt;
}

std::optional<std::vector<int32_t>> json_ids(const json::value& value, int32_t most, JsonPlace& place) {
  if (!value.is_array()) return std::nullopt;
  std::vector<int32_t> ids;
  ids.reserve(value.get_array().size());
  for (const json::value& item : value.get_array()) {
    const auto id = json_integer(item);
    if (!id || *id < 0 || *id > most) {
      place = {cat(place.name, '[', ids.size(), ']'), &item};
      return std::nullopt;
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

const json::value* Fields::find(std::string_view key) const {
  const json::value* value = object_.if_contains(json::string_view(key.data(), key.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

void Fields::refuse(std::string_view key, std::string_view wanted, std::string_view code, int status) {
  if (refusal_) return;
  const json::value* value = find(key);
  const std::string field = cat(prefix_, key);
  refusal_ =
      ApiError{.status = status,
               .message = cat(field, value == nullptr ? " is missing" : cat(" is ", json_short(*value)), "; ", wanted),
               .param = field,
               .code = std::string(code)};
}

void Fields::refuse_at(std::string_view key, const JsonPlace& place, std::string_view wanted) {
  if (refusal_) return;
  refusal_ = ApiError{.message = cat(prefix_, place.name, " is ", json_short(*place.value), "; ", wanted),
                      .param = cat(prefix_, key)};
}

std::optional<bool> Fields::truth(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_bool()) return value->get_bool();
  refuse(key, "wanted is true or false");
  return std::nullopt;
}

std::optional<int64_t> Fields::integer(std::string_view key, int64_t least, int64_t most) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = json_integer(*value);
  if (number && *number >= least && *number <= most) return number;
  refuse(key, most == std::numeric_limits<int64_t>::max() ? cat("wanted is a whole number of at least ", least)
                                                          : cat("wanted is a whole number from ", least, " to ", most));
  return std::nullopt;
}

std::optional<double> Fields::number(std::string_view key, double least, double most) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = json_number(*value);
  if (number && *number >= least && *number <= most) return number;
  refuse(key, cat("wanted is a number from ", least, " to ", most));
  return std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::string(value->get_string().data(), value->get_string().size());
  refuse(key, "wanted is a string");
  return std::nullopt;
}

const json::object* Fields::object(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->is_object()) return &value->get_object();
  refuse(key, "wanted is an object");
  return nullptr;
}

}  // namespace evros::server
