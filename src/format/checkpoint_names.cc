#include "format/checkpoint_names.h"

#include <algorithm>
#include <charconv>

#include "base/str.h"

namespace evros::format {

CheckpointNames::CheckpointNames(const SafeTensors& stored) : stored_(stored) {
  for (const SafeTensor& tensor : stored.tensors) tensors_.emplace(tensor.name, &tensor);
  prefix_ = "model.language_model.";
  for (const char* prefix : {"model.language_model.", "model.", "language_model.model.", ""}) {
    if (!has(cat(prefix, "embed_tokens.weight"))) continue;
    prefix_ = prefix;
    break;
  }
}

const SafeTensor* CheckpointNames::take(std::string_view name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return nullptr;
  used_.insert(found->first);
  return found->second;
}

const SafeTensor* CheckpointNames::need(std::string_view name, const std::vector<uint64_t>& shape) {
  const SafeTensor* tensor = take(name);
  if (tensor == nullptr) {
    problems_.add(cat("tensor ", quoted(name), " is missing"));
  } else if (!tensor->type()) {
    problems_.add(cat("tensor ", quoted(name), " has dtype ", quoted(tensor->dtype), "; wanted BF16, F16 or F32"));
  } else if (tensor->shape != shape) {
    problems_.add(
        cat("tensor ", quoted(name), " has shape ", shape_text(tensor->shape), "; wanted ", shape_text(shape)));
  } else {
    return tensor;
  }
  return nullptr;
}

std::vector<const SafeTensor*> CheckpointNames::table_shards(const std::string& ple_prefix) {
  const std::string stem = cat(ple_prefix, "ple_embedding.ngram_embedding.");
  if (const SafeTensor* whole = take(stem + "weight")) return {whole};
  static constexpr std::string_view kShard = "shard_", kEnd = ".weight";
  std::vector<std::pair<uint64_t, const SafeTensor*>> numbered;
  for (const auto& [name, tensor] : tensors_) {
    if (!name.starts_with(stem + std::string(kShard)) || !name.ends_with(kEnd)) continue;
    const size_t start = stem.size() + kShard.size();
    if (name.size() < start + kEnd.size()) continue;
    const std::string_view digits = name.substr(start, name.size() - start - kEnd.size());
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size()) numbered.emplace_back(number, tensor);
  }
  std::sort(numbered.begin(), numbered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const SafeTensor*> shards;
  for (const auto& [number, tensor] : numbered) {
    if (number != shards.size()) {
      problems_.add(cat("tensor ", quoted(cat(stem, kShard, shards.size(), kEnd)), " is missing, although there is ",
                        quoted(tensor->name)));
      return {};
    }
    used_.insert(tensor->name);
    shards.push_back(tensor);
  }
  if (shards.empty()) problems_.add(cat("tensor ", quoted(cat(stem, kShard, "0", kEnd)), " is missing"));
  return shards;
}

void CheckpointNames::refuse_unused(bool has_mtp, bool tied) {
  const auto is_meaningless = [&](std::string_view name) {
    return name.starts_with("model.visual.") || name.starts_with("visual.") || name.ends_with("rotary_emb.inv_freq") ||
           (!has_mtp && name.starts_with("mtp.")) || (tied && name.ends_with("lm_head.weight"));
  };
  for (const SafeTensor& tensor : stored_.tensors) {
    if (used_.contains(tensor.name) || is_meaningless(tensor.name)) continue;
    const std::string& path = stored_.files[tensor.file]->path();
    problems_.add(cat("tensor ", quoted(tensor.name), " of ", path.substr(path.rfind('/') + 1),
                      " is unknown to this build and cannot be left out"));
  }
}

}  // namespace evros::format
