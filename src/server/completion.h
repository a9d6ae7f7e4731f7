// What every protocol becomes: prompts with settings for the engine, and a format that shows what comes back. Protocols stand at
// the edge (openai_*), the life of a request is the same for all (call.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/reply_params.h"
#include "engine/reply_state.h"
#include "engine/scheduler.h"
#include "server/api_error.h"

namespace evros::server {

/// Numbers of a whole call, all prompts and replies together.
struct Totals {
  int64_t prompt_tokens = 0, reused_tokens = 0;
  int64_t diverged_at = -1;                       // of the first prompt that has one (engine::Started)
  int64_t reply_tokens = 0, thinking_tokens = 0;  // drawn; thinking ones among them
  uint64_t first_token_ns = 0;                    // from the request's arrival to the first token
  uint64_t reply_ns = 0;                          // from the computed prompt to the end

  double tokens_per_second() const {
    return reply_ns == 0 ? 0 : static_cast<double>(reply_tokens) * 1e9 / static_cast<double>(reply_ns);
  }
};

/// How one call's answer is written. The functions that tell what happened return bytes to be sent at once, which are none
/// when the answer is not streamed: then done() returns the whole body. Choices are numbered over all prompts: prompt * n +
/// reply. Not thread-safe.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  virtual bool streamed() const = 0;
  virtual std::string started() = 0;  // the first prompt is computed
  virtual std::string piece(int32_t choice, const engine::Piece& piece) = 0;
  virtual std::string ended(int32_t choice, engine::Finish finish) = 0;
  virtual std::string done(const Totals& totals) = 0;
  /// The last event of a stream that failed.
  virtual std::string broken(const ApiError& error) = 0;
  /// Bytes that wait inside for done().
  virtual size_t held_bytes() const = 0;
};

struct Completion {
  std::vector<engine::Request> requests;  // one a prompt, all with the same settings; deadlines not set
  std::unique_ptr<AnswerFormat> format;
  std::string id;               // that the answer carries
  double timeout_seconds = -1;  // asked for; negative: not
};

}  // namespace evros::server
