// Conversations to prompt text, through the chat template that the model brings, or the built-in one of this family.
//
//   EVROS_ASSIGN(auto chat, ChatFormat::create(spec.chat_template));
//   EVROS_ASSIGN(std::string prompt, chat.render(messages, {.enable_thinking = false}));
//   EVROS_ASSIGN(auto ids, tokenizer.encode(prompt));
//
// For text from people that are not trusted with special tokens: defuse(messages, tokenizer) before, and encode with
// SpecialTokens::parse_trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja.h"
#include "text/tokenizer.h"

namespace evros::text {

struct ToolCall {
  std::string id;  // of the caller's choosing; may be empty
  std::string name;
  jinja::Value arguments;  // a mapping
};

struct ChatMessage {
  std::string role;      // "system", "user", "assistant", "tool"; templates refuse others
  jinja::Value content;  // a string; a list of {"type": "text", "text": ...}; or none
  std::optional<std::string> reasoning_content;
  std::vector<ToolCall> tool_calls;
  std::string name;          // empty: not given
  std::string tool_call_id;  // of a tool's answer; empty: not given
};

/// What is not given is undefined in the template, which has its own defaults.
struct ChatOptions {
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking = {}, preserve_thinking = {};
  std::optional<std::string> reasoning_effort = {};  // "low", "medium", "xhigh" in this family
  std::vector<jinja::Value> tools = {};              // OpenAI form: {"type": "function", "function": {...}}
  jinja::Limits limits = {};
};

/// Immutable; every method may be called from any thread.
class ChatFormat {
 public:
  /// `source`: Jinja; empty: the built-in template. The error names the line.
  static Result<ChatFormat> create(std::string_view source);

  /// The prompt. invalid_argument with the template's own words when it refuses the conversation.
  Result<std::string> render(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) const;

  bool is_built_in() const { return built_in_; }

 private:
  jinja::Template template_;
  bool built_in_ = false;
};

/// The template for models of this family whose files have none.
std::string_view built_in_chat_template();

/// Messages in OpenAI's form (a JSON array; role, content, reasoning_content or reasoning, tool_calls, name, tool_call_id).
/// Arguments of a tool call may be an object or a string that holds one. Refuses what it does not know by naming the place:
/// "messages[2].content[0].type is ...".
Result<std::vector<ChatMessage>> parse_messages(std::string_view json);

/// Tools in OpenAI's form: a JSON array of objects with a type and a function.
Result<std::vector<jinja::Value>> parse_tools(std::string_view json);

/// Applies Tokenizer::defuse to every text that people or tools supplied: contents, reasoning, names and arguments.
void defuse(std::vector<ChatMessage>& messages, const Tokenizer& tokenizer);

}  // namespace evros::text
