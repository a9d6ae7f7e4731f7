// The public image of a session as bytes that may be compared: what docs/state.md calls its owners, and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "base/check.h"
#include "engine/engine.h"

namespace evros::tests {

struct SessionImage {
  int64_t frontier = 0;
  std::vector<int32_t> tokens;
  std::vector<std::byte> bank;  // every banked owner: states, histories, residual, routes, newest logits, position
  std::vector<std::byte> rows;  // every appended row that exists below the frontier, by part and position
  bool operator==(const SessionImage&) const = default;
};

inline SessionImage image_of(const engine::Engine& engine, engine::SessionId session) {
  const state::Layout& layout = engine.model().state.layout;
  auto taken = engine.store().view(session);
  CHECK(taken.ok());
  const state::View view = std::move(taken).value();
  SessionImage image;
  image.frontier = view.frontier();
  image.tokens.resize(static_cast<size_t>(image.frontier));
  view.tokens(0, image.tokens);
  const auto add = [&](std::vector<std::byte>& to, const std::byte* from, uint64_t bytes) {
    to.resize(to.size() + bytes);
    CHECK(engine.device().download(std::span(to).last(bytes), from).ok());
  };
  for (const state::BankSlice& slice : layout.bank) add(image.bank, view.bank() + slice.offset, slice.bytes);
  for (const state::PagePart& part : layout.page) {
    for (int64_t row = 0; row < image.frontier / part.tokens_per_row; ++row) {
      const std::byte* page = view.pages()[row / part.rows_per_page];
      add(image.rows, page + part.offset + static_cast<uint64_t>(row % part.rows_per_page) * part.row_bytes,
          part.row_bytes);
    }
  }
  return image;
}

inline std::vector<float> logits_of(const engine::Engine& engine, engine::SessionId session) {
  std::vector<float> logits(static_cast<size_t>(engine.model().hyper.vocab));
  const Status status = engine.logits(session, logits);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return logits;
}

/// The image after `tokens` in one session of its own.
inline SessionImage solo_image(engine::Engine& engine, std::span<const int32_t> tokens) {
  const auto session = engine.open();
  CHECK(session.ok());
  const Status status = engine.append(*session, tokens);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  SessionImage image = image_of(engine, *session);
  CHECK(engine.close(*session).ok());
  return image;
}

}  // namespace evros::tests
