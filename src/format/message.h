// Words for error sentences about files. Names in a file are untrusted: they are shown shortened and with everything
// but printable ASCII escaped, so that a damaged file cannot write control characters to a terminal or a log.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evros::format {

/// `text` in quotes, at most 80 characters of it, other than printable ASCII as \xNN.
std::string quoted(std::string_view text);

/// "[2560, 640, 512]".
std::string shape_text(std::span<const uint64_t> dims);

/// Collects what is wrong with many tensors, so that a user learns all of it at once.
class Problems {
 public:
  void add(std::string sentence) { list_.push_back(std::move(sentence)); }
  bool empty() const { return list_.empty(); }
  /// "PATH: N problems: a; b; ...": the first dozen in full, then "and N more". CHECKed: not empty.
  Error error(Code code, std::string_view path) const;

 private:
  std::vector<std::string> list_;
};

}  // namespace evros::format
