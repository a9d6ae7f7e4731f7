#include "format/message.h"

#include <algorithm>

#include "base/str.h"

namespace evros::format {
namespace {
constexpr size_t kShownCharacters = 80;
constexpr size_t kShownProblems = 12;
}  // namespace

std::string quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kShownCharacters)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  out += '"';
  if (text.size() > kShownCharacters) out += "...";
  return out;
}

std::string shape_text(std::span<const uint64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += cat(i == 0 ? "" : ", ", dims[i]);
  return out + "]";
}

Error Problems::error(Code code, std::string_view path) const {
  CHECK(!list_.empty());
  std::string message = list_.size() == 1 ? cat(path, ": ") : cat(path, ": ", list_.size(), " problems: ");
  for (size_t i = 0; i < std::min(list_.size(), kShownProblems); ++i) message += cat(i == 0 ? "" : "; ", list_[i]);
  if (list_.size() > kShownProblems) message += cat("; and ", list_.size() - kShownProblems, " more");
  return {code, std::move(message)};
}

}  // namespace evros::format
