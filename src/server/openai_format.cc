#include "server/openai_format.h"

#include <algorithm>
#include <set>

#include "base/json_writer.h"
#include "base/str.h"
#include "server/reply_text.h"
#include "text/utf8.h"

namespace evros::server {
namespace {

using Kind = OpenAiAnswer::Kind;

const char* finish_reason(engine::Finish finish) {
  switch (finish) {
    case engine::Finish::stop_token:
    case engine::Finish::stop_string:
      return "stop";
    case engine::Finish::length:
    case engine::Finish::context_full:
    case engine::Finish::cancelled:
      break;
  }
  return "length";
}

std::string event(const std::string& json) { return cat("data: ", json, "\n\n"); }

/// A list in JSON that grows: its elements so far, with commas.
struct JsonList {
  std::string elements;
  void add(const std::string& json) {
    if (!elements.empty()) elements += ',';
    elements += json;
  }
  std::string json() const { return cat('[', elements, ']'); }
};

/// Log probabilities as /v1/completions shows them: four lists of one length.
struct TextLogprobs {
  JsonList tokens, token_logprobs, top_logprobs, text_offset;
  bool empty() const { return tokens.elements.empty(); }
  size_t bytes() const {
    return tokens.elements.size() + token_logprobs.elements.size() + top_logprobs.elements.size() +
           text_offset.elements.size();
  }
};

class OpenAiFormat : public AnswerFormat {
 public:
  OpenAiFormat(OpenAiAnswer answer, text::Tokenizer tokenizer)
      : answer_(std::move(answer)),
        tokenizer_(std::move(tokenizer)),
        choices_(static_cast<size_t>(answer_.choices), Choice(answer_.thinks)) {}

  bool streamed() const override { return answer_.stream; }

  std::string started() override {
    std::string out;
    if (!answer_.stream || answer_.kind == Kind::text) return out;
    for (int32_t choice = 0; choice < answer_.choices; ++choice)
      out += chat_chunk(choice, R"({"role":"assistant","content":""})", "null", nullptr);
    return out;
  }

  std::string piece(int32_t index, const engine::Piece& piece) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    std::string text = answer_.kind == Kind::chat ? choice.text.push(piece.thinking, piece.text) : piece.text;
    if (answer_.logprobs) add_logprobs(choice, piece);
    const bool silent = text.empty() && !(answer_.logprobs && !piece.tokens.empty());
    if (answer_.stream) return silent ? "" : delta(index, choice, piece.thinking, text);
    (piece.thinking ? choice.reasoning : choice.content) += text;
    held_ += text.size();
    return {};
  }

  std::string ended(int32_t index, engine::Finish finish) override {
    const char* reason = finish_reason(finish);
    choices_[static_cast<size_t>(index)].finish = reason;
    if (!answer_.stream) return {};
    return answer_.kind == Kind::chat ? chat_chunk(index, "{}", "null", reason) : text_chunk(index, "", "null", reason);
  }

  std::string done(const Totals& totals) override {
    JsonWriter json;
    if (answer_.stream) {
      if (!answer_.include_usage) return "data: [DONE]\n\n";
      head(json, true).key("choices").begin_array().end_array();
      usage(json, totals);
      return event(json.end_object().take()) + "data: [DONE]\n\n";
    }
    head(json, false).key("choices").begin_array();
    for (int32_t choice = 0; choice < answer_.choices; ++choice) whole_choice(json, choice);
    json.end_array();
    usage(json, totals);
    return json.end_object().take();
  }

  std::string broken(const ApiError& error) override { return event(openai_error(error)); }

  size_t held_bytes() const override { return held_; }

 private:
  struct Choice {
    explicit Choice(bool thinks) : text(thinks) {}
    ReplyText text;
    std::string content, reasoning;                 // whole answers
    JsonList content_logprobs, reasoning_logprobs;  // chat: of the whole, or since the last chunk
    TextLogprobs text_logprobs;                     // likewise
    int64_t offset = 0;                             // text: characters so far
    const char* finish = "length";
  };

