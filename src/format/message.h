// Words for error sentences about files. Names in a file are untrusted: they are shown shortened and with everything
// but printable ASCII escaped, so that a damaged file cannot write control characters to a terminal or a log.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/tensor_type.h"

namespace evros::format {

/// `text` in quotes, at most 80 characters of it, other than printable ASCII as \xNN.
std::string quoted(std::string_view text);

/// "[2560, 640, 512]".
std::string shape_text(std::span<const uint64_t> dims);

/// Collects what is wrong with many tensors, so that a user learns all of it at once. Tensors with the same fault stand in one
/// group, all of them, however many: `24 tensors have the unknown type 99: "a", "b", ...`.
class Problems {
 public:
  /// A fault of its own kind.
  void add(std::string sentence) { list_.push_back(std::move(sentence)); }
  /// A tensor whose fault others may share: "is missing", "are missing".
  void add_tensor(std::string_view name, std::string_view singular, std::string_view plural);
  /// A tensor whose type keeps the model from running, as can_run() or the tensor's purpose says.
  void add_type(std::string_view name, TensorType type);
  /// A tensor whose type no type_info() knows.
  void add_unknown_type(std::string_view name, uint32_t id);

  bool empty() const { return list_.empty() && groups_.empty(); }
  /// "PATH: N problems: a; b; ...", or "PATH: a" where one sentence says it all: every group in full, N counting its tensors, then
  /// the first dozen of the other sentences and "and N more". Where types are at fault, the last words say which ones run.
  /// CHECKed: not empty.
  Error error(Code code, std::string_view path) const;

 private:
  struct Group {
    std::string singular, plural;
    std::vector<std::string> names;
  };
  std::vector<std::string> list_;
  std::vector<Group> groups_;
  bool types_ = false;
};

}  // namespace evros::format
