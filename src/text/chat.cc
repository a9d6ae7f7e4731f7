#include "text/chat.h"

#include "base/str.h"
#include "text/vocabulary.h"

namespace evros::text {
namespace {

using jinja::Value;
using Entries = std::vector<std::pair<std::string, Value>>;

/// A message as templates see it: what is not given is not there.
Value to_value(const ChatMessage& message) {
  Entries out{{"role", message.role}, {"content", message.content}};
  if (message.reasoning_content) out.emplace_back("reasoning_content", *message.reasoning_content);
  if (!message.name.empty()) out.emplace_back("name", message.name);
  if (!message.tool_call_id.empty()) out.emplace_back("tool_call_id", message.tool_call_id);
  std::vector<Value> calls;
  for (const ToolCall& call : message.tool_calls) {
    Entries entries;
    if (!call.id.empty()) entries.emplace_back("id", call.id);
    entries.emplace_back("type", "function");
    entries.emplace_back("function", Value::map({{"name", call.name}, {"arguments", call.arguments}}));
    calls.push_back(Value::map(std::move(entries)));
  }
  if (!calls.empty()) out.emplace_back("tool_calls", Value::list(std::move(calls)));
  return Value::map(std::move(out));
}

}  // namespace

Result<ChatFormat> ChatFormat::create(std::string_view source) {
  ChatFormat out;
  out.built_in_ = source.empty();
  EVROS_ASSIGN(out.template_, jinja::Template::parse(source.empty() ? built_in_chat_template() : source));
  return out;
}

Result<std::string> ChatFormat::render(const std::vector<ChatMessage>& messages, const ChatOptions& options) const {
  try {
    jinja::Context context;
    std::vector<Value> list;
    for (const ChatMessage& message : messages) list.push_back(to_value(message));
    context.emplace_back("messages", Value::list(std::move(list)));
    context.emplace_back("add_generation_prompt", options.add_generation_prompt);
    // Templates ask `if tools`: the reference library passes None when there are none.
    context.emplace_back("tools", options.tools.empty() ? Value() : Value::list(options.tools));
    if (options.enable_thinking) context.emplace_back("enable_thinking", *options.enable_thinking);
    if (options.preserve_thinking) context.emplace_back("preserve_thinking", *options.preserve_thinking);
    if (options.reasoning_effort) context.emplace_back("reasoning_effort", *options.reasoning_effort);
    return template_.render(context, options.limits);
  } catch (const jinja::Failure& failure) {  // a value nested too deep
    return Error{failure.code, failure.message};
  }
}

namespace {

/// Messages being parsed: every error says where.
Error bad(const std::string& where, std::string_view what) { return {Code::invalid_argument, cat(where, " ", what)}; }

std::string shown(const Value& value) {
  if (value.is_string()) return detail::quote(value.as_string());
  return cat("of type ", value.type_name());
}

/// The member, or null when it is absent or none.
const Value* member(const Value& object, const std::string& key) {
  const Value* value = object.as_map().find(key);
  return value && !value->is_none() ? value : nullptr;
}

Result<std::string> string_member(const Value& object, const std::string& key, const std::string& where) {
  const Value* value = member(object, key);
  if (!value) return std::string();
  if (!value->is_string()) return bad(cat(where, ".", key), cat("is ", shown(*value), "; wanted is a string"));
  return value->as_string();
}

Status check_parts(const Value& content, const std::string& where) {
  for (size_t i = 0; i < content.items().size(); ++i) {
    const Value& part = content.items()[i];
    const std::string here = cat(where, ".content[", i, "]");
    if (!part.is_map()) return bad(here, cat("is ", shown(part), "; wanted is an object"));
    EVROS_ASSIGN(const std::string type, string_member(part, "type", here));
    if (type != "text" && type != "input_text" && type != "output_text") {
      return Error{Code::unsupported, cat(here, ".type is ", detail::quote(type), "; supported is \"text\"")};
    }
    const Value* text = member(part, "text");
    if (!text || !text->is_string()) return bad(cat(here, ".text"), "is missing or no string");
  }
  return {};
}

Result<ToolCall> parse_call(const Value& call, const std::string& where) {
  if (!call.is_map()) return bad(where, cat("is ", shown(call), "; wanted is an object"));
  ToolCall out;
  EVROS_ASSIGN(out.id, string_member(call, "id", where));
  EVROS_ASSIGN(const std::string type, string_member(call, "type", where));
  if (!type.empty() && type != "function")
    return bad(cat(where, ".type"), cat("is ", detail::quote(type), "; wanted is \"function\""));
  const Value* function = member(call, "function");
  const Value& body = function ? *function : call;  // some writers leave the wrapper out
  if (!body.is_map()) return bad(cat(where, ".function"), cat("is ", shown(body), "; wanted is an object"));
  EVROS_ASSIGN(out.name, string_member(body, "name", where));
  if (out.name.empty()) return bad(cat(where, ".function.name"), "is missing");
  const Value* arguments = member(body, "arguments");
  out.arguments = arguments ? *arguments : Value::map({});
  if (out.arguments.is_string()) {
    auto parsed = jinja::value_from_json(out.arguments.as_string().empty() ? "{}" : out.arguments.as_string());
    if (!parsed.ok())
      return bad(cat(where, ".function.arguments"), cat("is a string that is ", parsed.error().message));
    out.arguments = std::move(parsed).value();
  }
  if (!out.arguments.is_map())
    return bad(cat(where, ".function.arguments"), cat("is ", shown(out.arguments), "; wanted is an object"));
  return out;
}

Result<ChatMessage> parse_message(const Value& message, const std::string& where) {
  if (!message.is_map()) return bad(where, cat("is ", shown(message), "; wanted is an object"));
  ChatMessage out;
  EVROS_ASSIGN(out.role, string_member(message, "role", where));
  if (out.role == "developer") out.role = "system";  // OpenAI's newer name for it
  if (out.role != "system" && out.role != "user" && out.role != "assistant" && out.role != "tool") {
    return bad(cat(where, ".role"),
               cat("is ", detail::quote(out.role), "; known are system, developer, user, assistant and tool"));
  }
  if (const Value* content = member(message, "content")) {
    if (content->is_list()) {
      EVROS_TRY(check_parts(*content, where));
    } else if (!content->is_string()) {
      return bad(cat(where, ".content"), cat("is ", shown(*content), "; wanted is a string or a list of parts"));
    }
    out.content = *content;
  } else if (out.role == "user" || out.role == "system") {
    return bad(cat(where, ".content"), "is missing");
  } else {
    out.content = Value("");
  }
  for (const char* key : {"reasoning", "reasoning_content"}) {
    if (!member(message, key)) continue;
    EVROS_ASSIGN(out.reasoning_content, string_member(message, key, where));
  }
  EVROS_ASSIGN(out.name, string_member(message, "name", where));
  EVROS_ASSIGN(out.tool_call_id, string_member(message, "tool_call_id", where));
  if (const Value* calls = member(message, "tool_calls")) {
    if (!calls->is_list()) return bad(cat(where, ".tool_calls"), cat("is ", shown(*calls), "; wanted is a list"));
    for (size_t i = 0; i < calls->items().size(); ++i) {
      EVROS_ASSIGN(ToolCall call, parse_call(calls->items()[i], cat(where, ".tool_calls[", i, "]")));
      out.tool_calls.push_back(std::move(call));
    }
  }
  return out;
}

Result<Value> parse_list(std::string_view json, std::string_view what) {
  auto parsed = jinja::value_from_json(json);
  if (!parsed.ok()) return bad(std::string(what), cat("are ", parsed.error().message));
  if (!parsed->is_list()) return bad(std::string(what), "are no JSON array");
  return parsed;
}

Value map_strings(const Value& value, const Tokenizer& tokenizer) {
  if (value.is_string()) return Value(tokenizer.defuse(value.as_string()));
  if (value.is_list()) {
    std::vector<Value> out;
    for (const Value& item : value.items()) out.push_back(map_strings(item, tokenizer));
    return Value::list(std::move(out), value.as_list().tuple);
  }
  if (!value.is_map()) return value;
  Entries out;
  for (const auto& [key, item] : value.as_map().entries)
    out.emplace_back(tokenizer.defuse(key), map_strings(item, tokenizer));
  return Value::map(std::move(out));
}

}  // namespace

Result<std::vector<ChatMessage>> parse_messages(std::string_view json) {
  EVROS_ASSIGN(const Value list, parse_list(json, "messages"));
  std::vector<ChatMessage> out;
  for (size_t i = 0; i < list.items().size(); ++i) {
    EVROS_ASSIGN(ChatMessage message, parse_message(list.items()[i], cat("messages[", i, "]")));
    out.push_back(std::move(message));
  }
  return out;
}

Result<std::vector<Value>> parse_tools(std::string_view json) {
  EVROS_ASSIGN(const Value list, parse_list(json, "tools"));
  for (size_t i = 0; i < list.items().size(); ++i) {
    const std::string where = cat("tools[", i, "]");
    const Value& tool = list.items()[i];
    if (!tool.is_map()) return bad(where, cat("is ", shown(tool), "; wanted is an object"));
    const Value* function = member(tool, "function");
    if (!function || !function->is_map()) return bad(cat(where, ".function"), "is missing or no object");
    EVROS_ASSIGN(const std::string name, string_member(*function, "name", cat(where, ".function")));
    if (name.empty()) return bad(cat(where, ".function.name"), "is missing");
  }
  return list.items();
}

void defuse(std::vector<ChatMessage>& messages, const Tokenizer& tokenizer) {
  for (ChatMessage& message : messages) {
    message.content = map_strings(message.content, tokenizer);
    if (message.reasoning_content) message.reasoning_content = tokenizer.defuse(*message.reasoning_content);
    message.name = tokenizer.defuse(message.name);
    for (ToolCall& call : message.tool_calls) {
      call.name = tokenizer.defuse(call.name);
      call.arguments = map_strings(call.arguments, tokenizer);
    }
  }
}

}  // namespace evros::text
