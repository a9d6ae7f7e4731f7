#include "server/openai_request.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/json_writer.h"
#include "base/str.h"
#include "server/json_body.h"
#include "server/openai_format.h"
#include "server/system.h"

namespace evros::server {

namespace json = boost::json;

namespace {

constexpr int64_t kMostPrompts = 32;
constexpr size_t kMostStops = 16, kMostStopBytes = 1024, kMostBiases = 4096;
constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
constexpr float kLeastTopP = std::numeric_limits<float>::denorm_min();  // of the engine, which knows no 0

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

bool is_text(const json::value* value, std::string_view text) {
  return value != nullptr && value->is_string() && view(value->get_string()) == text;
}

bool is_empty_list(const json::value& value) { return value.is_array() && value.get_array().empty(); }

void refuse_unknown_model(Fields& fields, const ModelText& model) {
  const auto name = fields.text("model");
  if (!name || name->empty() || model.has_name(*name)) return;
  std::string known;
  for (const std::string& each : model.names) known += cat(known.empty() ? "" : ", ", json_quote(each));
  fields.refuse("model", cat("served is ", known), "model_not_found", 404);
}

/// Fields that change what the answer would be and that this server cannot honour: silence about them would be a wrong answer.
void refuse_unsupported(Fields& fields) {
  for (const char* key : {"tools", "functions"}) {
    const json::value* value = fields.find(key);
    if (value != nullptr && !is_empty_list(*value))
      fields.refuse(key, "function calling is not supported; leave it out", "unsupported");
  }
  for (const char* key : {"tool_choice", "function_call"}) {
    const json::value* value = fields.find(key);
    if (value != nullptr && !is_text(value, "none") && !is_text(value, "auto"))
      fields.refuse(key, "function calling is not supported; wanted is \"none\" or \"auto\"", "unsupported");
  }
  if (const json::object* format = fields.object("response_format")) {
    if (!is_text(format->if_contains("type"), "text"))
      fields.refuse("response_format", "constrained output is not supported; wanted is {\"type\": \"text\"}",
                    "unsupported");
  }
  for (const char* key : {"grammar", "json_schema", "structured_outputs", "guided_json", "guided_regex",
                          "guided_choice", "guided_grammar"}) {
    if (fields.find(key) != nullptr)
      fields.refuse(key, "constrained output is not supported; leave it out", "unsupported");
  }
  for (const char* key : {"audio", "prediction", "web_search_options"}) {
    if (fields.find(key) != nullptr) fields.refuse(key, "not supported; leave it out", "unsupported");
  }
  if (const json::value* modalities = fields.find("modalities")) {
    const bool text_only =
        modalities->is_array() && modalities->get_array().size() == 1 && is_text(&modalities->get_array()[0], "text");
    if (!text_only) fields.refuse("modalities", "only text is supported; wanted is [\"text\"]", "unsupported");
  }
}

void read_seed(Fields& fields, engine::SamplingParams& sampling) {
  sampling.seed = random_u64() >> 11;  // 53 bits: JavaScript reads it back whole
  const json::value* value = fields.find("seed");
  if (value == nullptr) return;
  if (value->is_uint64()) {
    sampling.seed = value->get_uint64();
  } else if (const auto number = json_integer(*value)) {
    sampling.seed = static_cast<uint64_t>(*number);  // negative ones wrap: each is a seed of its own
  } else {
    fields.refuse("seed", "wanted is a whole number of 64 bits");
  }
}

void read_logit_bias(Fields& fields, int32_t vocab, std::map<int32_t, float>& out) {
  const json::object* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  const std::string wanted =
      cat("wanted is at most ", kMostBiases, " token ids (0 to ", vocab - 1, ") as keys with numbers from -100 to 100");
  if (biases->size() > kMostBiases) fields.refuse("logit_bias", cat("it has ", biases->size(), " entries; ", wanted));
  for (const auto& [key, value] : *biases) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const auto bias = json_number(value);
    const bool good = error == std::errc() && end == key.data() + key.size() && id >= 0 && id < vocab && bias &&
                      *bias >= -100 && *bias <= 100;
    if (!good) {
      const std::string_view name = std::string_view(key.data(), key.size()).substr(0, 20);
      return fields.refuse("logit_bias",
                           cat("its entry ", json_quote(name), ": ", json_short(value), " is wrong; ", wanted));
    }
    out[id] = static_cast<float>(*bias);
  }
}

void read_sampling(Fields& fields, const ModelText& model, engine::SamplingParams& out) {
  out = model.defaults;
  const auto set = [&](const char* key, double least, double most, float& to) {
    if (const auto number = fields.number(key, least, most)) to = static_cast<float>(*number);
  };
  set("temperature", 0, 100, out.temperature);
  set("top_p", 0, 1, out.top_p);
  out.top_p = std::max(out.top_p, kLeastTopP);
  set("min_p", 0, 1, out.min_p);
  set("repetition_penalty", 0.01, 100, out.repetition_penalty);
  set("presence_penalty", -2, 2, out.presence_penalty);
  set("frequency_penalty", -2, 2, out.frequency_penalty);
  if (const auto k = fields.integer("top_k", -1, std::numeric_limits<int32_t>::max()))
    out.top_k = static_cast<int32_t>(std::max<int64_t>(*k, 0));  // -1: all, as others have it
  read_seed(fields, out);
  read_logit_bias(fields, model.vocab, out.logit_bias);
}

void read_stop(Fields& fields, std::vector<std::string>& out) {
  const json::value* stop = fields.find("stop");
  if (stop == nullptr) return;
  const std::string wanted =
      cat("wanted is a string or a list of at most ", kMostStops, " strings, each of 1 to ", kMostStopBytes, " bytes");
  const auto add = [&](const json::value& value) {
    const bool good = value.is_string() && !value.get_string().empty() && value.get_string().size() <= kMostStopBytes;
    if (good) out.emplace_back(view(value.get_string()));
    return good;
  };
  if (!stop->is_array()) {
    if (!add(*stop)) fields.refuse("stop", wanted);
    return;
  }
  const json::array& list = stop->get_array();
  if (list.size() > kMostStops) return fields.refuse("stop", wanted);
  for (size_t i = 0; i < list.size(); ++i) {
    if (!add(list[i])) return fields.refuse_at("stop", {cat("stop[", i, ']'), &list[i]}, wanted);
  }
}

/// What both kinds of request have. `request` becomes the settings of every prompt.
void read_common(Fields& fields, const ModelText& model, engine::Request& request, OpenAiAnswer& answer,
                 Completion& out) {
  refuse_unknown_model(fields, model);
  refuse_unsupported(fields);
  read_sampling(fields, model, request.reply.sampling);
  read_stop(fields, request.reply.stop);
  request.n = static_cast<int32_t>(fields.integer("n", 1, model.most_replies).value_or(1));
  request.reply.ignore_eos = fields.truth("ignore_eos").value_or(false);
  request.reply.max_tokens = fields.integer("max_tokens", 1, kAny).value_or(-1);
  out.timeout_seconds = fields.number("timeout", 0.001, 1e9).value_or(-1);
  answer.stream = fields.truth("stream").value_or(false);
  if (const json::object* options = fields.object("stream_options")) {
    if (!answer.stream) fields.refuse("stream_options", "it needs \"stream\": true");
    Fields stream_fields(*options, "stream_options.");
    answer.include_usage = stream_fields.truth("include_usage").value_or(false);
    fields.join(stream_fields);
  }
  answer.model = model.name();
  answer.fingerprint = model.fingerprint;
  answer.created = unix_seconds();
  answer.seed = request.reply.sampling.seed;
}

Refusal finish(const ModelText& model, std::vector<engine::Request> requests, const char* param, OpenAiAnswer answer,
               Completion& out) {
  for (const engine::Request& request : requests) {
    const auto prompt = static_cast<int64_t>(request.prompt.size());
    const int64_t most = request.reply.max_tokens;
    if (std::max<int64_t>(most, 1) <= model.context - prompt) continue;
    return ApiError{.message = cat("the context is ", model.context, " tokens; the prompt has ", prompt,
                                   most < 0 ? ", and the reply needs at least 1 more"
                                            : cat(", and max_tokens asks for ", most, " more")),
                    .param = param,
                    .code = "context_length_exceeded"};
  }
  answer.choices = static_cast<int32_t>(requests.size()) * requests.front().n;
  out.id = answer.id;
  out.requests = std::move(requests);
  out.format = openai_format(std::move(answer), model.tokenizer);
  return {};
}

/// The error of the text folder, which begins with the place: "messages[2].role is ...".
ApiError place_error(const Error& error, std::string_view fallback) {
  ApiError out = from_engine(error);
  const std::string_view place = std::string_view(out.message).substr(0, out.message.find(' '));
  out.param = place.starts_with(fallback) ? place : fallback;
  out.code = error.code == Code::invalid_argument ? "" : out.code;
  return out;
}

Refusal read_messages(Fields& fields, std::vector<text::ChatMessage>& out) {
  const json::value* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->get_array().empty()) {
    fields.refuse("messages", "wanted is a list of at least one message");
    return fields.refusal();
  }
  auto parsed = text::parse_messages(json::serialize(*messages));
  if (!parsed.ok()) return place_error(parsed.error(), "messages");
  out = std::move(parsed).value();
  return {};
}

