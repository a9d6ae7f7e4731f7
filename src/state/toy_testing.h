// A toy model for the tests of the store: every byte of an image is a function of the token history, so that any reader
// can tell whether it sees exactly one history, whole. A bank carries a running hash from the public bank to the
// private one, as the real recurrent state does; page rows carry the hash after their last token.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "state/store.h"

namespace evros::state::toy {

constexpr int32_t kPageTokens = 8;
constexpr uint64_t kSeed = 0x9E3779B97F4A7C15U;

inline uint64_t mix(uint64_t hash, int32_t token) {
  uint64_t x = hash ^ (static_cast<uint64_t>(static_cast<uint32_t>(token)) + kSeed);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// Byte i of whatever hash `h` fills.
inline std::byte spread(uint64_t h, uint64_t i) {
  const uint64_t word = (h + i / 8) * 0xD6E8FEB86659FD93U;
  return i < 8 ? static_cast<std::byte>(h >> (8 * i)) : static_cast<std::byte>(word >> (8 * (i % 8)));
}

inline void fill(std::byte* to, uint64_t bytes, uint64_t h) {
  for (uint64_t i = 0; i < bytes; ++i) to[i] = spread(h, i);
}

inline bool filled(const std::byte* from, uint64_t bytes, uint64_t h) {
  for (uint64_t i = 0; i < bytes; ++i) {
    if (from[i] != spread(h, i)) return false;
  }
  return true;
}

inline Layout layout() {
  Layout l;
  l.bank = {{Owner::gdn_state, 0, 72}, {Owner::residual, 128, 40}};
  l.bank_bytes = 192;
  l.page = {
      {Owner::kv_rows, 0, 0, 8, 1, 8}, {Owner::kv_rows, 1, 64, 12, 1, 8}, {Owner::index_blocks, 1, 160, 16, 4, 2}};
  l.page_bytes = 192;
  l.page_tokens = kPageTokens;
  l.origin.resize(l.bank_bytes);
  for (const BankSlice& slice : l.bank) fill(l.origin.data() + slice.offset, slice.bytes, kSeed);
  return l;
}

/// Hash after each prefix; entry 0 is the empty one.
inline std::vector<uint64_t> prefix_hashes(std::span<const int32_t> tokens) {
  std::vector<uint64_t> out{kSeed};
  for (const int32_t token : tokens) out.push_back(mix(out.back(), token));
  return out;
}

/// What the stages of a forward pass do: read the public bank, write the private bank and the new rows. With `rubbish`,
/// they also scribble over the rows behind, which nobody may ever see.
inline void run_stages(const Layout& l, const Image& image, std::span<const int32_t> tokens, bool rubbish) {
  std::vector<uint64_t> after{load<uint64_t>(image.bank_in)};
  for (const int32_t token : tokens) after.push_back(mix(after.back(), token));
  for (const BankSlice& slice : l.bank) fill(image.bank_out + slice.offset, slice.bytes, after.back());
  const int64_t end = image.frontier + image.tokens;
  const int64_t stop = rubbish ? (end + l.page_tokens - 1) / l.page_tokens * l.page_tokens : end;
  for (const PagePart& part : l.page) {
    for (int64_t p = image.frontier; p < stop; ++p) {
      if ((p + 1) % part.tokens_per_row != 0) continue;  // a row is written with its last token
      const int64_t row = p % l.page_tokens / part.tokens_per_row;
      std::byte* to = image.pages[p / l.page_tokens] + part.offset + static_cast<uint64_t>(row) * part.row_bytes;
      const uint64_t h = p < end ? after[static_cast<size_t>(p - image.frontier + 1)] : 0xDEADBEEFU;
      fill(to, part.row_bytes, h);
    }
  }
}

/// Does the view show the image of `tokens`, every byte of it?
inline bool shows(const Layout& l, const View& view, std::span<const int32_t> tokens) {
  if (view.frontier() != static_cast<int64_t>(tokens.size())) return false;
  std::vector<int32_t> seen(tokens.size());
  view.tokens(0, seen);
  if (!std::equal(seen.begin(), seen.end(), tokens.begin())) return false;
  const std::vector<uint64_t> after = prefix_hashes(tokens);
  for (const BankSlice& slice : l.bank) {
    if (!filled(view.bank() + slice.offset, slice.bytes, after.back())) return false;
  }
  for (const PagePart& part : l.page) {
    for (size_t last = part.tokens_per_row - 1; last < tokens.size();
         last += static_cast<size_t>(part.tokens_per_row)) {
      const int64_t p = static_cast<int64_t>(last), row = p % l.page_tokens / part.tokens_per_row;
      const std::byte* at = view.pages()[p / l.page_tokens] + part.offset + static_cast<uint64_t>(row) * part.row_bytes;
      if (!filled(at, part.row_bytes, after[last + 1])) return false;
    }
  }
  return true;
}

/// The same without knowing the history: the view is consistent in itself with the tokens that it shows.
inline bool shows_one_history(const Layout& l, const View& view) {
  std::vector<int32_t> tokens(static_cast<size_t>(view.frontier()));
  view.tokens(0, tokens);
  return shows(l, view, tokens);
}

}  // namespace evros::state::toy
