// The text of one reply as people see it: the model's thinking and its answer, without the newlines that only border them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace evros::server {

/// A chat template puts "<think>\n" before and "\n</think>\n\n" after the thinking. Those newlines are neither thinking nor
/// answer: newlines that lead or end a stretch of thinking, and those that lead the answer after it, are left out. What comes
/// out, put together, depends only on the text that went in, not on how it was cut. An answer without thinking before it is
/// left as it is. Not thread-safe.
class ReplyText {
 public:
  /// `open`: the prompt ends inside thinking.
  explicit ReplyText(bool open) : leading_(open) {}

  /// The text that is settled by this one, to be added to what came out for the same `thinking`.
  std::string push(bool thinking, std::string_view text);

 private:
  bool thinking_ = false;  // of the last text
  bool leading_;           // nothing but newlines since the stretch began
  size_t held_ = 0;        // newlines of thinking that may end it
};

}  // namespace evros::server
