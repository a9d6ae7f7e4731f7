#include "server/http_reader.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "base/str.h"

namespace evros::server {

namespace http = boost::beast::http;
using ErrorCode = boost::beast::error_code;

namespace {

/// The shortest end of a chunked body: "0\r\n\r\n".
constexpr size_t kLastChunk = 5;

/// "PRI * HTTP/2.0": well formed, but of another version. Beast has one error for this and for nonsense.
bool names_other_version(std::string_view line) {
  line = line.substr(0, line.find("\r\n"));
  const size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view version = line.substr(space + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) && version[6] == '.' &&
         is_digit(version[7]);
}

}  // namespace

/// Beast's grammar, our meaning. Only what Beast reports through its callbacks is kept.
class HttpReader::Parser final : public http::basic_parser<true> {
 public:
  Parser(uint32_t header_bytes, uint64_t body_bytes) : header_bytes_(header_bytes), body_bytes_(body_bytes) {
    header_limit(header_bytes);
    body_limit(body_bytes);
    eager(true);
  }

  size_t feed(std::string_view bytes);

  State state = State::head;
  bool begun = false;
  bool http11 = true, expects = false;
  HttpRequest request;
  HttpFailure failure{};

 private:
  void fail(int status, std::string_view code, std::string message) {
    failure = {status, std::string(code), std::move(message)};
    state = State::failed;
  }
  void fail(const ErrorCode& error, std::string_view rest);
  void check_head();
  void check_transfer(int hosts);

  /// Stops Beast; the reason stands in `failure`.
  void stop_if_failed(ErrorCode& error) const {
    if (state == State::failed) error = http::error::bad_value;
  }
  void count_head(size_t bytes, ErrorCode& error) {
    head_ += bytes;
    if (head_ > header_bytes_) error = http::error::header_limit;
  }

  void on_request_impl(http::verb, boost::beast::string_view method, boost::beast::string_view target, int version,
                       ErrorCode& error) override {
    request.method = std::string(method);
    target_ = std::string(target);
    http11 = version == 11;
    count_head(method.size() + target.size() + 12, error);  // two spaces, the version, CR LF
  }
  void on_response_impl(int, boost::beast::string_view, int, ErrorCode&) override {}
  void on_field_impl(http::field, boost::beast::string_view name, boost::beast::string_view value,
                     ErrorCode& error) override {
    count_head(name.size() + value.size() + 4, error);
    if (state != State::head) return;  // trailers: bounded like a head, and of no use to anybody
    std::string key(name);
    for (char& c : key)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    request.headers.emplace_back(std::move(key), std::string(value));
  }
  void on_header_impl(ErrorCode& error) override {
    state = State::body;
    head_ = 0;
    check_head();
    stop_if_failed(error);
  }
  void on_body_init_impl(const boost::optional<uint64_t>&, ErrorCode&) override {}
  size_t on_body_impl(boost::beast::string_view bytes, ErrorCode&) override {
    request.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(uint64_t, boost::beast::string_view, ErrorCode&) override {}
  size_t on_chunk_body_impl(uint64_t, boost::beast::string_view bytes, ErrorCode&) override {
    request.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_finish_impl(ErrorCode&) override {
    if (state != State::failed) state = State::done;
  }

  uint32_t header_bytes_;
  uint64_t body_bytes_;
  uint64_t head_ = 0;  // bytes of the head, or of the trailers, so far
  std::string target_;
};

size_t HttpReader::Parser::feed(std::string_view bytes) {
  size_t used = 0;
  // An empty line before a request is ignored (RFC 9112, 2.2).
  while (!begun && bytes.substr(used, 2) == "\r\n") used += 2;
  if (!begun && bytes.substr(used) == "\r") return used;
  while (used < bytes.size() && (state == State::head || state == State::body)) {
    // Beast 1.81 asserts that a last chunk whose end is still missing has five bytes; no message ends with fewer.
    if (state == State::body && chunked() && bytes.size() - used < kLastChunk) break;
    begun = true;
    ErrorCode error;
    const std::string_view rest = bytes.substr(used);
    const size_t taken = put({rest.data(), rest.size()}, error);
    used += taken;
    if (error == http::error::need_more) {
      if (bytes.size() - used > header_bytes_) fail(http::error::header_limit, {});
      break;
    }
    if (error && state != State::failed) fail(error, rest);
    if (!error && taken == 0) break;
  }
  return used;
}

void HttpReader::Parser::fail(const ErrorCode& error, std::string_view rest) {
  if (error == http::error::body_limit)
    return fail(413, "body_too_large",
                cat("the body of the request is larger than the limit of ", body_bytes_, " bytes"));
  if (error == http::error::header_limit)
    return fail(431, "head_too_large",
                cat("the head or the trailers of the request are larger than the limit of ", header_bytes_, " bytes"));
  if (error == http::error::bad_version && names_other_version(rest))
    return fail(505, "http_version", "this server speaks HTTP/1.1 and HTTP/1.0 only");
  fail(400, "malformed_request", cat("the request is no valid HTTP/1.1: ", error.message()));
}

void HttpReader::Parser::check_head() {
  if (request.method == "CONNECT") return fail(501, "method_not_implemented", "this server is no proxy: no CONNECT");
  if (auto bad = split_target(target_, request.path, request.query)) {
    failure = std::move(*bad);
    state = State::failed;
    return;
  }
  int hosts = 0;
  for (const auto& [name, value] : request.headers) hosts += name == "host";
  check_transfer(hosts);
}

void HttpReader::Parser::check_transfer(int hosts) {
  if (hosts > 1 || (http11 && hosts == 0))
    return fail(400, "invalid_host", cat("the request has ", hosts, " Host headers and needs one"));
  for (const auto& [name, value] : request.headers) {
    if (name == "transfer-encoding") {
      if (!http11) return fail(400, "malformed_request", "an HTTP/1.0 request cannot have a Transfer-Encoding");
      if (!equal_ignoring_case(value, "chunked"))
        return fail(501, "transfer_encoding", "the only Transfer-Encoding that this server knows is chunked");
    }
    if (name == "expect" && http11) {
      if (!equal_ignoring_case(value, "100-continue"))
        return fail(417, "unknown_expectation", "the only Expect that this server knows is 100-continue");
      expects = true;
    }
  }
}

HttpReader::HttpReader(uint32_t header_bytes, uint64_t body_bytes)
    : parser_(std::make_unique<Parser>(header_bytes, body_bytes)) {}
HttpReader::~HttpReader() = default;
HttpReader::HttpReader(HttpReader&&) noexcept = default;
HttpReader& HttpReader::operator=(HttpReader&&) noexcept = default;

HttpReader::State HttpReader::state() const { return parser_->state; }
size_t HttpReader::feed(std::string_view bytes) { return parser_->feed(bytes); }
bool HttpReader::has_begun() const { return parser_->begun; }
bool HttpReader::wants_continue() const { return parser_->expects && parser_->request.body.empty(); }
bool HttpReader::keep_alive() const { return parser_->keep_alive(); }
bool HttpReader::is_http11() const { return parser_->http11; }
const HttpFailure& HttpReader::failure() const { return parser_->failure; }
HttpRequest HttpReader::take() { return std::move(parser_->request); }

}  // namespace evros::server