  JsonWriter& head(JsonWriter& json, bool chunk) const {
    const char* object = answer_.kind == Kind::text ? "text_completion"
                         : chunk                    ? "chat.completion.chunk"
                                                    : "chat.completion";
    return json.begin_object()
        .key("id")
        .value(answer_.id)
        .key("object")
        .value(object)
        .key("created")
        .value(answer_.created)
        .key("model")
        .value(answer_.model)
        .key("system_fingerprint")
        .value(answer_.fingerprint);
  }

  static void finish_value(JsonWriter& json, const char* finish) {
    json.key("finish_reason");
    finish == nullptr ? json.null() : json.value(finish);
  }

  std::string chunk_end(JsonWriter& json) const {
    json.end_object().end_array();
    if (answer_.include_usage) json.key("usage").null();
    return event(json.end_object().take());
  }

  std::string chat_chunk(int32_t choice, const std::string& delta, const std::string& logprobs,
                         const char* finish) const {
    JsonWriter json;
    head(json, true).key("choices").begin_array().begin_object().key("index").value(choice);
    json.key("delta").raw(delta).key("logprobs").raw(logprobs);
    finish_value(json, finish);
    return chunk_end(json);
  }

  std::string text_chunk(int32_t choice, const std::string& text, const std::string& logprobs,
                         const char* finish) const {
    JsonWriter json;
    head(json, true).key("choices").begin_array().begin_object().key("index").value(choice);
    json.key("text").value(text).key("logprobs").raw(logprobs);
    finish_value(json, finish);
    return chunk_end(json);
  }

  std::string delta(int32_t index, Choice& choice, bool thinking, const std::string& text) {
    const std::string logprobs = take_logprobs(choice);
    if (answer_.kind == Kind::text) return text_chunk(index, text, logprobs, nullptr);
    const char* field = thinking ? "reasoning_content" : "content";
    return chat_chunk(index, cat("{\"", field, "\":", json_quote(text), "}"), logprobs, nullptr);
  }

  void whole_choice(JsonWriter& json, int32_t index) {
    Choice& choice = choices_[static_cast<size_t>(index)];
    json.begin_object().key("index").value(index);
    if (answer_.kind == Kind::text) {
      json.key("text").value(choice.content);
    } else {
      json.key("message").begin_object().key("role").value("assistant").key("content").value(choice.content);
      if (!choice.reasoning.empty()) json.key("reasoning_content").value(choice.reasoning);
      json.key("refusal").null().end_object();
    }
    json.key("logprobs").raw(take_logprobs(choice));
    finish_value(json, choice.finish);
    json.end_object();
  }

  void usage(JsonWriter& json, const Totals& t) const {
    json.key("usage").begin_object();
    json.key("prompt_tokens").value(t.prompt_tokens).key("completion_tokens").value(t.reply_tokens);
    json.key("total_tokens").value(t.prompt_tokens + t.reply_tokens);
    json.key("prompt_tokens_details").begin_object().key("cached_tokens").value(t.reused_tokens).end_object();
    json.key("completion_tokens_details").begin_object().key("reasoning_tokens").value(t.thinking_tokens).end_object();
    json.key("evros").begin_object();
    json.key("reused_tokens").value(t.reused_tokens).key("new_tokens").value(t.prompt_tokens - t.reused_tokens);
    json.key("diverged_at");
    t.diverged_at < 0 ? json.null() : json.value(t.diverged_at);
    json.key("ttft_ms").value(static_cast<double>(t.first_token_ns / 1000) / 1000);
    json.key("tokens_per_second").value(t.tokens_per_second());
    json.key("seed").value(answer_.seed).end_object().end_object();
  }

  /// A token as text: its characters, with U+FFFD for parts of characters.
  std::string shown(int32_t id) const {
    std::string out;
    text::Utf8Decoder decoder;
    decoder.push(tokenizer_.token_bytes(id), out);
    decoder.flush(out);
    return out;
  }

  /// The same as /v1/completions has it, where tokens are keys and must be told apart: "bytes:\xe2\x80".
  std::string shown_in_text(int32_t id) const {
    const std::string_view bytes = tokenizer_.token_bytes(id);
    if (!text::find_invalid_utf8(bytes)) return std::string(bytes);
    constexpr char kHex[] = "0123456789abcdef";
    std::string out = "bytes:";
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      out += cat("\\x", kHex[byte >> 4], kHex[byte & 15]);
    }
    return out;
  }

