// The micro model and comparisons of whole sessions, for the tests of engine/.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"

namespace evros::engine::testing {

inline const std::string kMicro = std::string(EVROS_BINARY_DIR) + "/micro/hf";

inline std::unique_ptr<Engine> load_micro(const EngineOptions& options) {
  auto engine = Engine::load(io::real_io(), kMicro, options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(engine).value();
}

/// All digests of a session in one string, for EXPECT_EQ.
inline std::string all_digests(const Engine& engine, SessionId session) {
  const auto digests = engine.digests(session);
  EXPECT_TRUE(digests.ok());
  std::string out = digests->combined;
  for (const auto& [owner, hex] : digests->owners) out += "\n" + owner + " " + hex;
  return out;
}

/// The digests after `tokens` in a session that never had others.
inline std::string fresh_digests(Engine& engine, const std::vector<int32_t>& tokens) {
  const auto session = engine.open();
  EXPECT_TRUE(session.ok());
  EXPECT_TRUE(tokens.empty() || engine.append(*session, tokens).ok());
  std::string digests = all_digests(engine, *session);
  EXPECT_TRUE(engine.close(*session).ok());
  return digests;
}

inline Code code(const Status& status) { return status.ok() ? Code{} : status.error().code; }

}  // namespace evros::engine::testing
