#include "text/special_trie.h"

#include "base/check.h"

namespace evros::text {

void SpecialTrie::add(std::string_view text, int32_t id) {
  CHECK(!text.empty());
  starts_[static_cast<uint8_t>(text[0])] = true;
  uint32_t node = 0;
  for (const char c : text) {
    const auto [at, fresh] = edges_.try_emplace(edge(node, c), last_node_ + 1);
    if (fresh) ++last_node_;
    node = at->second;
  }
  ids_[node] = id;
}

SpecialTrie::Match SpecialTrie::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<uint8_t>(text[begin])]) continue;
    Match best{begin, begin, -1};
    uint32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const auto next = edges_.find(edge(node, text[i]));
      if (next == edges_.end()) break;
      node = next->second;
      if (const auto id = ids_.find(node); id != ids_.end()) best = {begin, i + 1, id->second};
    }
    if (best.id >= 0) return best;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace evros::text
