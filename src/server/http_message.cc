#include "server/http_message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "base/json_writer.h"
#include "base/str.h"

namespace evros::server {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string printable(std::string_view value) {
  std::string out(value);
  std::replace_if(out.begin(), out.end(), is_control, ' ');
  return out;
}

bool has_header(const HttpResponse& response, std::string_view name) {
  return std::any_of(response.headers.begin(), response.headers.end(),
                     [&](const auto& header) { return equal_ignoring_case(header.first, name); });
}

std::optional<HttpFailure> bad_target(std::string_view why) {
  return HttpFailure{400, "invalid_target", cat("the target of the request ", why)};
}

std::optional<HttpFailure> decode_path(std::string_view raw, std::string& path) {
  path.clear();
  for (size_t i = 0; i < raw.size(); ++i) {
    char c = raw[i];
    if (c == '%') {
      const int high = i + 2 < raw.size() ? hex_digit(raw[i + 1]) : -1;
      const int low = i + 2 < raw.size() ? hex_digit(raw[i + 2]) : -1;
      if (high < 0 || low < 0) return bad_target("has a '%' that two hexadecimal digits do not follow");
      c = static_cast<char>(high * 16 + low);
      i += 2;
      if (c == '/') return bad_target("hides a '/' behind a '%'");
    }
    if (is_control(c)) return bad_target("has a control character");
    path.push_back(c);
  }
  return std::nullopt;
}

bool has_dot_segment(std::string_view path) {
  for (size_t begin = 1; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment = path.substr(begin, end - begin);
    if (segment == "." || segment == "..") return true;
    begin = end + 1;
  }
  return false;
}

/// "http://host/a" without its first parts: "/a"; nullopt when there is no such scheme.
std::optional<std::string_view> without_origin(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = target.find_first_of("/?");
    if (end == 0) return std::nullopt;
    return end == std::string_view::npos ? "" : target.substr(end);
  }
  return std::nullopt;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

HttpResponse http_error(const HttpFailure& failure) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").value(failure.message);
  json.key("type").value(failure.status >= 500 ? "server_error" : "invalid_request_error");
  json.key("param").null().key("code").value(failure.code);
  json.end_object().end_object();
  HttpResponse response;
  response.status = failure.status;
  response.body = json.take();
  if (failure.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

std::string_view reason_phrase(int status) {
  static constexpr std::pair<int, std::string_view> kPhrases[] = {
      {100, "Continue"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {303, "See Other"},
      {304, "Not Modified"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {411, "Length Required"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {529, "Overloaded"},
  };
  for (const auto& [number, phrase] : kPhrases)
    if (number == status) return phrase;
  return "Unknown";
}

std::string http_date(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(floor<seconds>(time - day));
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02u %s %04d %02d:%02d:%02d GMT", kDays[weekday(day).c_encoding()],
                static_cast<unsigned>(date.day()), kMonths[static_cast<unsigned>(date.month()) - 1],
                static_cast<int>(date.year()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()), static_cast<int>(clock.seconds().count()));
  return text;
}

std::optional<HttpFailure> split_target(std::string_view target, std::string& path, std::string& query) {
  if (target.find('#') != std::string_view::npos) return bad_target("has a fragment ('#')");
  const auto rest = without_origin(target);
  if (rest) target = *rest;
  const size_t mark = target.find('?');
  query = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  std::string_view raw = target.substr(0, mark);
  if (rest && raw.empty()) raw = "/";
  if (raw.empty() || raw.front() != '/') return bad_target("does not begin with '/'");
  if (auto failure = decode_path(raw, path)) return failure;
  if (has_dot_segment(path)) return bad_target("has a segment '.' or '..'");
  return std::nullopt;
}

bool is_bodiless(int status) { return status < 200 || status == 204 || status == 304; }

std::string response_head(const HttpResponse& response, const HttpFraming& framing,
                          std::chrono::system_clock::time_point now) {
  std::string head = cat("HTTP/1.1 ", response.status, ' ', reason_phrase(response.status), "\r\n");
  const auto add = [&](std::string_view name, std::string_view value) {
    head += cat(printable(name), ": ", printable(value), "\r\n");
  };
  add("Date", http_date(now));
  if (!response.content_type.empty() && !is_bodiless(response.status)) add("Content-Type", response.content_type);
  if (framing.body == HttpFraming::Body::chunked) add("Transfer-Encoding", "chunked");
  if (framing.body == HttpFraming::Body::length && !is_bodiless(response.status))
    add("Content-Length", cat(response.body.size()));
  if (response.content_type.starts_with("text/event-stream")) {
    if (!has_header(response, "Cache-Control")) add("Cache-Control", "no-cache");
    if (!has_header(response, "X-Accel-Buffering")) add("X-Accel-Buffering", "no");
  }
  for (const auto& [name, value] : response.headers) add(name, value);
  if (!framing.keep_alive) add("Connection", "close");
  if (framing.keep_alive && !framing.http11) add("Connection", "keep-alive");
  return head + "\r\n";
}

std::string chunk_head(size_t bytes) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, bytes, 16).ptr;
  return std::string(text, end) + "\r\n";
}

}  // namespace evros::server
