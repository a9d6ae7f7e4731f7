// evros run: one prompt, or a chat.
#include <cstdio>
#include <optional>

#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/session.h"
#include "io/process.h"

namespace evros::cli {
namespace {

constexpr int kInterruptedExit = 130;  // 128 + SIGINT, as shells have it

// Goes on from the session's file, if there is one.
Result<std::vector<int32_t>> raw_prompt(Session& session, const RunArguments& a, const std::string& text) {
  EVROS_TRY(resume(session, a, nullptr));
  EVROS_ASSIGN(std::vector<int32_t> tokens, session.engine->tokens(session.id));
  EVROS_ASSIGN(const std::vector<int32_t> fresh, session.tokenizer.encode(text));
  tokens.insert(tokens.end(), fresh.begin(), fresh.end());
  return tokens;
}

Result<engine::Finish> one_shot(Session& session, const RunArguments& a) {
  EVROS_ASSIGN(const std::string text, read_text(a.has_prompt, a.prompt, a.file));
  if (text.empty()) {
    return Error{Code::invalid_argument, "the prompt is empty; give some text with -p, -f or on standard input"};
  }
  std::optional<Conversation> conversation;
  std::vector<int32_t> prompt;
  if (a.raw) {
    EVROS_ASSIGN(prompt, raw_prompt(session, a, text));
  } else {
    EVROS_ASSIGN(conversation, make_conversation(session, a));
    EVROS_TRY(resume(session, a, &*conversation));
    EVROS_ASSIGN(prompt, conversation->prompt(text));
  }
  ReplyPrinter printer(conversation && conversation->starts_thinking(), a.quiet ? nullptr : stderr,
                       io::is_terminal(io::Stream::err));
  const auto result = stream_reply(session, prompt, printer);
  if (!result.ok()) return result.error();
  if (!a.quiet) print_statistics(session, *result);
  if (conversation) EVROS_TRY(conversation->add_reply(*result));
  EVROS_TRY(keep(session, a, conversation ? &*conversation : nullptr));
  return result->finish;
}

}  // namespace

int run(const RunArguments& a) {
  const bool interactive = !a.has_prompt && a.file.empty() && io::is_terminal(io::Stream::in);
  if (interactive && a.raw) {
    return misused("run", {Code::invalid_argument,
                           "--raw continues a text, and a chat is none; give one with -p, -f or on standard input"});
  }
  auto session = open_session(a);
  if (!session.ok()) return fail(session.error());
  if (interactive) return chat(*session, a);
  const Result<engine::Finish> finish = one_shot(*session, a);
  if (!finish.ok() && finish.error().code == Code::cancelled) {
    fail(finish.error());  // while the text was waited for
    return kInterruptedExit;
  }
  if (!finish.ok()) return fail(finish.error());
  return *finish == engine::Finish::cancelled ? kInterruptedExit : 0;
}

}  // namespace evros::cli
