// Finds added tokens in text: leftmost first, of those the longest. Internal to this folder.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace evros::text {

/// Immutable after the last add; then any thread may search.
class SpecialTrie {
 public:
  /// `text` must not be empty. The id replaces an earlier one of the same text.
  void add(std::string_view text, int32_t id);
  bool empty() const { return last_node_ == 0; }

  struct Match {
    size_t begin, end;
    int32_t id;
  };
  /// The first match at or after `from`; id is -1 and begin is text.size() when there is none.
  Match find(std::string_view text, size_t from) const;

 private:
  static uint64_t edge(uint32_t node, char c) { return uint64_t{node} << 8 | static_cast<uint8_t>(c); }

  std::array<bool, 256> starts_{};                // bytes that begin a token
  std::unordered_map<uint64_t, uint32_t> edges_;  // (node, byte) -> node; the root is 0
  std::unordered_map<uint32_t, int32_t> ids_;     // nodes at which a token ends
  uint32_t last_node_ = 0;
};

}  // namespace evros::text
