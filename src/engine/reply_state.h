// What one reply keeps between tokens: a fold over its published tokens (docs/state.md "Request state"), from logits to the
// text that may be shown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/reply_params.h"
#include "engine/sampler.h"
#include "text/tokenizer.h"

namespace evros::engine {

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;  // natural; of the model's own distribution, before any setting
};

/// A token whose text is shown, or has none.
struct ShownToken {
  TokenLogprob drawn;             // logprob only with ReplyParams::top_logprobs >= 0
  std::vector<TokenLogprob> top;  // the most probable ones, best first
};

/// What a step settled: text to show, whole characters, and the tokens that it ends. Text held back because it may begin a
/// stop string comes later, with its tokens; neither comes if it was one.
struct Piece {
  bool thinking = false;  // inside the model's thinking; the tags themselves are in no piece's text
  std::string text;
  std::vector<ShownToken> tokens;
  bool empty() const { return text.empty() && tokens.empty(); }
};

/// Not thread-safe.
class ReplyState {
 public:
  /// `params` were validated and outlive it.
  ReplyState(const ReplyParams& params, const text::Tokenizer& tokenizer, std::span<const int32_t> prompt);
  ~ReplyState();
  ReplyState(ReplyState&&) noexcept;

  /// Draws the token at `position` from the logits of a published image. The finish, when the reply ends here; otherwise
  /// pending() is the token to append, which then is to be published().
  std::optional<Finish> draw(std::span<const float> logits, int64_t position);
  int32_t pending() const;
  /// The pending token is history.
  void published();

  /// What became settled since the last call, thinking and answer apart.
  std::vector<Piece> take();
  /// The reply has ended otherwise (length, context): what was held back is settled.
  void flush();

  int64_t tokens() const;
  int64_t thinking_tokens() const;
  int32_t stop() const;  // index of the stop string that was found; -1

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace evros::engine
