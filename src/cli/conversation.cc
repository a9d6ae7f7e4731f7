#include "cli/conversation.h"

#include <algorithm>

#include "base/json_writer.h"

namespace evros::cli {
namespace {

constexpr std::string_view kThinkEnd = "</think>";

}  // namespace

void Conversation::add(const char* role, const std::string& content) {
  text::ChatMessage message;
  message.role = role;
  message.content = content;
  messages_.push_back(std::move(message));
}

Result<std::vector<int32_t>> Conversation::prompt(const std::string& user) {
  const size_t said = messages_.size();
  user_ = user;
  add("user", user);
  std::vector<text::ChatMessage> trusted = messages_;
  messages_.resize(said);
  text::defuse(trusted, tokenizer_);
  text::ChatOptions options;
  options.enable_thinking = thinking_;
  EVROS_ASSIGN(prompt_text_, format_.render(trusted, options));
  const bool continues = !text_.empty() && prompt_text_.starts_with(text_);
  prompt_tokens_ = continues ? tokens_ : std::vector<int32_t>{};
  const std::string_view fresh = std::string_view(prompt_text_).substr(continues ? text_.size() : 0);
  EVROS_ASSIGN(const std::vector<int32_t> ids, tokenizer_.encode(fresh, text::SpecialTokens::parse_trusted));
  prompt_tokens_.insert(prompt_tokens_.end(), ids.begin(), ids.end());
  return prompt_tokens_;
}

Status Conversation::add_reply(const engine::ReplyResult& result) {
  add("user", user_);
  const bool thinking = starts_thinking();
  EVROS_ASSIGN(const std::string spoken, tokenizer_.decode(result.tokens));
  text_ = prompt_text_ + spoken;
  tokens_ = prompt_tokens_;
  tokens_.insert(tokens_.end(), result.tokens.begin(), result.tokens.end());
  std::string content = result.text;
  std::optional<std::string> reasoning;
  if (thinking) {
    const size_t end = content.find(kThinkEnd);
    reasoning = content.substr(0, end);
    content = end == std::string::npos ? "" : content.substr(end + kThinkEnd.size());
  }
  add("assistant", content);
  messages_.back().reasoning_content = std::move(reasoning);
  return {};
}

void Conversation::clear() {
  const bool system = !messages_.empty() && messages_[0].role == "system";
  messages_.resize(system ? 1 : 0);
  text_.clear();
  tokens_.clear();
}

std::string Conversation::save(std::span<const int32_t> held) const {
  JsonWriter json;
  json.begin_array();
  for (const text::ChatMessage& message : messages_) {
    json.begin_object().key("role").value(message.role).key("content").value(message.content.as_string());
    if (message.reasoning_content) json.key("reasoning_content").value(*message.reasoning_content);
    json.end_object();
  }
  json.end_array();
  const bool exact = std::equal(tokens_.begin(), tokens_.end(), held.begin(), held.end());
  return json.take() + "\n" + (exact ? text_ : "");
}

Status Conversation::resume(std::string_view saved, std::vector<int32_t> held) {
  const size_t line = saved.find('\n');
  EVROS_ASSIGN(std::vector<text::ChatMessage> messages, text::parse_messages(saved.substr(0, line)));
  for (const text::ChatMessage& message : messages) {
    if (!message.content.is_string()) return Error{Code::bad_file, "a message of the saved conversation is no text"};
  }
  messages_ = std::move(messages);
  text_ = line == std::string_view::npos ? "" : saved.substr(line + 1);
  tokens_ = std::move(held);
  return {};
}

}  // namespace evros::cli