/// How much thinking: OpenAI's words for it, the family's own, and the switch that chat templates have.
void read_thinking(Fields& fields, text::ChatOptions& out) {
  out.enable_thinking = fields.truth("enable_thinking");
  std::optional<std::string> effort = fields.text("reasoning_effort");
  if (const json::object* kwargs = fields.object("chat_template_kwargs")) {
    Fields more(*kwargs, "chat_template_kwargs.");
    if (const auto enable = more.truth("enable_thinking"); enable && !out.enable_thinking) out.enable_thinking = enable;
    out.preserve_thinking = more.truth("preserve_thinking");
    if (const auto own = more.text("reasoning_effort"); own && !effort) effort = own;
    fields.join(more);
  }
  if (!effort) return;
  if (*effort == "none") {
    if (!out.enable_thinking) out.enable_thinking = false;
  } else if (*effort == "minimal" || *effort == "low") {
    out.reasoning_effort = "low";
  } else if (*effort == "medium") {
    out.reasoning_effort = "medium";
  } else if (*effort == "high" || *effort == "xhigh") {
    out.reasoning_effort = "xhigh";
  } else {
    fields.refuse("reasoning_effort", "wanted is none, minimal, low, medium, high or xhigh");
  }
}

void read_chat_logprobs(Fields& fields, engine::ReplyParams& reply, OpenAiAnswer& answer) {
  answer.logprobs = fields.truth("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, engine::kMostTopLogprobs);
  if (top && !answer.logprobs) fields.refuse("top_logprobs", "it needs \"logprobs\": true");
  if (!answer.logprobs) return;
  answer.top_logprobs = static_cast<int32_t>(top.value_or(0));
  reply.top_logprobs = answer.top_logprobs;
}

/// The prompts of /v1/completions as token ids: one text, a list of texts, ids, or a list of lists of ids.
Refusal read_prompts(Fields& fields, const ModelText& model, std::vector<std::vector<int32_t>>& out) {
  const json::value* prompt = fields.find("prompt");
  const std::string wanted = cat("wanted is a text, a list of token ids from 0 to ", model.tokenizer.vocab_size() - 1,
                                 ", or a list of at most ", kMostPrompts, " of either, none of them empty");
  const auto refuse = [&] { return fields.refuse("prompt", wanted), fields.refusal(); };
  if (prompt == nullptr) return refuse();
  const bool list = prompt->is_array() && !prompt->get_array().empty() && !prompt->get_array()[0].is_number();
  const size_t count = list ? prompt->get_array().size() : 1;
  if (count > static_cast<size_t>(kMostPrompts)) return refuse();
  for (size_t i = 0; i < count; ++i) {
    const json::value& one = list ? prompt->get_array()[i] : *prompt;
    JsonPlace place{list ? cat("prompt[", i, ']') : "prompt", &one};
    std::optional<std::vector<int32_t>> ids;
    if (one.is_string()) {
      auto encoded = model.tokenizer.encode(view(one.get_string()));
      if (!encoded.ok()) return place_error(encoded.error(), "prompt");
      ids = std::move(encoded).value();
    } else {
      ids = json_ids(one, model.tokenizer.vocab_size() - 1, place);
    }
    if (!ids || ids->empty()) return fields.refuse_at("prompt", place, wanted), fields.refusal();
    out.push_back(std::move(*ids));
  }
  return {};
}

void read_text_only(Fields& fields, const ModelText& model, engine::Request& request, OpenAiAnswer& answer) {
  if (fields.truth("echo").value_or(false))
    fields.refuse("echo", "the prompt is not repeated; wanted is false", "unsupported");
  if (const auto suffix = fields.text("suffix"); suffix && !suffix->empty())
    fields.refuse("suffix", "insertion is not supported; leave it out", "unsupported");
  if (fields.find("thinking_budget") != nullptr)
    fields.refuse("thinking_budget", "raw text has no thinking that could be told apart; use /v1/chat/completions");
  const auto best_of = fields.integer("best_of", 1, model.most_replies);
  if (best_of && *best_of != request.n)
    fields.refuse("best_of", cat("replies are not ranked; wanted is n, ", request.n), "unsupported");
  const auto top = fields.integer("logprobs", 0, engine::kMostTopLogprobs);
  answer.logprobs = top.has_value();
  answer.top_logprobs = static_cast<int32_t>(top.value_or(0));
  request.reply.top_logprobs = static_cast<int32_t>(top.value_or(-1));
}

}  // namespace

