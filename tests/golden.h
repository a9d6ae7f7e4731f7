// Reference values from a safetensors file, by name.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "format/safetensors.h"
#include "ops/trace.h"

namespace evros::tests {

inline std::string source_path(const std::string& path) { return std::string(EVROS_SOURCE_DIR) + "/" + path; }
/// What is unpacked of tests/data/micro/reference.tar.xz.
inline std::string micro_file(const std::string& name) { return std::string(EVROS_BINARY_DIR) + "/micro/" + name; }
inline std::string micro_gguf(const std::string& type) {
  return std::string(EVROS_BINARY_DIR) + "/micro/gguf/micro-" + type + ".gguf";
}

using Golden = std::map<std::string, ops::TraceTensor>;

inline Golden load_golden(const std::string& path) {
  Golden golden;
  auto file = format::open_safetensors_file(io::real_io(), path);
  EXPECT_TRUE(file.ok()) << file.error().message;
  for (const format::SafeTensor& tensor : file->tensors) {
    ops::TraceTensor& value = golden[tensor.name];
    value.dtype = tensor.dtype;
    value.shape = tensor.shape;
    value.data.resize(tensor.bytes);
    EXPECT_TRUE(file->files[tensor.file]->read_at(tensor.offset, value.data).ok());
  }
  return golden;
}

inline float max_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= most)) most = difference;  // NaN sticks
  }
  return most;
}

/// Opens or fails the test.
inline std::unique_ptr<engine::Engine> must_load(const std::string& path, const engine::EngineOptions& options) {
  auto engine = engine::Engine::load(io::real_io(), path, options);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return engine.ok() ? std::move(engine).value() : nullptr;
}

inline ops::Trace must_trace(engine::Engine& engine, std::span<const int32_t> tokens, std::span<const int64_t> chunks,
                             const std::string& prefix) {
  const auto session = engine.open();
  EXPECT_TRUE(session.ok());
  auto trace = ops::run_trace(engine, *session, tokens, chunks, prefix);
  EXPECT_TRUE(trace.ok()) << (trace.ok() ? "" : trace.error().message);
  EXPECT_TRUE(engine.close(*session).ok());
  return trace.ok() ? std::move(trace).value() : ops::Trace{};
}

/// The options of the reference comparisons: float cache, so that nothing is rounded.
inline engine::EngineOptions reference_options(int32_t chunk) {
  engine::EngineOptions options;
  options.kv = "f32";
  return ops::trace_options(options, chunk);
}

}  // namespace evros::tests
