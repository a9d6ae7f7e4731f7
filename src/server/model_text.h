// The text side of the model that is served: its names, its chat format, and how conversations become engine requests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/reply_params.h"
#include "engine/scheduler.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace evros::server {

/// Immutable; any thread.
struct ModelText {
  text::Tokenizer tokenizer = {};
  text::ChatFormat chat = {};
  engine::SamplingParams defaults = {};  // the model's own
  std::vector<std::string> names = {};   // accepted as "model"; the first is what answers carry
  std::string fingerprint = {};          // first 16 digits of the model identity, "-", numerics id
  int64_t context = 0;                   // tokens
  int32_t vocab = 0;                     // rows of the model
  int32_t most_replies = 1;              // of one prompt: what the engine computes at once, 16 at most
  int32_t im_start_id = -1, think_id = -1, think_end_id = -1;  // -1: the tokenizer has none
  std::vector<int32_t> closing = {};                           // "\n</think>\n\n"; empty without thinking tokens

  const std::string& name() const { return names.front(); }
  bool has_name(std::string_view name) const;
};

/// What the engine's model file says; `names` as in ModelText, at least one.
Result<ModelText> make_model_text(engine::Engine& engine, text::Tokenizer tokenizer, text::ChatFormat chat,
                                  std::vector<std::string> names);

/// The conversation as prompt of `request`: rendered, with the messages' own special tokens as text, and encoded. Sets prompt,
/// reply.thinking (but for its budget) and keep_at. The messages are not used up but defused.
Status set_prompt(const ModelText& model, std::vector<text::ChatMessage>& messages, const text::ChatOptions& options,
                  engine::Request& request);

}  // namespace evros::server
