#include "cli/reply_printer.h"

#include <algorithm>

namespace evros::cli {
namespace {

constexpr std::string_view kThinkEnd = "</think>";

/// How many bytes at the end of `text` begin kThinkEnd.
size_t begun(std::string_view text) {
  size_t n = std::min(text.size(), kThinkEnd.size() - 1);
  while (n > 0 && !text.ends_with(kThinkEnd.substr(0, n))) --n;
  return n;
}

}  // namespace

bool ReplyPrinter::push(std::string_view text) {
  std::string all;
  if (thinking_) {
    all = held_.append(text);
    const size_t end = all.find(kThinkEnd);
    const size_t thought = end == std::string::npos ? all.size() - begun(all) : end;
    think(std::string_view(all).substr(0, thought));
    held_ = all.substr(thought);
    if (end == std::string::npos) return true;
    end_thoughts();
    text = std::string_view(all).substr(end + kThinkEnd.size());
  }
  if (after_thoughts_ && !answered_) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  if (text.empty()) return true;
  answered_ = true;
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

void ReplyPrinter::finish() {
  if (!thinking_) return;
  think(held_);
  end_thoughts();
}

void ReplyPrinter::think(std::string_view text) {
  if (thoughts_ == nullptr || text.empty()) return;
  if (!thought_ && dim_) std::fputs("\033[2m", thoughts_);
  thought_ = true;
  std::fwrite(text.data(), 1, text.size(), thoughts_);
  std::fflush(thoughts_);
}

void ReplyPrinter::end_thoughts() {
  thinking_ = false;
  after_thoughts_ = true;
  if (!thought_) return;
  std::fputs(dim_ ? "\033[0m\n" : "\n", thoughts_);
  std::fflush(thoughts_);
}

}  // namespace evros::cli
