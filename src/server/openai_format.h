// OpenAI's answers, written: whole bodies, and streams of server-sent events that end with "data: [DONE]". `usage` carries one
// object more than OpenAI has, `evros`: what was reused of the prompt, and how fast the reply was.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/completion.h"
#include "text/tokenizer.h"

namespace evros::server {

struct OpenAiAnswer {
  enum class Kind { chat, text } kind = Kind::chat;  // "chat.completion" or "text_completion"
  bool stream = false;
  bool include_usage = false;  // stream: usage in a last chunk
  bool logprobs = false;
  int32_t top_logprobs = 0;  // alternatives shown beside each token
  bool thinks = false;       // the prompt ends inside thinking
  int32_t choices = 1;
  std::string id = {}, model = {}, fingerprint = {};
  int64_t created = 0;  // seconds since 1970
  uint64_t seed = 0;
};

std::unique_ptr<AnswerFormat> openai_format(OpenAiAnswer answer, text::Tokenizer tokenizer);

}  // namespace evros::server
