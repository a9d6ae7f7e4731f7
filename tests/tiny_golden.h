// models/evros-tiny and its reference values, shared by the tests that compare with them.
#pragma once

#include "golden.h"

namespace evros::tests {

/// Absolute difference allowed between two float32 implementations of this model.
constexpr float kTinyTolerance = 2e-4f;
constexpr const char* kTinyPrompts[] = {"story", "qa", "lookup", "tool", "multi", "raw"};
/// Chunks of the traced runs; a result depends on tokens alone, so any sizes do.
constexpr int64_t kTinyChunks[] = {128};

inline const Golden& tiny_golden() {
  static const Golden golden = load_golden(source_path("models/evros-tiny/golden.safetensors"));
  return golden;
}

/// The bundled model with keys and values of type `kv`, loaded once for each type.
inline engine::Engine& tiny_engine(const std::string& kv) {
  static std::map<std::string, std::unique_ptr<engine::Engine>> engines;
  auto& engine = engines[kv];
  if (engine == nullptr) {
    engine::EngineOptions options = reference_options(static_cast<int32_t>(kTinyChunks[0]));
    options.kv = kv;
    options.draft_head = true;
    options.context = 1024;
    engine = must_load(source_path("models/evros-tiny"), options);
  }
  CHECK(engine != nullptr);
  return *engine;
}

}  // namespace evros::tests
