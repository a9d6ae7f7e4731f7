// HTTP's words without its sockets: targets, heads of answers, and the errors that the HTTP layer itself answers with.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"

namespace evros::server {

/// Why a request is refused before any handler has seen it.
struct HttpFailure {
  int status;           // 400, 413...
  std::string code;     // machine-readable: "body_too_large"
  std::string message;  // one sentence
};

/// A JSON error in OpenAI's form: {"error":{"message","type","param":null,"code"}}; the type is "server_error" from status
/// 500 on and "invalid_request_error" below.
HttpResponse http_error(const HttpFailure& failure);

/// "Not Found"; "Unknown" for a status without a name.
std::string_view reason_phrase(int status);

/// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7), whatever the locale.
std::string http_date(std::chrono::system_clock::time_point time);

/// Splits the target of a request line, "/a%20b?c" or "http://host/a%20b?c", into its decoded path and its query. Refused:
/// anything else, escapes that are none, that hide a '/' or a control character, the segments "." and "..", a fragment.
std::optional<HttpFailure> split_target(std::string_view target, std::string& path, std::string& query);

/// How the body of an answer is delimited, and what becomes of the connection.
struct HttpFraming {
  enum class Body {
    length,   // Content-Length; none at all for statuses that have no body (1xx, 204, 304)
    chunked,  // HTTP/1.1 streams
    to_end,   // HTTP/1.0 streams: the end of the connection is the end of the body
  };
  Body body = Body::length;
  bool keep_alive = true;
  bool http11 = true;  // the version of the request
};

/// True for the statuses whose answers never have a body.
bool is_bodiless(int status);

/// Status line and headers up to the empty line. Control characters in the handler's values become spaces, so that no value
/// can add a header. Streams of server-sent events are marked as not to be cached or buffered on the way.
std::string response_head(const HttpResponse& response, const HttpFraming& framing,
                          std::chrono::system_clock::time_point now);

/// "1a\r\n": what precedes a chunk of this many bytes.
std::string chunk_head(size_t bytes);

bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace evros::server
