#include "engine/reply_params.h"

#include <algorithm>

#include "base/str.h"

namespace evros::engine {
namespace {

bool closes(const Thinking& thinking) {
  return thinking.end_id >= 0 &&
         std::find(thinking.closing.begin(), thinking.closing.end(), thinking.end_id) != thinking.closing.end();
}

}  // namespace

Status validate(const ReplyParams& params, int32_t vocab) {
  EVROS_TRY(validate(params.sampling, vocab));
  for (const int32_t id : params.stop_ids) {
    if (id < 0 || id >= vocab) {
      return Error{Code::invalid_argument,
                   cat("stop_ids names token ", id, "; the vocabulary has ids 0 to ", vocab - 1)};
    }
  }
  const Thinking& thinking = params.thinking;
  if (thinking.budget < -1 || (thinking.budget >= 0 && !closes(thinking))) {
    return Error{Code::invalid_argument, cat("the thinking budget is ", thinking.budget,
                                             "; it must be 0 or more, for a model that has a token to close thinking")};
  }
  if (params.top_logprobs < -1 || params.top_logprobs > kMostTopLogprobs) {
    return Error{Code::invalid_argument,
                 cat("top_logprobs is ", params.top_logprobs, "; it must be 0 to ", kMostTopLogprobs)};
  }
  return {};
}

const char* finish_name(Finish finish) {
  switch (finish) {
    case Finish::stop_token:
      return "stop";
    case Finish::stop_string:
      return "stop string";
    case Finish::length:
      return "length";
    case Finish::context_full:
      return "context full";
    case Finish::cancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace evros::engine
