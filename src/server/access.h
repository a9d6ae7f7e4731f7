// Who may ask: API key, web pages of other origins, and names that lead to a loopback server (DNS rebinding).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/api_error.h"
#include "server/http.h"

namespace evros::server {

struct AccessOptions {
  std::string address = "127.0.0.1";           // where the server listens
  std::string api_key = {};                    // empty: none is asked for
  bool insecure = false;                       // an address that others reach may go without a key
  std::vector<std::string> cors_origins = {};  // "https://chat.example", or "*"
};

/// 127.0.0.0/8, ::1, localhost.
bool is_loopback(std::string_view host);

class Access {
 public:
  explicit Access(AccessOptions options) : options_(std::move(options)) {}

  /// Refuses to be reachable by others without a key, unless that was asked for; and a key or an origin that no request could
  /// ever match.
  static Status check(const AccessOptions& options);

  /// Host and Origin; for every request.
  Refusal check_source(const HttpRequest& request) const;
  /// "Authorization: Bearer KEY". Takes the same time whatever is wrong with it.
  Refusal check_key(const HttpRequest& request) const;

  /// Headers that let a page of an allowed other origin read the answer; none for requests that need none.
  std::vector<std::pair<std::string, std::string>> cors_headers(const HttpRequest& request) const;

 private:
  bool is_allowed(std::string_view origin) const;
  AccessOptions options_;
};

}  // namespace evros::server
