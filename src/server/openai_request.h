// OpenAI's requests, read: POST /v1/chat/completions and /v1/completions. Which fields there are, with their ranges, stands in
// docs/api.md; unknown ones are ignored, known ones that cannot be honoured are refused by name.
#pragma once

#include <string_view>

#include "server/api_error.h"
#include "server/completion.h"
#include "server/model_text.h"

namespace evros::server {

/// Reads, renders and encodes; takes as long as the text is long.
Refusal read_chat(std::string_view body, const ModelText& model, Completion& out);
Refusal read_completions(std::string_view body, const ModelText& model, Completion& out);

/// POST /tokenize ({"prompt"}, {"content"} or {"messages"}) and /detokenize ({"tokens"}): the answer's body.
Refusal tokenize(std::string_view body, const ModelText& model, std::string& out);
Refusal detokenize(std::string_view body, const ModelText& model, std::string& out);

}  // namespace evros::server
