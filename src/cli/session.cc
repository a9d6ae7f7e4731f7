#include "cli/session.h"

#include <cerrno>
#include <cstdio>

#include "base/str.h"
#include "cli/common.h"
#include "engine/text_kit.h"
#include "io/io.h"
#include "io/process.h"

namespace evros::cli {
namespace {

std::atomic<bool> g_interrupted{false};

engine::ReplyParams reply_params(const RunArguments& a, const engine::SamplingParams& defaults) {
  engine::ReplyParams params;
  params.sampling = defaults;
  engine::SamplingParams& s = params.sampling;
  s.temperature = a.temperature.value_or(s.temperature);
  s.top_k = a.top_k.value_or(s.top_k);
  s.top_p = a.top_p.value_or(s.top_p);
  s.min_p = a.min_p.value_or(s.min_p);
  s.repetition_penalty = a.repetition_penalty.value_or(s.repetition_penalty);
  s.presence_penalty = a.presence_penalty.value_or(s.presence_penalty);
  s.frequency_penalty = a.frequency_penalty.value_or(s.frequency_penalty);
  s.seed = a.seed.value_or(io::real_io().now_ns() / 1000 % 1000000007);
  s.logit_bias = a.logit_bias;
  params.max_tokens = a.max_tokens;
  params.stop = a.stop;
  params.stop_ids = a.stop_ids;
  params.ignore_eos = a.ignore_eos;
  params.show_special = a.show_special;
  return params;
}

}  // namespace

Result<Session> open_session(const RunArguments& a) {
  EVROS_ASSIGN(const std::string path, model_path(a.model.model));
  SessionLock lock;
  if (!a.session.empty()) {
    EVROS_TRY(io::real_io().check_target(a.session));
    EVROS_ASSIGN(lock, SessionLock::take(a.session));
  }
  EVROS_ASSIGN(auto engine, load_engine(path, engine_options(a.model), a.quiet));
  EVROS_ASSIGN(auto tokenizer, engine::load_tokenizer(engine->file()));
  engine::ReplyParams params = reply_params(a, engine::sampling_defaults(engine->file()));
  EVROS_TRY(engine::validate(params, engine->model().hyper.vocab));
  EVROS_ASSIGN(const engine::SessionId id, engine->open());
  io::catch_interrupt(g_interrupted);
  return Session{std::move(engine), std::move(tokenizer), id, std::move(params), &g_interrupted, std::move(lock)};
}

Result<Conversation> make_conversation(const Session& session, const RunArguments& a) {
  EVROS_ASSIGN(auto format, text::ChatFormat::create(engine::tokenizer_spec(session.engine->file()).chat_template));
  std::optional<bool> thinking;
  if (a.think || a.no_think) thinking = a.think;
  Conversation conversation(std::move(format), session.tokenizer, thinking);
  EVROS_TRY(check_utf8("the system message", a.system));
  if (!a.system.empty()) conversation.add_system(a.system);
  return conversation;
}

Status resume(Session& session, const RunArguments& a, Conversation* conversation) {
  if (a.session.empty() || !io::real_io().exists(a.session)) return {};
  EVROS_ASSIGN(const std::string saved, session.engine->restore(io::real_io(), a.session, session.id));
  if (saved.empty() != (conversation == nullptr)) {
    return Error{Code::invalid_argument, cat(a.session, " holds ",
                                             saved.empty() ? "text without a chat; it goes on with --raw"
                                                           : "a chat; it goes on without --raw")};
  }
  if (conversation == nullptr) return {};
  EVROS_ASSIGN(std::vector<int32_t> held, session.engine->tokens(session.id));
  const Status resumed = conversation->resume(saved, std::move(held));
  return resumed.ok() ? resumed : Error{Code::bad_file, cat(a.session, ": ", resumed.error().message)};
}

Status keep(Session& session, const RunArguments& a, const Conversation* conversation) {
  if (a.session.empty()) return {};
  EVROS_ASSIGN(const std::vector<int32_t> held, session.engine->tokens(session.id));
  if (held.empty()) return {};
  return session.engine->save(io::real_io(), session.id, a.session,
                              conversation == nullptr ? "" : conversation->save(held));
}

Result<engine::ReplyResult> stream_reply(Session& session, std::span<const int32_t> prompt, ReplyPrinter& printer) {
  session.interrupted->store(false);
  auto result = engine::reply(
      *session.engine, io::real_io(), session.id, prompt, session.params, session.tokenizer,
      [&](std::string_view text) {
        if (printer.push(text)) return;
        lose_output(errno);
        session.interrupted->store(true);
      },
      session.interrupted);
  printer.finish();
  if (result.ok() || printer.answered()) std::printf("\n");
  std::fflush(stdout);
  return result;
}

void print_statistics(const Session& session, const engine::ReplyResult& result) {
  const auto rate = [](size_t tokens, uint64_t ns) {
    return ns == 0 ? 0.0 : static_cast<double>(tokens) * 1e9 / static_cast<double>(ns);
  };
  const auto fresh = static_cast<size_t>(result.prompt_tokens - result.reused_tokens);
  std::fprintf(stderr, "[%s of prompt (%lld reused) at %.1f tokens/s, %s of reply at %.1f tokens/s; %s; ",
               counted(static_cast<uint64_t>(result.prompt_tokens), "token").c_str(),
               static_cast<long long>(result.reused_tokens), rate(fresh, result.prefill_ns),
               counted(result.tokens.size(), "token").c_str(), rate(result.tokens.size(), result.decode_ns),
               engine::finish_name(result.finish));
  if (session.params.sampling.temperature > 0) {
    std::fprintf(stderr, "seed %llu; ", static_cast<unsigned long long>(session.params.sampling.seed));
  }
  const engine::EngineInfo& info = session.engine->info();
  std::fprintf(stderr, "%s, %s on %s]\n", info.numerics.c_str(), info.kernels.c_str(), info.device.c_str());
}

}  // namespace evros::cli
