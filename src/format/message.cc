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

void Problems::add_tensor(std::string_view name, std::string_view singular, std::string_view plural) {
  auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.plural == plural; });
  if (group == groups_.end()) group = groups_.insert(group, {std::string(singular), std::string(plural), {}});
  // Two halves of one stored tensor are one tensor for whoever reads this.
  if (group->names.empty() || group->names.back() != name) group->names.emplace_back(name);
}

void Problems::add_type(std::string_view name, TensorType type) {
  types_ = true;
  const std::string what = cat("type ", type_info(type).name,
                               can_run(type) ? " (wanted F32, F16 or BF16 here)" : ", which is not supported");
  add_tensor(name, "has " + what, "have " + what);
}

void Problems::add_unknown_type(std::string_view name, uint32_t id) {
  types_ = true;
  add_tensor(name, cat("has the unknown type ", id), cat("have the unknown type ", id));
}

Error Problems::error(Code code, std::string_view path) const {
  CHECK(!empty());
  size_t count = list_.size();
  for (const Group& group : groups_) count += group.names.size();
  const bool one_sentence = groups_.size() + list_.size() == 1;
  std::string message = one_sentence ? cat(path, ": ") : cat(path, ": ", count, " problems: ");
  const char* between = "";
  for (const Group& group : groups_) {
    const bool one = group.names.size() == 1;
    message += one ? cat(between, "tensor ", quoted(group.names[0]), ' ', group.singular)
                   : cat(between, group.names.size(), " tensors ", group.plural, ": ");
    for (size_t i = 0; !one && i < group.names.size(); ++i) message += cat(i == 0 ? "" : ", ", quoted(group.names[i]));
    between = "; ";
  }
  for (size_t i = 0; i < std::min(list_.size(), kShownProblems); ++i) {
    message += cat(between, list_[i]);
    between = "; ";
  }
  if (list_.size() > kShownProblems) message += cat("; and ", list_.size() - kShownProblems, " more");
  if (types_) message += cat("; supported are ", runnable_types());
  return {code, std::move(message)};
}

}  // namespace evros::format
