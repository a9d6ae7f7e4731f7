// The interactive chat of `evros run`: a line editor with history, streamed replies, Ctrl-C stops a reply and keeps the
// session.
#include <histedit.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/str.h"
#include "cli/common.h"
#include "cli/conversation.h"
#include "cli/session.h"

namespace evros::cli {
namespace {

constexpr const char* kHelp =
    "  /reset   forget the conversation\n"
    "  /exit    leave (so does Ctrl-D)\n"
    "  Ctrl-C   stops a reply; at the prompt it clears the line\n"
    "  a line that ends with \\ continues on the next\n";
constexpr int kHistoryLines = 1000;

// libedit, reduced to reading a line.
class LineEditor {
 public:
  LineEditor() : editor_(el_init("evros", stdin, stdout, stderr), el_end), history_(history_init(), history_end) {
    HistEvent event;
    history(history_.get(), &event, H_SETSIZE, kHistoryLines);
    el_set(
        editor_.get(), EL_PROMPT, +[](EditLine*) { return const_cast<char*>("> "); });
    el_set(editor_.get(), EL_EDITOR, "emacs");
    el_set(editor_.get(), EL_HIST, history, history_.get());
    el_set(editor_.get(), EL_SIGNAL, 0);
  }

  enum class Outcome { line, interrupted, end };

  Outcome read(std::string& line) {
    line.clear();
    while (true) {
      int count = 0;
      errno = 0;
      const char* text = el_gets(editor_.get(), &count);
      if (text == nullptr || count <= 0) return count < 0 && errno == EINTR ? interrupted() : Outcome::end;
      std::string part(text, static_cast<size_t>(count));
      while (!part.empty() && (part.back() == '\n' || part.back() == '\r')) part.pop_back();
      const bool continues = part.ends_with('\\');
      if (continues) part.back() = '\n';
      line += part;
      if (continues) continue;
      HistEvent event;
      if (!line.empty()) history(history_.get(), &event, H_ENTER, line.c_str());
      return Outcome::line;
    }
  }

 private:
  Outcome interrupted() {
    el_reset(editor_.get());
    std::printf("\n");
    return Outcome::interrupted;
  }

  std::unique_ptr<EditLine, void (*)(EditLine*)> editor_;
  std::unique_ptr<History, void (*)(History*)> history_;
};

// A failed turn leaves the conversation as it was, so that the next message can be tried.
void answer(Session& session, Conversation& conversation, const std::string& line, const RunArguments& a) {
  const auto prompt = conversation.prompt(line);
  if (!prompt.ok()) {
    fail(prompt.error());
    return;
  }
  if (conversation.starts_thinking()) std::printf("(thinking) ");
  const auto result = stream_reply(session, *prompt);
  std::printf("\n");
  if (!result.ok()) {
    fail(result.error());
    return;
  }
  std::fflush(stdout);
  if (!a.quiet) print_statistics(session, *result);
  Status kept = conversation.add_reply(*result);
  if (kept.ok()) kept = keep(session, a, &conversation);
  if (!kept.ok()) fail(kept.error());
}

}  // namespace

int chat(Session& session, const RunArguments& a) {
  std::setlocale(LC_CTYPE, "");
  auto conversation = make_conversation(session, a);
  if (!conversation.ok()) return fail(conversation.error());
  if (const Status resumed = resume(session, a, &*conversation); !resumed.ok()) return fail(resumed.error());
  std::printf("%s. /help lists the commands.\n", session.engine->info().model.c_str());
  LineEditor editor;
  std::string line;
  while (true) {
    const LineEditor::Outcome outcome = editor.read(line);
    if (outcome == LineEditor::Outcome::end) break;
    if (outcome == LineEditor::Outcome::interrupted || line.empty()) continue;
    if (line == "/exit" || line == "/quit") break;
    if (line == "/help") {
      std::printf("%s", kHelp);
    } else if (line == "/reset") {
      conversation->clear();
    } else if (line[0] == '/') {
      std::printf("%s is not a command; /help lists them.\n", line.c_str());
    } else {
      answer(session, *conversation, line, a);
    }
  }
  std::printf("\n");
  return 0;
}

}  // namespace evros::cli
