#include "engine/reply.h"

#include <algorithm>

#include "base/str.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace evros::engine {
namespace {

// What a request keeps between tokens: a fold over its published tokens.
struct RequestState {
  TokenCounts counts;
  text::Detokenizer detokenizer;
  text::StopMatcher stops;
};

bool cancelled(const std::atomic<bool>* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

// Makes the prompt the session's history in one step; returns how many tokens needed no computing.
Result<int64_t> bring_to_prompt(Engine& engine, SessionId session, std::span<const int32_t> prompt,
                                const std::atomic<bool>* cancel) {
  EVROS_ASSIGN(const std::vector<int32_t> held, engine.tokens(session));
  const auto split = std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end());
  const auto common = static_cast<size_t>(split.first - held.begin());
  if (static_cast<int64_t>(prompt.size()) > engine.info().plan.context) {
    return Error{Code::invalid_argument,
                 cat("the prompt has ", prompt.size(), " tokens; the context holds ", engine.info().plan.context)};
  }
  return engine.rewrite(session, static_cast<int64_t>(common), prompt.subspan(common), {.cancel = cancel});
}

bool stops(const ReplyParams& params, const text::Tokenizer& tokenizer, int32_t id) {
  if (!params.ignore_eos && tokenizer.is_eos(id)) return true;
  return std::find(params.stop_ids.begin(), params.stop_ids.end(), id) != params.stop_ids.end();
}

class Decoder {
 public:
  Decoder(Engine& engine, SessionId session, const ReplyParams& params, const text::Tokenizer& tokenizer,
          const OnText& on_text, const std::atomic<bool>* cancel, ReplyResult& result)
      : engine_(engine),
        session_(session),
        params_(params),
        tokenizer_(tokenizer),
        on_text_(on_text),
        cancel_(cancel),
        result_(result),
        state_{{}, text::Detokenizer(tokenizer, !params.show_special), text::StopMatcher(params.stop)},
        logits_(static_cast<size_t>(engine.model().hyper.vocab)) {}

  Result<Finish> run(std::span<const int32_t> prompt) {
    for (const int32_t id : prompt) ++state_.counts.seen[id];
    EVROS_ASSIGN(const Finish finish, decode());
    if (finish != Finish::stop_string) show(state_.stops.push(state_.detokenizer.flush()) + state_.stops.flush());
    return finish;
  }

 private:
  Result<Finish> decode() {
    while (true) {
      if (cancelled(cancel_)) return Finish::cancelled;
      if (params_.max_tokens >= 0 && static_cast<int64_t>(result_.tokens.size()) >= params_.max_tokens)
        return Finish::length;
      EVROS_ASSIGN(const int64_t position, engine_.frontier(session_));
      EVROS_TRY(engine_.logits(session_, logits_));
      const int32_t id = sample(logits_, tokenizer_.vocab_size(), params_.sampling, state_.counts, position);
      if (stops(params_, tokenizer_, id)) return Finish::stop_token;
      EVROS_ASSIGN(const std::string text, state_.detokenizer.push(id));
      show(state_.stops.push(text));
      result_.tokens.push_back(id);
      if (state_.stops.matched()) return Finish::stop_string;
      if (position >= engine_.info().plan.context) return Finish::context_full;
      if (static_cast<int64_t>(result_.tokens.size()) == params_.max_tokens) return Finish::length;
      const Status appended = engine_.append(session_, {&id, 1}, {.cancel = cancel_});
      if (!appended.ok() && appended.error().code == Code::cancelled) return Finish::cancelled;
      if (!appended.ok()) {
        return Error{appended.error().code,
                     cat(appended.error().message, "; the session ends before the last token that was shown")};
      }
      ++state_.counts.seen[id];
      ++state_.counts.generated[id];
    }
  }

  void show(std::string_view text) {
    if (text.empty()) return;
    result_.text += text;
    if (on_text_) on_text_(text);
  }

  Engine& engine_;
  SessionId session_;
  const ReplyParams& params_;
  const text::Tokenizer& tokenizer_;
  const OnText& on_text_;
  const std::atomic<bool>* cancel_;
  ReplyResult& result_;
  RequestState state_;
  std::vector<float> logits_;
};

}  // namespace

Status validate(const ReplyParams& params, int32_t vocab) {
  EVROS_TRY(validate(params.sampling, vocab));
  for (const int32_t id : params.stop_ids) {
    if (id < 0 || id >= vocab) {
      return Error{Code::invalid_argument,
                   cat("stop_ids names token ", id, "; the vocabulary has ids 0 to ", vocab - 1)};
    }
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

Result<ReplyResult> reply(Engine& engine, io::Io& clock, SessionId session, std::span<const int32_t> prompt,
                          const ReplyParams& params, const text::Tokenizer& tokenizer, const OnText& on_text,
                          const std::atomic<bool>* cancel) {
  const device::FloatEnvironment environment;
  if (prompt.empty()) return Error{Code::invalid_argument, "the prompt is empty; at least one token is needed"};
  EVROS_TRY(validate(params, engine.model().hyper.vocab));
  ReplyResult result{};
  result.prompt_tokens = static_cast<int64_t>(prompt.size());
  const uint64_t start = clock.now_ns();
  const Result<int64_t> reused = bring_to_prompt(engine, session, prompt, cancel);
  result.prefill_ns = clock.now_ns() - start;
  if (!reused.ok() && reused.error().code == Code::cancelled) {
    result.finish = Finish::cancelled;
    return result;
  }
  if (!reused.ok()) return reused.error();
  result.reused_tokens = *reused;
  Decoder decoder(engine, session, params, tokenizer, on_text, cancel, result);
  EVROS_ASSIGN(result.finish, decoder.run(prompt));
  result.decode_ns = clock.now_ns() - start - result.prefill_ns;
  return result;
}

}  // namespace evros::engine
