// Prints a reply as it comes, the thoughts apart from the answer.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace evros::cli {

/// Text up to "</think>" is thought when the prompt ends inside the model's thinking; the answer, without the line breaks
/// before it, goes to standard output alone. One thread.
class ReplyPrinter {
 public:
  /// `thoughts`: where thoughts go, dimmed when that is a terminal that shows it; null hides them.
  ReplyPrinter(bool thinking, std::FILE* thoughts, bool dim) : thinking_(thinking), thoughts_(thoughts), dim_(dim) {}

  /// False when standard output takes no more.
  bool push(std::string_view text);
  /// The reply has ended, in its thoughts perhaps.
  void finish();
  /// Is something on standard output?
  bool answered() const { return answered_; }

 private:
  void think(std::string_view text);
  void end_thoughts();

  bool thinking_;
  std::FILE* thoughts_;
  bool dim_;
  std::string held_;  // the end of the thoughts so far that may begin "</think>"
  bool thought_ = false, after_thoughts_ = false, answered_ = false;
};

}  // namespace evros::cli
