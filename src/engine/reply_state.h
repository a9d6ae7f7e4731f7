// What one reply keeps between tokens: a fold over its published tokens (docs/state.md "Request state"), from logits to the
// text that may be shown.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/logprobs.h"
#include "engine/reply_params.h"
#include "engine/sampler.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace evros::engine {

/// A token whose text is shown, or that has none.
struct ShownToken {
  TokenLogprob drawn;             // its logprob is there with ReplyParams::top_logprobs >= 0 only
  std::vector<TokenLogprob> top;  // the most probable ones, best first
};

/// What became settled: text to show, whole characters, and the tokens that it ends. Text held back because it may begin a
/// stop string comes later, with its tokens; neither comes if it was one.
struct Piece {
  bool thinking = false;  // inside the model's thinking; the tags themselves are in no piece's text
  std::string text;
  std::vector<ShownToken> tokens;
};

/// Not thread-safe.
class ReplyState {
 public:
  /// `params` were validated; they outlive it. The prompt and all tokens drawn are never more
  /// than `context`: a history that fills it has no token drawn after it.
  ReplyState(const ReplyParams& params, const text::Tokenizer& tokenizer, std::span<const int32_t> prompt,
             int64_t context, uint32_t choice);

  /// Draws the token that follows `frontier` tokens, from the logits of their published image. How the reply ends, when it ends
  /// here; otherwise pending() is the token to append.
  std::optional<Finish> draw(std::span<const float> logits, int64_t frontier);
  int32_t pending() const { return tokens_.back(); }
  /// The pending token became history.
  void published();
  /// The reply ended for a reason from outside: what was held back is settled.
  void flush();

  /// What became settled since the last call, in order.
  std::vector<Piece> take();

  const std::vector<int32_t>& tokens() const { return tokens_; }  // drawn, the stop token not among them
  int64_t thinking_tokens() const { return thinking_tokens_; }    // of them, the one that closes thinking included
  int32_t stop() const { return stops_.match(); }                 // index of the stop string that was found; -1

 private:
  struct HeldToken {
    size_t begin, end;  // of its text in the answer so far
    ShownToken token;
  };

  int32_t choose(std::span<const float> logits, int64_t frontier);
  bool ends(int32_t id) const;
  void show(int32_t id, ShownToken token);
  void show_thinking(int32_t id, ShownToken token);
  void show_answer(int32_t id, ShownToken token);
  void settle(std::string text);
  Piece& piece(bool thinking);

  const ReplyParams& params_;
  text::Tokenizer tokenizer_;
  SamplingParams sampling_;
  int64_t context_;
  TokenCounts counts_;
  text::Detokenizer detokenizer_;
  text::StopMatcher stops_;
  std::vector<int32_t> tokens_;
  bool thinking_;
  int64_t thinking_tokens_ = 0;
  size_t closing_ = 0;             // the next token of Thinking::closing, while they are put in
  size_t made_ = 0, settled_ = 0;  // bytes of the answer: detokenized, and released
  std::vector<HeldToken> held_;    // of the answer, not settled yet
  std::vector<Piece> pieces_;
};

}  // namespace evros::engine
