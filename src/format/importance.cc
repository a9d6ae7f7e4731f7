#include "format/importance.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>

#include "base/str.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"

namespace evros::format {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";

/// The matrix that a tensor of this suffix is of.
std::optional<std::string> matrix_of(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  return std::string(name.substr(0, name.size() - suffix.size()));
}

Result<std::vector<float>> read_numbers(const GgufSet& set, const GgufTensor& tensor) {
  const io::File& file = *set.files[tensor.file];
  const auto bad = [&](std::string_view what) {
    return Error{Code::bad_file, cat(file.path(), ": tensor ", tensor.name, ' ', what)};
  };
  if (tensor.type != TensorType::f32) return bad(cat("is ", type_info(tensor.type).name, "; F32 is wanted"));
  std::vector<float> values(tensor.bytes / sizeof(float));
  EVROS_TRY(file.read_at(tensor.offset, std::as_writable_bytes(std::span(values))));
  for (const float x : values) {
    if (!(std::isfinite(x) && x >= 0)) return bad(cat("holds ", x, "; finite numbers from 0 are wanted"));
  }
  return values;
}

Status check_entry(const std::string& path, const std::string& name, const ImportanceEntry& entry) {
  const auto bad = [&](std::string_view what) {
    return Error{Code::bad_file, cat(path, ": matrix ", name, ' ', what)};
  };
  if (entry.sums.empty()) return bad(cat("has counts and no tensor ", name, kSums));
  if (entry.counts.empty()) return bad(cat("has sums and no tensor ", name, kCounts));
  const uint64_t experts = entry.sums.size() / entry.columns;
  if (experts == entry.counts.size()) return {};
  return bad(cat("has sums of ", experts, " experts and counts of ", entry.counts.size()));
}

void read_keys(const GgufMetadata& keys, ImportanceMatrix& matrix) {
  const auto number = [&](std::string_view key) {
    const GgufValue* value = keys.find(key);
    return value == nullptr ? 0 : static_cast<uint32_t>(value->unsigned_integer().value_or(0));
  };
  matrix.chunk_count = number("imatrix.chunk_count");
  matrix.chunk_size = number("imatrix.chunk_size");
  const GgufValue* datasets = keys.find("imatrix.datasets");
  if (datasets != nullptr && datasets->texts() != nullptr) matrix.datasets = *datasets->texts();
}

}  // namespace

Result<ImportanceMatrix> read_importance(io::Io& io, const std::string& path) {
  EVROS_ASSIGN(const GgufSet set, open_gguf_set(io, path));
  EVROS_TRY(check_known_types(set, path));
  const GgufValue* type = set.metadata.find("general.type");
  if (type == nullptr || type->text() == nullptr || *type->text() != "imatrix") {
    return Error{Code::bad_file, cat(path, ": general.type is ", type == nullptr ? "missing" : type->short_text(),
                                     "; an importance matrix says \"imatrix\"")};
  }
  ImportanceMatrix matrix;
  read_keys(set.metadata, matrix);
  for (const GgufTensor& tensor : set.tensors) {
    if (const auto of_sums = matrix_of(tensor.name, kSums)) {
      ImportanceEntry& entry = matrix.entries[*of_sums];
      entry.columns = tensor.ne[0];
      EVROS_ASSIGN(entry.sums, read_numbers(set, tensor));
    } else if (const auto of_counts = matrix_of(tensor.name, kCounts)) {
      EVROS_ASSIGN(matrix.entries[*of_counts].counts, read_numbers(set, tensor));
    }
  }
  for (const auto& [name, entry] : matrix.entries) EVROS_TRY(check_entry(path, name, entry));
  return matrix;
}

Status write_importance(io::Io& io, const std::string& path, const ImportanceMatrix& matrix) {
  if (!path.ends_with(".gguf")) {
    return Error{Code::invalid_argument,
                 cat("the importance matrix to write is ", path, "; its name must end in .gguf")};
  }
  GgufWriter writer(io, path);
  writer.set("general.type", GgufValue::string("imatrix"));
  writer.set("imatrix.datasets", GgufValue::array(matrix.datasets));
  writer.set("imatrix.chunk_count", GgufValue::u32(matrix.chunk_count));
  writer.set("imatrix.chunk_size", GgufValue::u32(matrix.chunk_size));
  std::vector<std::span<const float>> data;
  for (const auto& [name, entry] : matrix.entries) {
    const uint64_t experts = entry.counts.size();
    CHECK(entry.sums.size() == experts * entry.columns);
    writer.add({cat(name, kSums), TensorType::f32, {entry.columns, experts, 1, 1}, 2});
    data.emplace_back(entry.sums);
    writer.add({cat(name, kCounts), TensorType::f32, {1, experts, 1, 1}, 2});
    data.emplace_back(entry.counts);
  }
  EVROS_TRY(writer.begin());
  for (size_t i = 0; i < data.size(); ++i) EVROS_TRY(writer.write(i, 0, std::as_bytes(data[i])));
  return writer.finish();
}

}  // namespace evros::format
