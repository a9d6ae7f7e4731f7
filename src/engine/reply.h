// One reply: brings a session to the prompt, then draws tokens until something stops it. All request state (counts,
// stop matcher, detokenizer) folds over published tokens only; a token is shown when it was drawn from a published
// image and becomes history when its own chunk publishes (docs/state.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/reply_params.h"
#include "text/tokenizer.h"

namespace evros::engine {

struct ReplyResult {
  Finish finish;
  std::vector<int32_t> tokens;  // drawn, the stop token not among them
  std::string text;
  int64_t prompt_tokens = 0, reused_tokens = 0;
  uint64_t prefill_ns = 0, decode_ns = 0;
};

/// Shown text as it becomes settled; whole UTF-8 characters.
using OnText = std::function<void(std::string_view)>;

/// Answers `prompt` (at least one token). First the prompt becomes the session's history, in one step: what the session holds
/// of it is kept, the rest is computed (Engine::rewrite). After a reply the session holds prompt and reply, but for the stop
/// token, and for the last token of a reply that ended by length, a stop string or a full context. Cancelled is a result, not an error: before the first token the session
/// is as it was, later it holds the prompt and what was published of the reply.
Result<ReplyResult> reply(Engine& engine, io::Io& clock, SessionId session, std::span<const int32_t> prompt,
                          const ReplyParams& params, const text::Tokenizer& tokenizer, const OnText& on_text,
                          const std::atomic<bool>* cancel = nullptr);

}  // namespace evros::engine
