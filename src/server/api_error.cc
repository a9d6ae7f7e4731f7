#include "server/api_error.h"

#include "base/json_writer.h"

namespace evros::server {
namespace {

constexpr int kRetryBusy = 2, kRetryMemory = 5, kRetryDraining = 10;  // seconds

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

ApiError from_engine(const Error& error, bool draining) {
  ApiError out{.status = 500, .message = error.message, .param = {}, .code = code_name(error.code), .retry_after = 0};
  switch (error.code) {
    case Code::invalid_argument:
    case Code::unsupported:
      out.status = 400;
      break;
    case Code::not_found:
      out.status = 404;
      break;
    case Code::busy:
      out.status = draining ? 503 : 429;
      out.retry_after = draining ? kRetryDraining : kRetryBusy;
      if (draining) out.code = "shutting_down";
      break;
    case Code::out_of_memory:
      out.status = 507;
      out.retry_after = kRetryMemory;
      break;
    case Code::timeout:
      out.status = 504;
      break;
    case Code::cancelled:
      out.status = 503;
      out.code = "shutting_down";
      out.retry_after = kRetryDraining;
      break;
    default:
      break;
  }
  return out;
}

std::string openai_error(const ApiError& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").value(error.message).key("type").value(type_of(error.status));
  for (const auto& [key, text] : {std::pair("param", &error.param), std::pair("code", &error.code)}) {
    json.key(key);
    text->empty() ? json.null() : json.value(*text);
  }
  return json.end_object().end_object().take();
}

}  // namespace evros::server
