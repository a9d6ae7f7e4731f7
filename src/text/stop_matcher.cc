#include "text/stop_matcher.h"

#include <algorithm>

namespace evros::text {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  auto patterns = std::make_shared<std::vector<Pattern>>();
  for (size_t s = 0; s < stops.size(); ++s) {
    const std::string& text = stops[s];
    if (text.empty()) continue;
    std::vector<uint32_t> fallback(text.size() + 1, 0);
    for (size_t n = 1; n < text.size(); ++n) {
      uint32_t border = fallback[n];
      while (border > 0 && text[border] != text[n]) border = fallback[border];
      fallback[n + 1] = text[border] == text[n] ? border + 1 : 0;
    }
    patterns->push_back({text, std::move(fallback), static_cast<int32_t>(s)});
  }
  progress_.assign(patterns->size(), 0);
  patterns_ = std::move(patterns);
}

std::string StopMatcher::push(std::string_view text) {
  if (matched()) return {};
  if (patterns_->empty()) return std::string(text);
  std::string all = std::move(held_);
  held_.clear();
  const size_t fresh = all.size();
  all.append(text);
  for (size_t i = fresh; i < all.size(); ++i) {
    size_t longest = 0;
    for (size_t p = 0; p < patterns_->size(); ++p) {
      const Pattern& pattern = (*patterns_)[p];
      uint32_t& n = progress_[p];
      while (n > 0 && pattern.text[n] != all[i]) n = pattern.fallback[n];
      if (pattern.text[n] == all[i]) ++n;
      if (n < pattern.text.size()) continue;
      if (n > longest) longest = n, match_ = pattern.index;
      n = 0;
    }
    if (matched()) return all.substr(0, i + 1 - longest);
  }
  const size_t hold = *std::max_element(progress_.begin(), progress_.end());
  held_ = all.substr(all.size() - hold);
  all.resize(all.size() - hold);
  return all;
}

std::string StopMatcher::flush() {
  std::string out = std::move(held_);
  held_.clear();
  std::fill(progress_.begin(), progress_.end(), 0);
  return out;
}

}  // namespace evros::text
