#include "server/access.h"

#include <algorithm>
#include <span>

#include "base/json_writer.h"
#include "base/sha256.h"
#include "base/str.h"

namespace evros::server {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

/// The host of "host", "host:port", "[address]", "[address]:port"; nothing of anything else.
std::string_view host_of(std::string_view authority) {
  const bool literal = authority.starts_with('[');
  const size_t end = literal ? authority.find(']') : std::min(authority.find(':'), authority.size());
  if (end == std::string_view::npos) return {};
  const std::string_view rest = authority.substr(literal ? end + 1 : end);
  const bool port = rest.starts_with(':') && rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  if (!rest.empty() && !port) return {};
  return literal ? authority.substr(1, end - 1) : authority.substr(0, end);
}

/// What a browser can send as Origin: "scheme://host", "scheme://host:port", "null".
bool is_origin(std::string_view text) {
  const size_t scheme = text.find("://");
  if (text == "null") return true;
  return scheme != std::string_view::npos && scheme > 0 && !host_of(text.substr(scheme + 3)).empty() &&
         text.find_first_of("/?#@ ", scheme + 3) == std::string_view::npos;
}

Sha256Digest digest(std::string_view text) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(text.data(), text.size())));
  return sha.finish();
}

/// Compares digests, all of their bytes: neither a common beginning nor the length of the key shows in the time.
bool same_secret(std::string_view a, std::string_view b) {
  const Sha256Digest x = digest(a), y = digest(b);
  std::byte difference{0};
  for (size_t i = 0; i < x.size(); ++i) difference |= x[i] ^ y[i];
  return difference == std::byte{0};
}

}  // namespace

bool is_loopback(std::string_view host) {
  if (lower(host) == "localhost" || host == "::1") return true;
  // Digits and dots only: "127.0.0.1.example.com" is a name.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

Status Access::check(const AccessOptions& options) {
  // Of the key itself nothing is shown. Headers lose spaces at their ends, and other bytes differ between clients.
  if (std::any_of(options.api_key.begin(), options.api_key.end(), [](char c) { return c <= ' ' || c > '~'; }))
    return Error{Code::invalid_argument,
                 "the API key has a character that no header carries unchanged; wanted are visible ASCII characters, "
                 "without spaces"};
  for (const std::string& origin : options.cors_origins) {
    if (origin != "*" && !is_origin(origin))
      return Error{Code::invalid_argument,
                   cat("--cors-origin: ", json_quote(origin),
                       " is no origin; wanted is * or scheme://host:port without a path, like https://chat.example")};
  }
  if (is_loopback(options.address) || !options.api_key.empty() || options.insecure) return {};
  return Error{Code::invalid_argument,
               cat("others can reach ", options.address,
                   ", so an API key is needed: give --api-key-file, or --insecure to let anybody in")};
}

bool Access::is_allowed(std::string_view origin) const {
  return std::any_of(options_.cors_origins.begin(), options_.cors_origins.end(),
                     [&](const std::string& each) { return each == "*" || lower(each) == lower(origin); });
}

Refusal Access::check_source(const HttpRequest& request) const {
  const std::string_view host = request.header("host"), origin = request.header("origin");
  if (is_loopback(options_.address) && !is_loopback(host_of(host))) {
    return ApiError{.status = 403,
                    .message = cat("the header Host is ", json_quote(host),
                                   "; this server answers to loopback names alone: localhost, 127.0.0.1, [::1]"),
                    .code = "forbidden_host"};
  }
  const size_t scheme = origin.find("://");
  const bool own = scheme != std::string_view::npos && lower(origin.substr(scheme + 3)) == lower(host);
  if (origin.empty() || own || is_allowed(origin)) return {};
  return ApiError{
      .status = 403,
      .message = cat("pages of ", json_quote(origin), " may not use this server; --cors-origin allows them"),
      .code = "forbidden_origin"};
}

Refusal Access::check_key(const HttpRequest& request) const {
  if (options_.api_key.empty()) return {};
  constexpr std::string_view kBearer = "bearer ";
  std::string_view given = request.header("authorization");
  given = lower(given.substr(0, kBearer.size())) == kBearer ? given.substr(kBearer.size()) : std::string_view();
  if (same_secret(given, options_.api_key)) return {};
  return ApiError{.status = 401,
                  .message = given.empty() ? "an API key is needed: send the header Authorization: Bearer KEY"
                                           : "the API key is wrong",
                  .code = "invalid_api_key"};
}

std::vector<std::pair<std::string, std::string>> Access::cors_headers(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (options_.cors_origins.empty()) return {};
  std::vector<std::pair<std::string, std::string>> out = {{"vary", "Origin"}};
  if (origin.empty() || !is_allowed(origin)) return out;
  out.emplace_back("access-control-allow-origin", origin);
  out.emplace_back("access-control-expose-headers", "x-request-id, retry-after");
  if (request.method == "OPTIONS") {
    out.emplace_back("access-control-allow-methods", "GET, POST");
    out.emplace_back("access-control-allow-headers", "authorization, content-type, x-request-id");
    out.emplace_back("access-control-max-age", "600");
  }
  return out;
}

}  // namespace evros::server
