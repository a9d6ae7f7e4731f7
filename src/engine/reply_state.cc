#include "engine/reply_state.h"

#include <algorithm>

namespace evros::engine {

ReplyState::ReplyState(const ReplyParams& params, const text::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                       int64_t context, uint32_t choice)
    : params_(params),
      tokenizer_(tokenizer),
      sampling_(params.sampling),
      context_(context),
      detokenizer_(tokenizer, !params.show_special),
      stops_(params.stop),
      thinking_(params.thinking.open && params.thinking.end_id >= 0) {
  sampling_.choice = choice;
  if (sampling_.repetition_penalty == 1) return;  // nobody else asks what the prompt held, and prompts may be long
  for (const int32_t id : prompt) ++counts_.seen[id];
}

std::optional<Finish> ReplyState::draw(std::span<const float> logits, int64_t frontier) {
  const auto full = [&] { return static_cast<int64_t>(tokens_.size()) == params_.max_tokens; };
  if (full()) return Finish::length;  // of no tokens at all
  if (frontier >= context_) return Finish::context_full;
  const int32_t id = choose(logits, frontier);
  if (ends(id)) {
    flush();
    return Finish::stop_token;
  }
  ShownToken token{{id, 0}, {}};
  if (params_.top_logprobs >= 0) {
    const Logprobs logprobs(logits);
    token = {logprobs.of(id), logprobs.top(params_.top_logprobs, tokenizer_.vocab_size())};
  }
  tokens_.push_back(id);
  show(id, std::move(token));
  if (stops_.matched()) return Finish::stop_string;
  if (frontier + 1 < context_ && !full()) return std::nullopt;
  flush();
  return full() ? Finish::length : Finish::context_full;
}

void ReplyState::published() {
  if (sampling_.repetition_penalty != 1) ++counts_.seen[pending()];
  ++counts_.generated[pending()];
}

// The next token: drawn, or the next one that closes thinking whose budget is used up.
int32_t ReplyState::choose(std::span<const float> logits, int64_t frontier) {
  const Thinking& thinking = params_.thinking;
  const bool used_up = thinking_ && thinking.budget >= 0 && thinking_tokens_ >= thinking.budget;
  if (closing_ == 0 && !used_up) return sample(logits, tokenizer_.vocab_size(), sampling_, counts_, frontier);
  const int32_t id = thinking.closing[closing_];
  closing_ = (closing_ + 1) % thinking.closing.size();
  return id;
}

bool ReplyState::ends(int32_t id) const {
  if (!params_.ignore_eos && tokenizer_.is_eos(id)) return true;
  return std::find(params_.stop_ids.begin(), params_.stop_ids.end(), id) != params_.stop_ids.end();
}

void ReplyState::show(int32_t id, ShownToken token) {
  if (thinking_) return show_thinking(id, std::move(token));
  if (id != params_.thinking.begin_id) return show_answer(id, std::move(token));
  settle(stops_.push(detokenizer_.flush()));  // the tag itself is no text
  thinking_ = true;
  ++thinking_tokens_;
  piece(true).tokens.push_back(std::move(token));
}

void ReplyState::show_thinking(int32_t id, ShownToken token) {
  ++thinking_tokens_;
  Piece& shown = piece(true);
  shown.tokens.push_back(std::move(token));
  if (id == params_.thinking.end_id) {
    shown.text += detokenizer_.flush();
    thinking_ = false;
    return;
  }
  const Result<std::string> text = detokenizer_.push(id);
  CHECK(text.ok());  // sample() draws ids of the tokenizer
  shown.text += *text;
}

void ReplyState::show_answer(int32_t id, ShownToken token) {
  const Result<std::string> text = detokenizer_.push(id);
  CHECK(text.ok());
  held_.push_back({made_, made_ + text->size(), std::move(token)});
  made_ += text->size();
  settle(stops_.push(*text));
}

// `text` of the answer may be shown now, and with it the tokens whose text is out. The text of a stop string never is, and
// its tokens are dropped, except one that also had text before it.
void ReplyState::settle(std::string text) {
  settled_ += text.size();
  const auto out = [&](const HeldToken& held) {
    return held.end <= settled_ || (stops_.matched() && held.begin < settled_);
  };
  const auto kept = std::find_if_not(held_.begin(), held_.end(), out);
  if (!text.empty() || kept != held_.begin()) {
    Piece& shown = piece(false);
    shown.text += text;
    for (auto held = held_.begin(); held != kept; ++held) shown.tokens.push_back(std::move(held->token));
  }
  held_.erase(held_.begin(), stops_.matched() ? held_.end() : kept);
}

void ReplyState::flush() {
  const std::string rest = detokenizer_.flush();
  if (thinking_) {
    if (!rest.empty()) piece(true).text += rest;
    return;
  }
  made_ += rest.size();
  std::string text = stops_.push(rest);
  settle(text + stops_.flush());
}

std::vector<Piece> ReplyState::take() { return std::exchange(pieces_, {}); }

Piece& ReplyState::piece(bool thinking) {
  if (pieces_.empty() || pieces_.back().thinking != thinking) pieces_.push_back({thinking, {}, {}});
  return pieces_.back();
}

}  // namespace evros::engine
