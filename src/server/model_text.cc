#include "server/model_text.h"

#include <algorithm>

#include "base/str.h"
#include "engine/text_kit.h"

namespace evros::server {
namespace {

constexpr std::string_view kClosing = "\n</think>\n\n";
constexpr size_t kFingerprintDigits = 16;
constexpr int32_t kMostReplies = 16;

/// Does the prompt end inside thinking? Special tokens of messages were defused, so all that stand here are the template's.
bool ends_inside_thinking(const ModelText& model, const std::vector<int32_t>& prompt) {
  for (auto at = prompt.rbegin(); at != prompt.rend(); ++at) {
    if (*at == model.think_end_id) return false;
    if (*at == model.think_id) return true;
  }
  return false;
}

/// Where the last message and the reply begin: every message of this family opens with <|im_start|>, and the next turn's prompt
/// has the same tokens up to there, whatever becomes of the reply's thinking. A message that is written anew shares those
/// before it.
std::vector<int64_t> likely_prefixes(const ModelText& model, const std::vector<int32_t>& prompt) {
  std::vector<int64_t> out;
  for (size_t i = prompt.size(); i-- > 1 && out.size() < 2;) {
    if (prompt[i] == model.im_start_id) out.push_back(static_cast<int64_t>(i));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

bool ModelText::has_name(std::string_view name) const {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<ModelText> make_model_text(engine::Engine& engine, text::Tokenizer tokenizer, text::ChatFormat chat,
                                  std::vector<std::string> names) {
  EVROS_ASSIGN(const std::string identity, engine.model_identity());
  const auto id_of = [&](std::string_view token) { return tokenizer.find(token).value_or(-1); };
  ModelText out{.tokenizer = tokenizer,
                .chat = std::move(chat),
                .defaults = engine::sampling_defaults(engine.file()),
                .names = std::move(names),
                .fingerprint = cat(identity.substr(0, kFingerprintDigits), "-", engine.info().numerics),
                .context = engine.info().plan.context,
                .vocab = engine.model().hyper.vocab,
                .most_replies = std::min(engine.info().plan.pass.sequences, kMostReplies),
                .im_start_id = id_of("<|im_start|>"),
                .think_id = id_of("<think>"),
                .think_end_id = id_of("</think>"),
                .closing = {}};
  if (out.think_id >= 0 && out.think_end_id >= 0) {
    EVROS_ASSIGN(out.closing, tokenizer.encode(kClosing));
  }
  return out;
}

Status set_prompt(const ModelText& model, std::vector<text::ChatMessage>& messages, const text::ChatOptions& options,
                  engine::Request& request) {
  text::defuse(messages, model.tokenizer);
  EVROS_ASSIGN(const std::string prompt, model.chat.render(messages, options));
  EVROS_ASSIGN(request.prompt, model.tokenizer.encode(prompt, text::SpecialTokens::parse_trusted));
  if (!model.closing.empty()) {
    engine::Thinking& thinking = request.reply.thinking;
    thinking.begin_id = model.think_id;
    thinking.end_id = model.think_end_id;
    thinking.closing = model.closing;
    thinking.open = ends_inside_thinking(model, request.prompt);
  }
  request.keep_at = likely_prefixes(model, request.prompt);
  return {};
}

}  // namespace evros::server
