// What a caller can ask of one reply, and how a reply ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/sampler.h"

namespace evros::engine {

/// The model's thinking inside a reply, told apart by the tokens that open and close it.
struct Thinking {
  int32_t begin_id = -1, end_id = -1;  // -1: thinking is text like any other
  bool open = false;                   // the prompt ends inside thinking
  int64_t budget = -1;                 // tokens of thinking at most, the closing ones not among them; -1: any number
  /// Appended instead of drawn tokens when the budget is used up; end_id is among them.
  std::vector<int32_t> closing;
};

struct ReplyParams {
  SamplingParams sampling;
  int64_t max_tokens = -1;        // -1: until prompt and reply fill the context
  std::vector<std::string> stop;  // stop strings, not shown; looked for outside of thinking
  std::vector<int32_t> stop_ids;  // end the reply besides the model's own
  bool ignore_eos = false;        // the model's own ends do not stop it
  bool show_special = false;      // control tokens are part of the text
  Thinking thinking;
  int32_t top_logprobs = -1;  // log probabilities of drawn tokens and of that many others beside; -1: none
};
constexpr int32_t kMostTopLogprobs = 20;

/// Code::invalid_argument for what has no meaning: sampling as validate(SamplingParams) has it, ids outside the vocabulary,
/// a thinking budget that cannot be kept.
Status validate(const ReplyParams& params, int32_t vocab);

enum class Finish {
  stop_token,  // an end-of-reply id was drawn
  stop_string,
  length,  // max_tokens
  context_full,
  cancelled,
};
const char* finish_name(Finish finish);

}  // namespace evros::engine
