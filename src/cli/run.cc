// evros run: one prompt, or a chat.
#include <cstdio>

#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/session.h"
#include "io/process.h"

namespace evros::cli {
namespace {

constexpr int kInterruptedExit = 130;  // 128 + SIGINT, as shells have it

Result<std::vector<int32_t>> one_shot_prompt(const Session& session, const RunArguments& a, const std::string& text) {
  if (text.empty())
    return Error{Code::invalid_argument, "the prompt is empty; give some text with -p, -f or on standard input"};
  if (a.raw) return session.tokenizer.encode(text);
  EVROS_ASSIGN(Conversation conversation, make_conversation(session, a));
  return conversation.prompt(text);
}

int one_shot(Session& session, const RunArguments& a) {
  const Result<std::string> text = read_text(a.has_prompt, a.prompt, a.file);
  if (!text.ok()) return fail(text.error());
  const auto prompt = one_shot_prompt(session, a, *text);
  if (!prompt.ok()) return fail(prompt.error());
  const auto result = stream_reply(session, *prompt);
  if (!result.ok()) {
    std::printf("\n");
    return fail(result.error());
  }
  std::printf("\n");
  std::fflush(stdout);
  if (!a.quiet) print_statistics(session, *result);
  return result->finish == engine::Finish::cancelled ? kInterruptedExit : 0;
}

}  // namespace

int run(const RunArguments& a) {
  auto session = open_session(a);
  if (!session.ok()) return fail(session.error());
  const bool interactive = !a.has_prompt && a.file.empty() && io::is_terminal(io::Stream::in);
  return interactive ? chat(*session, a) : one_shot(*session, a);
}

}  // namespace evros::cli
