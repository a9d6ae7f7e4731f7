// A loaded model with its text side and one session: what `run` and the chat work on.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/result.h"
#include "cli/arguments.h"
#include "cli/conversation.h"
#include "cli/reply_printer.h"
#include "cli/session_lock.h"
#include "engine/engine.h"
#include "engine/reply.h"
#include "text/tokenizer.h"

namespace evros::cli {

struct Session {
  std::unique_ptr<engine::Engine> engine;
  text::Tokenizer tokenizer;
  engine::SessionId id;
  engine::ReplyParams params;
  std::atomic<bool>* interrupted;  // Ctrl-C
  SessionLock lock;                // of --session FILE
};

/// Loads the model and turns the arguments into reply settings (the model's sampling defaults where none were given). Before
/// that, --session FILE is locked.
Result<Session> open_session(const RunArguments& arguments);

/// The model's chat format with the system message of the arguments.
Result<Conversation> make_conversation(const Session& session, const RunArguments& arguments);

/// With --session FILE and such a file: the session becomes what it holds, and so does `conversation`; without one (--raw) the
/// file must hold no conversation. Otherwise nothing.
Status resume(Session& session, const RunArguments& arguments, Conversation* conversation);

/// With --session FILE: writes session and conversation there. An empty session is not written.
Status keep(Session& session, const RunArguments& arguments, const Conversation* conversation);

/// Streams one reply. Ctrl-C ends the reply, not the program; so does a standard output that takes no more.
Result<engine::ReplyResult> stream_reply(Session& session, std::span<const int32_t> prompt, ReplyPrinter& printer);

/// One line about a reply on standard error.
void print_statistics(const Session& session, const engine::ReplyResult& result);

/// The interactive chat; returns the exit code.
int chat(Session& session, const RunArguments& arguments);

}  // namespace evros::cli
