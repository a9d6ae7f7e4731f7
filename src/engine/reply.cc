#include "engine/reply.h"

#include <algorithm>

#include "base/str.h"
#include "engine/reply_state.h"

namespace evros::engine {
namespace {

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

class Decoder {
 public:
  Decoder(Engine& engine, SessionId session, std::span<const int32_t> prompt, const ReplyParams& params,
          const text::Tokenizer& tokenizer, const OnText& on_text, const std::atomic<bool>* cancel)
      : engine_(engine),
        session_(session),
        on_text_(on_text),
        cancel_(cancel),
        state_(params, tokenizer, prompt, engine.info().plan.context, params.sampling.choice),
        logits_(static_cast<size_t>(engine.model().hyper.vocab)) {}

  Result<Finish> run(ReplyResult& result) {
    EVROS_ASSIGN(const Finish finish, decode(result.text));
    result.tokens = state_.tokens();
    return finish;
  }

 private:
  Result<Finish> decode(std::string& text) {
    while (true) {
      if (cancelled(cancel_)) return cancel(text);
      EVROS_ASSIGN(const int64_t frontier, engine_.frontier(session_));
      EVROS_TRY(engine_.logits(session_, logits_));
      const std::optional<Finish> finish = state_.draw(logits_, frontier);
      show(text);
      if (finish.has_value()) return *finish;
      const int32_t id = state_.pending();
      const Status appended = engine_.append(session_, {&id, 1}, {.cancel = cancel_});
      if (!appended.ok() && appended.error().code == Code::cancelled) return cancel(text);
      if (!appended.ok()) {
        return Error{appended.error().code,
                     cat(appended.error().message, "; the session ends before the last token that was shown")};
      }
      state_.published();
    }
  }

  Finish cancel(std::string& text) {
    state_.flush();
    show(text);
    return Finish::cancelled;
  }

  void show(std::string& text) {
    for (const Piece& piece : state_.take()) {
      text += piece.text;
      if (on_text_ && !piece.text.empty()) on_text_(piece.text);
    }
  }

  Engine& engine_;
  SessionId session_;
  const OnText& on_text_;
  const std::atomic<bool>* cancel_;
  ReplyState state_;
  std::vector<float> logits_;
};

}  // namespace

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
  Decoder decoder(engine, session, prompt, params, tokenizer, on_text, cancel);
  EVROS_ASSIGN(result.finish, decoder.run(result));
  result.decode_ns = clock.now_ns() - start - result.prefill_ns;
  return result;
}

}  // namespace evros::engine
