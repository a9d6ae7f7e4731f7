// What the sub-commands share: finding the model, printing errors, options for the engine.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/arguments.h"
#include "engine/engine.h"

namespace evros::cli {

/// The path that was given, or the bundled model's beside the program.
Result<std::string> model_path(const std::string& given);

engine::EngineOptions engine_options(const ModelArguments& arguments);

/// Loads with a progress bar and, where a user should know it, the memory plan in a line or two on standard error.
Result<std::unique_ptr<engine::Engine>> load_engine(const std::string& path, engine::EngineOptions options, bool quiet,
                                                    std::unique_ptr<device::Device> device = nullptr);

/// Prints "evros: <sentence>." on standard error; returns the exit code 1.
int fail(const Error& error);
/// Prints a sentence that is no error, in the same form. In both, text of files within the sentence is printable().
void say(const std::string& sentence);

/// Notes why standard output took no more, for main() to say; 0: unknown.
void lose_output(int error);
int lost_output();

/// From now on Ctrl-C, SIGTERM and SIGHUP set the flag that is returned, for work that cleans up when it is stopped. Such work
/// then ends with Code::cancelled, of which fail_or_stop() prints the sentence with `left`, what became of it, at its end,
/// and returns the exit code of the signal; of any other error it does what fail() does.
const std::atomic<bool>& stop_on_signals();
int fail_or_stop(const Error& error, const std::string& left);

/// Prints "evros: <sentence>; see `evros <command> --help`" on standard error, for wrong usage that parsing could not see; returns
/// the exit code 2.
int misused(std::string_view command, const Error& error);

/// Text from a file, for a terminal: control characters, those that reorder a line, and bytes that are no UTF-8 become \xNN of
/// each byte, so that a file can neither act on the terminal nor look like other output.
std::string printable(std::string_view text);

/// Text that a user gave must be UTF-8; the error names `what` and the first wrong byte.
Status check_utf8(std::string_view what, std::string_view text);

/// The text of -p, of -f (any file or pipe), or of standard input, which -f calls "-"; UTF-8.
Result<std::string> read_text(bool given, const std::string& text, const std::string& file);

/// "1 token", "2 tokens".
std::string counted(uint64_t n, std::string_view what);

}  // namespace evros::cli
