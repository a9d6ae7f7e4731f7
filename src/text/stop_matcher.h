// Stop strings in a stream of text: nothing of a stop string is ever shown, and nothing else is ever held back for good.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace evros::text {

/// The result depends on the concatenated text alone, not on how it was cut into pieces: the match is the one that is
/// complete first, of those the longest. Copyable: a copy continues on its own. Not thread-safe.
class StopMatcher {
 public:
  /// Empty strings are ignored. Without stop strings everything passes at once.
  explicit StopMatcher(const std::vector<std::string>& stops = {});

  /// The text that is safe to show now. What might be the beginning of a stop string stays inside. When a stop string is
  /// complete, returns the text before it; it and everything after it are dropped, and so is all later input.
  std::string push(std::string_view text);

  /// The stream has ended: returns what was held back (nothing after a match).
  std::string flush();

  bool matched() const { return match_ >= 0; }
  /// The index of the stop string that matched, in the constructor's list; -1 before.
  int32_t match() const { return match_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<uint32_t> fallback;  // Knuth-Morris-Pratt: [n] is the longest proper border of the first n bytes
    int32_t index;
  };
  std::shared_ptr<const std::vector<Pattern>> patterns_;
  std::vector<uint32_t> progress_;  // by pattern: how many of its bytes the text so far ends with
  std::string held_;                // the end of the text so far that may begin a stop string
  int32_t match_ = -1;
};

}  // namespace evros::text
