// evros trace: token ids in, every intermediate out, as a safetensors file under the names of the reference values.
#include "ops/trace.h"

#include <algorithm>
#include <cstdio>

#include "base/str.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "io/io.h"

namespace evros::cli {
namespace {

Status run_trace(const TraceArguments& a) {
  EVROS_ASSIGN(const std::string path, model_path(a.model.model));
  EVROS_TRY(io::real_io().check_target(a.out));
  if (a.tokens.empty()) return Error{Code::invalid_argument, "--tokens is empty; at least one id is needed"};
  if (a.tokens.size() > ops::kTraceTokens) {
    return Error{Code::invalid_argument,
                 cat("--tokens has ", a.tokens.size(), " ids; a trace holds at most ", ops::kTraceTokens)};
  }
  int64_t chunk =
      a.chunks.empty() ? static_cast<int64_t>(a.tokens.size()) : *std::max_element(a.chunks.begin(), a.chunks.end());
  chunk = std::clamp<int64_t>(chunk, 1, static_cast<int64_t>(a.tokens.size()));
  EVROS_ASSIGN(const auto engine,
               engine::Engine::load(io::real_io(), path,
                                    ops::trace_options(engine_options(a.model), static_cast<int32_t>(chunk))));
  EVROS_ASSIGN(const engine::SessionId session, engine->open());
  EVROS_ASSIGN(ops::Trace trace, ops::run_trace(*engine, session, a.tokens, a.chunks, a.prefix));
  if (a.greedy > 0) EVROS_TRY(ops::trace_greedy(*engine, session, a.greedy, trace));
  EVROS_TRY(ops::write_trace(io::real_io(), a.out, trace));
  std::printf("%s under %s: %zu arrays in %s\n", counted(a.tokens.size(), "token").c_str(),
              engine->info().numerics.c_str(), trace.size(), a.out.c_str());
  return {};
}

}  // namespace

int trace(const TraceArguments& a) {
  const Status status = run_trace(a);
  return status.ok() ? 0 : fail(status.error());
}

}  // namespace evros::cli
