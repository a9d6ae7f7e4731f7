// The messages of a chat and the tokens they became. Where the new prompt continues the old text, only the new part is
// encoded, so that the session's tokens stay a prefix and its state is reused whatever the reply looked like.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/reply.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace evros::cli {

class Conversation {
 public:
  Conversation(text::ChatFormat format, text::Tokenizer tokenizer, std::optional<bool> thinking)
      : format_(std::move(format)), tokenizer_(std::move(tokenizer)), thinking_(thinking) {}

  void add_system(const std::string& content) { add("system", content); }

  /// The prompt for a user's message, which counts as said only when a reply is added. Special tokens in it are text.
  Result<std::vector<int32_t>> prompt(const std::string& user);
  /// Does the prompt end inside the model's thinking?
  bool starts_thinking() const { return prompt_text_.ends_with("<think>\n"); }
  /// The reply to the last prompt.
  Status add_reply(const engine::ReplyResult& result);
  void clear();

  /// What resume() needs besides the session's tokens: the messages as one line of JSON, then the text of those tokens (left out
  /// when the session does not hold exactly what was said).
  std::string save(std::span<const int32_t> held) const;
  /// Becomes the saved conversation, whose session holds `held`. bad_file when it is none; the conversation is then as it was.
  Status resume(std::string_view saved, std::vector<int32_t> held);

 private:
  void add(const char* role, const std::string& content);

  text::ChatFormat format_;
  text::Tokenizer tokenizer_;
  std::optional<bool> thinking_;
  std::vector<text::ChatMessage> messages_;
  std::string user_, prompt_text_, text_;  // text_ and tokens_: prompt and reply so far
  std::vector<int32_t> prompt_tokens_, tokens_;
};

}  // namespace evros::cli
