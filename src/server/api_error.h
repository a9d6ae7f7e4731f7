// Why a request is refused or has failed, for every protocol: an HTTP status, a sentence, and names for programs.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace evros::server {

struct ApiError {
  int status = 400;
  std::string message = {};  // the field, the value seen, and what is wanted
  std::string param = {};    // the field; empty: none in particular
  std::string code = {};     // "context_length_exceeded", ...; empty: the type says it
  int retry_after = 0;       // seconds; 0: trying again is no use, or any time
};

/// What is wrong, or nothing.
using Refusal = std::optional<ApiError>;

/// What the engine said, as a status: invalid_argument and unsupported 400, not_found 404, busy 429 (503 while `draining`),
/// out_of_memory 507, timeout 504, cancelled 503 (only a server that stops cancels on its own), the rest 500.
ApiError from_engine(const Error& error, bool draining = false);

/// OpenAI's form: {"error": {"message", "type", "param", "code"}}, param and code null when empty.
std::string openai_error(const ApiError& error);

}  // namespace evros::server
