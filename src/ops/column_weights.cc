#include "ops/column_weights.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/digest.h"
#include "base/str.h"

namespace evros::ops {
namespace {

/// A column that was zero on the text is not worth nothing on another.
constexpr double kLeast = 1e-6;

uint64_t experts_of(const format::Tensor& tensor) { return tensor.ne[2] * tensor.ne[3]; }

std::span<const float> sums_of(const format::ImportanceEntry& entry, size_t expert) {
  return std::span(entry.sums).subspan(expert * entry.columns, entry.columns);
}

/// Did a row reach the expert, and with another number than zero?
bool is_reached(const format::ImportanceEntry& entry, size_t expert) {
  const auto sums = sums_of(entry, expert);
  return entry.counts[expert] > 0 && std::any_of(sums.begin(), sums.end(), [](float sum) { return sum > 0; });
}

/// Of an expert that is reached. The count of rows cancels out.
std::vector<float> shares(std::span<const float> sums) {
  const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(sums.size());
  std::vector<float> all;
  for (const float sum : sums) all.push_back(static_cast<float>(std::max(static_cast<double>(sum) / mean, kLeast)));
  return all;
}

}  // namespace

Result<ColumnWeights> ColumnWeights::load(io::Io& io, const std::string& path) {
  ColumnWeights weights;
  if (path.empty()) return weights;
  EVROS_ASSIGN(weights.matrix_, format::read_importance(io, path));
  weights.path_ = path;
  return weights;
}

Status ColumnWeights::check(const format::Tensor& tensor) const {
  const auto found = matrix_.entries.find(tensor.name);
  if (found == matrix_.entries.end()) return {};
  const format::ImportanceEntry& entry = found->second;
  const uint64_t experts = experts_of(tensor);
  if (entry.columns == tensor.ne[0] && entry.counts.size() == experts) return {};
  return Error{Code::invalid_argument,
               cat(path_, ": tensor ", tensor.name, " has ", entry.columns, " columns and ", entry.counts.size(),
                   " experts; the model's has ", tensor.ne[0], " and ", experts)};
}

std::vector<std::vector<float>> ColumnWeights::of(const format::Tensor& tensor) const {
  std::vector<std::vector<float>> all;
  const auto found = matrix_.entries.find(tensor.name);
  if (found == matrix_.entries.end()) return all;
  const format::ImportanceEntry& entry = found->second;
  for (size_t e = 0; e < entry.counts.size(); ++e) {
    all.push_back(is_reached(entry, e) ? shares(sums_of(entry, e)) : std::vector<float>{});
  }
  return all;
}

void ColumnWeights::count(const format::Tensor& tensor, ImportanceUse& use) const {
  if (path_.empty()) return;
  const auto found = matrix_.entries.find(tensor.name);
  if (found == matrix_.entries.end()) {
    ++use.missing;
    return;
  }
  ++use.weighted;
  for (size_t e = 0; e < found->second.counts.size(); ++e) use.unreached += is_reached(found->second, e) ? 0 : 1;
}

std::string ColumnWeights::identity() const {
  std::string text;
  for (const auto& [name, entry] : matrix_.entries) {
    text += cat("imatrix ", name, ' ', entry.columns, ' ', hex(digest(std::as_bytes(std::span(entry.sums)))), ' ',
                hex(digest(std::as_bytes(std::span(entry.counts)))), '\n');
  }
  return text;
}

void ColumnWeights::set_keys(format::GgufWriter& writer) const {
  if (path_.empty()) return;
  using format::GgufValue;
  if (!matrix_.datasets.empty()) writer.set("quantize.imatrix.dataset", GgufValue::string(matrix_.datasets[0]));
  writer.set("quantize.imatrix.entries_count", GgufValue::u32(static_cast<uint32_t>(matrix_.entries.size())));
  writer.set("quantize.imatrix.chunks_count", GgufValue::u32(matrix_.chunk_count));
}

}  // namespace evros::ops