  void token_fields(JsonWriter& json, const engine::TokenLogprob& token) const {
    json.key("token").value(shown(token.id)).key("logprob").value(token.logprob).key("bytes").begin_array();
    for (const char c : tokenizer_.token_bytes(token.id)) json.value(static_cast<int>(static_cast<unsigned char>(c)));
    json.end_array();
  }

  std::string chat_logprob(const engine::ShownToken& token) const {
    JsonWriter json;
    json.begin_object();
    token_fields(json, token.drawn);
    json.key("top_logprobs").begin_array();
    for (const engine::TokenLogprob& other : token.top) {
      json.begin_object();
      token_fields(json, other);
      json.end_object();
    }
    return json.end_array().end_object().take();
  }

  /// The alternatives as one object; with the drawn token, which may not be among them.
  std::string text_top(const engine::ShownToken& token) const {
    JsonWriter json;
    std::set<std::string> seen;  // two ids may have the same text: the likelier one stays
    json.begin_object();
    const auto add = [&](const engine::TokenLogprob& one) {
      std::string name = shown_in_text(one.id);
      if (seen.insert(name).second) json.key(name).value(one.logprob);
    };
    for (const engine::TokenLogprob& other : token.top) add(other);
    add(token.drawn);
    return json.end_object().take();
  }

  void add_text_logprob(Choice& choice, const engine::ShownToken& token) {
    TextLogprobs& lists = choice.text_logprobs;
    lists.tokens.add(json_quote(shown_in_text(token.drawn.id)));
    JsonWriter logprob;
    lists.token_logprobs.add(logprob.value(token.drawn.logprob).take());
    lists.top_logprobs.add(answer_.top_logprobs == 0 ? "null" : text_top(token));
    const std::string_view bytes = tokenizer_.token_bytes(token.drawn.id);
    const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; };
    const bool inside = !bytes.empty() && continues(bytes[0]) && choice.offset > 0;  // of the character before
    lists.text_offset.add(cat(choice.offset - (inside ? 1 : 0)));
    if (tokenizer_.is_control(token.drawn.id)) return;  // has no text
    choice.offset += std::count_if(bytes.begin(), bytes.end(), [&](char c) { return !continues(c); });
  }

  void add_logprobs(Choice& choice, const engine::Piece& piece) {
    const size_t before = logprob_bytes(choice);
    JsonList& list = piece.thinking ? choice.reasoning_logprobs : choice.content_logprobs;
    for (const engine::ShownToken& token : piece.tokens) {
      answer_.kind == Kind::text ? add_text_logprob(choice, token) : list.add(chat_logprob(token));
    }
    if (!answer_.stream) held_ += logprob_bytes(choice) - before;
  }

  static size_t logprob_bytes(const Choice& choice) {
    return choice.content_logprobs.elements.size() + choice.reasoning_logprobs.elements.size() +
           choice.text_logprobs.bytes();
  }

  /// What was gathered, as the value of "logprobs".
  std::string take_logprobs(Choice& choice) const {
    if (!answer_.logprobs) return "null";
    if (answer_.kind == Kind::text) {
      const TextLogprobs lists = std::exchange(choice.text_logprobs, {});
      return cat(R"({"tokens":)", lists.tokens.json(), R"(,"token_logprobs":)", lists.token_logprobs.json(),
                 R"(,"top_logprobs":)", answer_.top_logprobs == 0 ? "null" : lists.top_logprobs.json(),
                 R"(,"text_offset":)", lists.text_offset.json(), "}");
    }
    const JsonList content = std::exchange(choice.content_logprobs, {});
    const JsonList reasoning = std::exchange(choice.reasoning_logprobs, {});
    return cat(R"({"content":)", content.json(), R"(,"refusal":null)",
               reasoning.elements.empty() ? "" : cat(R"(,"reasoning_content":)", reasoning.json()), "}");
  }

  OpenAiAnswer answer_;
  text::Tokenizer tokenizer_;
  std::vector<Choice> choices_;
  size_t held_ = 0;
};

}  // namespace

std::unique_ptr<AnswerFormat> openai_format(OpenAiAnswer answer, text::Tokenizer tokenizer) {
  return std::make_unique<OpenAiFormat>(std::move(answer), std::move(tokenizer));
}

}  // namespace evros::server
