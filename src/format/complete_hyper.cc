#include <algorithm>

#include "base/bytes.h"
#include "base/str.h"
#include "format/canonical.h"
#include "format/checkpoint_names.h"

namespace evros::format {
namespace {

/// The int64 buffer `name` of `count` non-negative numbers.
Result<std::vector<uint64_t>> read_buffer(const SafeTensors& stored, const SafeTensor& tensor, uint64_t count,
                                          const std::string& path) {
  if (tensor.dtype != "I64" || tensor.shape != std::vector<uint64_t>{count}) {
    return Error{Code::bad_file, cat(path, ": tensor ", quoted(tensor.name), " is ", tensor.dtype, ' ',
                                     shape_text(tensor.shape), "; wanted I64 [", count, ']')};
  }
  std::vector<uint64_t> values(static_cast<size_t>(count));
  EVROS_TRY(stored.files[tensor.file]->read_at(tensor.offset, std::as_writable_bytes(std::span(values))));
  for (const uint64_t value : values) {
    if (value >> 63 != 0)
      return Error{Code::bad_file, cat(path, ": tensor ", quoted(tensor.name), " holds ", static_cast<int64_t>(value),
                                       "; wanted non-negative numbers")};
  }
  return values;
}

/// The three buffers of one PLE layer, or their derivation when none of them is there.
Status read_constants(const SafeTensors& stored, CheckpointNames& names, const ModelConfig& config, uint32_t index,
                      const std::string& prefix, PleLayer& layer, const std::string& path) {
  const HyperParams& h = config.hyper;
  const std::string stem = prefix + "ple_embedding.";
  const SafeTensor* multipliers = names.take(stem + "layer_multipliers");
  const SafeTensor* sizes = names.take(stem + "ngram_heads_vocab_sizes");
  const SafeTensor* offsets = names.take(stem + "ngram_heads_offsets");
  if (multipliers == nullptr && sizes == nullptr && offsets == nullptr) {
    if (config.ngram.vocab_base < 1) {
      return Error{Code::bad_file, cat(path, ": tensor ", quoted(stem + "layer_multipliers"),
                                       " is missing and config.json has no ngram_vocab_size_base to derive it from")};
    }
    const int32_t number = layer.layer;
    layer = derive_ple(config.ngram, index);
    layer.layer = number;
    return {};
  }
  if (multipliers == nullptr || sizes == nullptr || offsets == nullptr) {
    return Error{Code::bad_file,
                 cat(path, ": of the tensors ", quoted(stem + "layer_multipliers"),
                     ", ngram_heads_vocab_sizes and ngram_heads_offsets some are missing; wanted all or none")};
  }
  const auto heads = static_cast<uint64_t>(h.ple_heads());
  EVROS_ASSIGN(layer.multipliers, read_buffer(stored, *multipliers, static_cast<uint64_t>(h.ngram_size), path));
  EVROS_ASSIGN(layer.head_vocab, read_buffer(stored, *sizes, heads, path));
  EVROS_ASSIGN(layer.head_offset, read_buffer(stored, *offsets, heads, path));
  return {};
}

/// Rows of one table; 0 when a shard has an impossible shape, which canonical_tensors then reports.
Result<uint64_t> table_rows(CheckpointNames& names, const std::string& prefix, const std::string& path) {
  uint64_t rows = 0;
  for (const SafeTensor* shard : names.table_shards(prefix)) {
    if (shard->shape.size() != 2) {
      return Error{Code::bad_file, cat(path, ": tensor ", quoted(shard->name), " has shape ", shape_text(shard->shape),
                                       "; wanted rows and columns")};
    }
    const auto sum = checked_add(rows, shard->shape[0]);
    if (!sum || *sum >> 40 != 0)
      return Error{Code::bad_file, cat(path, ": tensor ", quoted(shard->name), " has ", shard->shape[0],
                                       " rows; wanted at most 2^40 in the whole table")};
    rows = *sum;
  }
  if (!names.problems().empty()) return names.problems().error(Code::bad_file, path);
  return rows;
}

}  // namespace

Status complete_hyper(const SafeTensors& stored, ModelConfig& config, const std::string& path) {
  CheckpointNames names(stored);
  HyperParams& h = config.hyper;
  h.ple_table_rows = 0;
  for (uint32_t k = 0; k < h.ple.size(); ++k) {
    PleLayer& layer = h.ple[k];
    const std::string prefix = cat(names.prefix(), "layers.", layer.layer, ".ple.");
    EVROS_TRY(read_constants(stored, names, config, k, prefix, layer, path));
    EVROS_ASSIGN(const uint64_t rows, table_rows(names, prefix, path));
    for (size_t i = 0; i < layer.head_offset.size(); ++i) {
      const uint64_t offset = layer.head_offset[i], size = layer.head_vocab[i];
      if (size > rows || offset > rows - size) {
        return Error{Code::bad_file, cat(path, ": tensor ", quoted(prefix + "ple_embedding.ngram_heads_offsets"),
                                         " puts head ", i, " at row ", offset, " with ", size,
                                         " rows; wanted all of it inside the table's ", rows, " rows")};
      }
      layer.head_offset[i] = offset + h.ple_table_rows;
    }
    h.ple_table_rows += rows;
  }
  const bool has_mtp = std::any_of(stored.tensors.begin(), stored.tensors.end(),
                                   [](const SafeTensor& t) { return t.name.starts_with("mtp."); });
  if (!has_mtp) h.mtp_layers = 0;
  return {};
}

}  // namespace evros::format
