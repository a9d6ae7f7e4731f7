// What the tests named after users' troubles share: token sequences that repeat and end, engines on the bundled models,
// and cold runs to compare with.
#pragma once

#include "base/rng.h"
#include "golden.h"
#include "image.h"

namespace evros::tests {

using Tokens = std::vector<int32_t>;

/// `count` ids with what the n-gram window reacts to: ids that repeat, and the PLE's end-of-text in one of eight
/// places.
inline Tokens draw_tokens(const engine::Engine& engine, uint64_t seed, size_t count) {
  const auto& hyper = engine.model().hyper;
  Tokens tokens;
  for (size_t i = 0; i < count; ++i) {
    const double kind = uniform(seed, 0, i), value = uniform(seed, 1, i);
    const int32_t range = kind < 0.3 ? 8 : hyper.vocab;
    tokens.push_back(kind > 0.875 ? static_cast<int32_t>(hyper.ple_eos) : static_cast<int32_t>(value * range));
  }
  return tokens;
}

inline Tokens operator+(Tokens a, std::span<const int32_t> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Tokens first_of(std::span<const int32_t> tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count)};
}

inline Tokens after(std::span<const int32_t> tokens, size_t count) {
  return {tokens.begin() + static_cast<ptrdiff_t>(count), tokens.end()};
}

struct Size {
  int32_t sessions = 1, batch = 1, chunk = 64;
  int64_t context = 512;
  int threads = 1;
  int32_t checkpoints = 0;
};

inline std::unique_ptr<engine::Engine> load_sized(const std::string& path, const Size& size) {
  engine::EngineOptions options;
  options.sessions = size.sessions;
  options.batch = size.batch;
  options.chunk = size.chunk;
  options.context = size.context;
  options.threads = size.threads;
  options.checkpoints = size.checkpoints;
  auto engine = must_load(path, options);
  CHECK(engine != nullptr);
  return engine;
}

inline std::unique_ptr<engine::Engine> load_micro(const Size& size) { return load_sized(micro_file("hf"), size); }

/// An engine that runs whole sequences in fresh sessions and nothing else.
inline engine::Engine& cold_micro() {
  static const auto engine = load_micro({});
  return *engine;
}

inline void must_append(engine::Engine& engine, engine::SessionId session, std::span<const int32_t> tokens) {
  const Status status = engine.append(session, tokens);
  ASSERT_TRUE(status.ok()) << status.error().message;
}

inline engine::SessionId must_open(engine::Engine& engine) {
  const auto session = engine.open();
  CHECK(session.ok());
  return *session;
}

inline engine::SessionId must_fork(engine::Engine& engine, engine::SessionId from) {
  const auto session = engine.fork(from);
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  CHECK(session.ok());
  return *session;
}

inline void must_close(engine::Engine& engine, engine::SessionId session) { ASSERT_TRUE(engine.close(session).ok()); }

/// All that two equal histories must agree in: the image's bytes and the digest of every owner.
struct Whole {
  SessionImage image;
  std::map<std::string, std::string> digests;
  bool operator==(const Whole&) const = default;
};

inline void PrintTo(const Whole& whole, std::ostream* out) {
  *out << whole.image.frontier << " tokens";
  for (const auto& [owner, hex] : whole.digests) *out << "\n  " << owner << " " << hex;
}

inline Whole whole_of(const engine::Engine& engine, engine::SessionId session) {
  Whole whole{image_of(engine, session), {}};
  const auto digests = engine.digests(session);
  EXPECT_TRUE(digests.ok()) << (digests.ok() ? "" : digests.error().message);
  CHECK(digests.ok());
  for (const auto& each : digests->owners) whole.digests[each.owner] = each.hex;
  whole.digests["combined"] = digests->combined;
  return whole;
}

/// The same after `tokens` in a session that never held anything else.
inline Whole cold_whole(engine::Engine& cold, std::span<const int32_t> tokens) {
  const auto session = cold.open();
  CHECK(session.ok());
  const Status status = cold.append(*session, tokens);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  Whole whole = whole_of(cold, *session);
  CHECK(cold.close(*session).ok());
  return whole;
}

/// Logits after each token of `tokens`, one at a time.
inline std::vector<std::vector<float>> logits_along(engine::Engine& engine, engine::SessionId session,
                                                    std::span<const int32_t> tokens) {
  std::vector<std::vector<float>> logits;
  for (const int32_t& id : tokens) {
    const Status status = engine.append(session, {&id, 1});
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    logits.push_back(logits_of(engine, session));
  }
  return logits;
}

inline int32_t greedy(const engine::Engine& engine, engine::SessionId session) {
  const auto logits = logits_of(engine, session);
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace evros::tests
