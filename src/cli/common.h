// What the sub-commands share: finding the model, printing errors, options for the engine.
#pragma once

#include <memory>
#include <string>

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

/// Text that a user gave must be UTF-8; the error names `what` and the first wrong byte.
Status check_utf8(std::string_view what, std::string_view text);

/// The text of -p, of -f, or of standard input; UTF-8.
Result<std::string> read_text(bool given, const std::string& text, const std::string& file);

/// "1 token", "2 tokens".
std::string counted(uint64_t n, std::string_view what);

}  // namespace evros::cli
