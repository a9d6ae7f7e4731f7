#include "engine/weight_loader.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "base/str.h"
#include "format/message.h"
#include "kernels/derive.h"
#include "kernels/layout.h"

namespace evros::engine {
namespace {

constexpr uint64_t kReadBytes = 16u << 20;

// Bytes to read next at `at`: whole strips of the layout near kReadBytes, or what is left of the matrix. A tensor of experts
// is a matrix for each.
uint64_t read_step(const format::Tensor& tensor, uint64_t at) {
  const uint64_t row = format::row_bytes(tensor.type, tensor.ne[0]);
  const uint64_t strips = std::max<uint64_t>(kReadBytes / row / kernels::kStripRows, 1) * kernels::kStripRows;
  const uint64_t matrix = tensor.ne[1] % kernels::kStripRows == 0 ? tensor.bytes() : tensor.ne[1] * row;
  return std::min(strips * row, matrix - at % matrix);
}

}  // namespace

Result<const format::Tensor*> find_tensor(const format::ModelFile& file, const std::string& name) {
  const format::Tensor* tensor = file.find(name);
  if (tensor == nullptr) return Error{Code::bad_file, cat(file.path(), ": tensor ", name, " is missing")};
  return tensor;
}

uint64_t matrix_buffer_bytes(const format::Tensor& tensor) { return 2 * read_step(tensor, 0); }

uint64_t vector_buffer_bytes(const format::Tensor& tensor) {
  return tensor.bytes() + tensor.elements() * sizeof(float);
}

model::Matrix matrix_of(const format::Tensor& tensor, const std::byte* data) {
  return {tensor.type,
          data,
          static_cast<int64_t>(tensor.rows()),
          static_cast<int64_t>(tensor.ne[0]),
          static_cast<int64_t>(format::row_bytes(tensor.type, tensor.ne[0])),
          nullptr};
}

Result<std::vector<float>> read_floats(const format::ModelFile& file, const format::Tensor& tensor) {
  std::vector<std::byte> stored(tensor.bytes());
  EVROS_TRY(file.read(tensor, 0, stored));
  std::vector<float> values(tensor.elements());
  kernels::dequantize(tensor.type, stored.data(), values);
  if (tensor.derive == format::Derive::plus_one) kernels::plus_one(values);
  if (tensor.derive == format::Derive::neg_exp) kernels::neg_exp(values);
  return values;
}

Result<std::byte*> WeightLoader::place(uint64_t bytes, const std::string& name) {
  if (taken_ == 0) {
    EVROS_ASSIGN(memory_, device_.allocate(total_, "the weights"));
  }
  CHECK(weight_room(bytes) <= total_ - taken_);
  std::byte* const data = memory_.data() + taken_;
  taken_ += weight_room(bytes);
  names_[data] = name;
  return data;
}

// Brings whole strips into the layout. False when a number or scale is not finite.
bool WeightLoader::pack(const format::Tensor& tensor, std::span<const std::byte> stored, std::span<std::byte> packed) {
  const auto row_bytes = static_cast<int64_t>(format::row_bytes(tensor.type, tensor.ne[0]));
  const int64_t rows = static_cast<int64_t>(stored.size()) / row_bytes;
  std::atomic<bool> finite{true};
  pool_->parallel((rows + kernels::kStripRows - 1) / kernels::kStripRows, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kernels::kStripRows, count = std::min(end * kernels::kStripRows, rows) - first;
    const auto part = stored.subspan(static_cast<size_t>(first * row_bytes), static_cast<size_t>(count * row_bytes));
    if (!kernels::scales_finite(tensor.type, part)) finite = false;
    kernels::pack_rows(tensor.type, count, row_bytes, part.data(), packed.data() + first * row_bytes);
  });
  return finite;
}

Result<model::Matrix> WeightLoader::matrix(const std::string& name) {
  EVROS_ASSIGN(const format::Tensor* tensor, find_tensor(file_, name));
  CHECK(tensor->derive == format::Derive::none);
  EVROS_ASSIGN(std::byte * data, place(tensor->bytes(), name));
  std::vector<std::byte> staging, packed;
  for (uint64_t at = 0; at < tensor->bytes();) {
    const uint64_t n = read_step(*tensor, at);
    staging.resize(n);
    packed.resize(n);
    EVROS_TRY(file_.read(*tensor, at, staging));
    if (!pack(*tensor, staging, packed)) {
      return Error{Code::bad_file,
                   cat(file_.path(), ": tensor ", name, " holds a value or scale that is NaN or infinite")};
    }
    EVROS_TRY(device_.upload(data + at, packed));
    at += n;
    report(progress_, filled_ += n, total_);
  }
  filled_ = taken_;
  return matrix_of(*tensor, data);
}

Result<const float*> WeightLoader::vector(const std::string& name) {
  EVROS_ASSIGN(const format::Tensor* tensor, find_tensor(file_, name));
  EVROS_ASSIGN(const std::vector<float> values, read_floats(file_, *tensor));
  const auto bytes = std::as_bytes(std::span<const float>(values));
  if (!kernels::scales_finite(format::TensorType::f32, bytes)) {
    return Error{Code::bad_file, cat(file_.path(), ": tensor ", name, " holds a value that is NaN or infinite")};
  }
  EVROS_ASSIGN(std::byte * data, place(bytes.size(), name));
  EVROS_TRY(device_.upload(data, bytes));
  filled_ = taken_;
  return reinterpret_cast<const float*>(data);
}

Status check_types(const format::ModelFile& file) {
  format::Problems problems;
  for (const format::Tensor& tensor : file.tensors()) {
    if (!kernels::can_multiply(tensor.type)) problems.add_type(tensor.stored_name, tensor.type);
  }
  return problems.empty() ? Status{} : problems.error(Code::unsupported, file.path());
}

}  // namespace evros::engine
