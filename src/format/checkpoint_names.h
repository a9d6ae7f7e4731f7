// Finding tensors of a checkpoint by name, with the prefix that its exporter used, and keeping account of what was
// found wrong. Private to format.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "format/message.h"
#include "format/safetensors.h"

namespace evros::format {

class CheckpointNames {
 public:
  explicit CheckpointNames(const SafeTensors& stored);

  /// "model.language_model." or "model.", whatever stands before embed_tokens.weight.
  const std::string& prefix() const { return prefix_; }
  bool has(std::string_view name) const { return tensors_.contains(name); }
  /// Marks the tensor as used; null when absent.
  const SafeTensor* take(std::string_view name);
  /// The tensor, which must have this shape and a dtype that ggml knows; null and a problem otherwise.
  const SafeTensor* need(std::string_view name, const std::vector<uint64_t>& shape);
  /// The numbered parts of an n-gram table in numeric order (or the whole table, when it is not split). A gap in the
  /// numbers is a problem.
  std::vector<const SafeTensor*> table_shards(const std::string& ple_prefix);
  /// Adds a problem for every tensor that nobody took and that is not known to be without meaning for text.
  void refuse_unused(bool has_mtp, bool tied);

  Problems& problems() { return problems_; }

 private:
  const SafeTensors& stored_;
  std::string prefix_;
  std::unordered_map<std::string_view, const SafeTensor*> tensors_;
  std::unordered_set<std::string_view> used_;
  Problems problems_;
};

}  // namespace evros::format