Refusal read_chat(std::string_view body, const ModelText& model, Completion& out) {
  json::object object;
  if (Refusal wrong = parse_body(body, object)) return wrong;
  Fields fields(object);
  engine::Request request;
  OpenAiAnswer answer{.id = random_name("chatcmpl-")};
  read_common(fields, model, request, answer, out);
  if (const auto most = fields.integer("max_completion_tokens", 1, kAny)) request.reply.max_tokens = *most;
  read_chat_logprobs(fields, request.reply, answer);
  text::ChatOptions options;
  read_thinking(fields, options);
  const auto budget = fields.integer("thinking_budget", 0, kAny);
  if (budget && model.closing.empty())
    fields.refuse("thinking_budget", "the model has no tokens for thinking", "unsupported");
  if (!fields.ok()) return fields.refusal();
  std::vector<text::ChatMessage> messages;
  if (Refusal wrong = read_messages(fields, messages)) return wrong;
  if (const Status set = set_prompt(model, messages, options, request); !set.ok())
    return place_error(set.error(), "messages");
  request.reply.thinking.budget = budget.value_or(-1);
  answer.thinks = request.reply.thinking.open;
  std::vector<engine::Request> requests;
  requests.push_back(std::move(request));
  return finish(model, std::move(requests), "messages", std::move(answer), out);
}

