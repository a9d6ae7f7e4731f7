// The interactive chat of `evros run`: a line editor with history, streamed replies, Ctrl-C stops a reply and keeps the
// session.
#include <histedit.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/str.h"
#include "cli/common.h"
#include "cli/conversation.h"
#include "cli/session.h"
#include "io/process.h"

namespace evros::cli {
namespace {

constexpr const char* kHelp =
    "  /reset   forget the conversation\n"
    "  /exit    leave (so does Ctrl-D)\n"
    "  Ctrl-C   stops a reply; at the prompt it clears the line\n"
    "  a line that ends with \\ continues on the next; //... sends a line that begins with /\n";
constexpr int kHistoryLines = 1000;
constexpr const char* kBlanks = " \t\r\n";

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

void say_full() { std::fprintf(stderr, "evros: the context is full; /reset starts over\n"); }

// A failed turn leaves the conversation as it was, so that the next message can be tried.
void answer(Session& session, Conversation& conversation, const std::string& message, const RunArguments& a) {
  const Status valid = check_utf8("the line", message);
  const auto prompt = valid.ok() ? conversation.prompt(message) : valid.error();
  if (!prompt.ok()) {
    fail(prompt.error());
    return;
  }
  ReplyPrinter printer(conversation.starts_thinking(), a.quiet ? nullptr : stdout, io::is_terminal(io::Stream::out));
  const auto result = stream_reply(session, *prompt, printer);
  if (!result.ok()) {
    fail(result.error());
    if (static_cast<int64_t>(prompt->size()) > session.engine->info().plan.context) say_full();
    return;
  }
  if (!a.quiet) print_statistics(session, *result);
  if (result->finish == engine::Finish::context_full) say_full();
  Status kept = conversation.add_reply(*result);
  if (kept.ok()) kept = keep(session, a, &conversation);
  if (!kept.ok()) fail(kept.error());
}

// Characters beyond ASCII can be typed only in a locale that has them; the program speaks UTF-8 in any.
void choose_locale() {
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// Runs a line that begins with "/"; false when it ends the chat.
bool command(std::string_view line, Conversation& conversation) {
  line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
  if (line == "/exit" || line == "/quit") return false;
  if (line == "/help") {
    std::printf("%s", kHelp);
  } else if (line == "/reset") {
    conversation.clear();
  } else {
    std::printf("%s is not a command; /help lists them, and // sends a line that begins with /\n",
                std::string(line).c_str());
  }
  return true;
}

}  // namespace

int chat(Session& session, const RunArguments& a) {
  choose_locale();
  auto conversation = make_conversation(session, a);
  if (!conversation.ok()) return fail(conversation.error());
  if (const Status resumed = resume(session, a, &*conversation); !resumed.ok()) return fail(resumed.error());
  if (!a.quiet) std::printf("%s. /help lists the commands.\n", printable(session.engine->info().model).c_str());
  LineEditor editor;
  std::string line;
  while (true) {
    const LineEditor::Outcome outcome = editor.read(line);
    if (outcome == LineEditor::Outcome::end) break;
    const size_t start = line.find_first_not_of(kBlanks);
    if (outcome == LineEditor::Outcome::interrupted || start == std::string::npos) continue;
    const std::string_view text = std::string_view(line).substr(start);
    if (text.starts_with("//")) {
      answer(session, *conversation, std::string(text.substr(1)), a);
    } else if (text[0] != '/') {
      answer(session, *conversation, line, a);
    } else if (!command(text, *conversation)) {
      break;
    }
  }
  std::printf("\n");
  return 0;
}

}  // namespace evros::cli
