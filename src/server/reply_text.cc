#include "server/reply_text.h"

namespace evros::server {

std::string ReplyText::push(bool thinking, std::string_view text) {
  if (text.empty()) return {};
  if (thinking != thinking_) {
    thinking_ = thinking;
    leading_ = true;
    held_ = 0;  // they ended the thinking
  }
  if (leading_) {
    const size_t first = text.find_first_not_of('\n');
    if (first == std::string_view::npos) return {};
    text.remove_prefix(first);
    leading_ = false;
  }
  if (!thinking) return std::string(text);
  const size_t last = text.find_last_not_of('\n');
  if (last == std::string_view::npos) {
    held_ += text.size();
    return {};
  }
  std::string out(held_, '\n');
  out += text.substr(0, last + 1);
  held_ = text.size() - last - 1;
  return out;
}

}  // namespace evros::server