Refusal read_completions(std::string_view body, const ModelText& model, Completion& out) {
  json::object object;
  if (Refusal wrong = parse_body(body, object)) return wrong;
  Fields fields(object);
  engine::Request request;
  OpenAiAnswer answer{.kind = OpenAiAnswer::Kind::text, .id = random_name("cmpl-")};
  read_common(fields, model, request, answer, out);
  read_text_only(fields, model, request, answer);
  if (!fields.ok()) return fields.refusal();
  std::vector<std::vector<int32_t>> prompts;
  if (Refusal wrong = read_prompts(fields, model, prompts)) return wrong;
  std::vector<engine::Request> requests(prompts.size(), request);
  for (size_t i = 0; i < prompts.size(); ++i) requests[i].prompt = std::move(prompts[i]);
  return finish(model, std::move(requests), "prompt", std::move(answer), out);
}

Refusal tokenize(std::string_view body, const ModelText& model, std::string& out) {
  json::object object;
  if (Refusal wrong = parse_body(body, object)) return wrong;
  Fields fields(object);
  refuse_unknown_model(fields, model);
  std::vector<int32_t> tokens;
  if (fields.find("messages") != nullptr) {
    text::ChatOptions options;
    options.add_generation_prompt = fields.truth("add_generation_prompt").value_or(true);
    read_thinking(fields, options);
    if (!fields.ok()) return fields.refusal();
    std::vector<text::ChatMessage> messages;
    if (Refusal wrong = read_messages(fields, messages)) return wrong;
    engine::Request request;
    if (const Status set = set_prompt(model, messages, options, request); !set.ok())
      return place_error(set.error(), "messages");
    tokens = std::move(request.prompt);
  } else {
    auto text = fields.text("prompt");
    if (!text) text = fields.text("content");
    if (!text) fields.refuse("prompt", "wanted is \"prompt\", \"content\" (a text) or \"messages\"");
    if (!fields.ok()) return fields.refusal();
    auto encoded = model.tokenizer.encode(*text);
    if (!encoded.ok()) return place_error(encoded.error(), "prompt");
    tokens = std::move(encoded).value();
  }
  JsonWriter json;
  json.begin_object().key("tokens").begin_array();
  for (const int32_t id : tokens) json.value(id);
  out =
      json.end_array().key("count").value(tokens.size()).key("max_model_len").value(model.context).end_object().take();
  return {};
}

Refusal detokenize(std::string_view body, const ModelText& model, std::string& out) {
  json::object object;
  if (Refusal wrong = parse_body(body, object)) return wrong;
  Fields fields(object);
  refuse_unknown_model(fields, model);
  const json::value* tokens = fields.find("tokens");
  JsonPlace place{"tokens", tokens};
  const auto ids = tokens == nullptr ? std::nullopt : json_ids(*tokens, model.tokenizer.vocab_size() - 1, place);
  const std::string wanted = cat("wanted is a list of token ids from 0 to ", model.tokenizer.vocab_size() - 1);
  if (tokens == nullptr) fields.refuse("tokens", wanted);
  if (tokens != nullptr && !ids) fields.refuse_at("tokens", place, wanted);
  if (!fields.ok()) return fields.refusal();
  const auto text = model.tokenizer.decode(*ids);
  if (!text.ok()) return place_error(text.error(), "tokens");
  JsonWriter json;
  out = json.begin_object().key("prompt").value(*text).key("content").value(*text).end_object().take();
  return {};
}

}  // namespace evros::server
