// Runs token ids through a model and keeps every intermediate that another implementation can be held against, under the
// names of tests/data/micro/golden_index.txt. Value heads are in the checkpoint's (grouped) order, as the reference has
// them; the GDN convolution history is kernel - 1 columns wide (the last ones of the reference's).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace evros::ops {

/// A named array: dtype as safetensors spells it, row-major.
struct TraceTensor {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<std::byte> data;

  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};

using Trace = std::map<std::string, TraceTensor>;

/// The longest trace: the selections are tokens x tokens for each full layer.
constexpr size_t kTraceTokens = 8192;

/// Options that a traced engine needs, for chunks of at most `chunk` tokens.
engine::EngineOptions trace_options(engine::EngineOptions options, int32_t chunk);

/// Appends `tokens` to an empty session in chunks of the given sizes (repeated to the end; empty: all at once) and returns
/// the trace under names beginning with `prefix` + ".".
Result<Trace> run_trace(engine::Engine& engine, engine::SessionId session, std::span<const int32_t> tokens,
                        std::span<const int64_t> chunks, const std::string& prefix);

/// Draws `count` greedy tokens after what the session holds, appending each; returns them as "greedy.prompt" and
/// "greedy.tokens".
Status trace_greedy(engine::Engine& engine, engine::SessionId session, int64_t count, Trace& trace);

/// Writes the arrays as one safetensors file.
Status write_trace(io::Io& io, const std::string& path, const Trace& trace);

}  // namespace evros::ops
