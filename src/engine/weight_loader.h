// Makes a model's weights resident: reads each tensor that model::bind asks for into device memory, in the layout of
// the kernels (kernels/layout.h) or (vectors) dequantised with its derivation applied.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/progress.h"
#include "device/device.h"
#include "device/pool.h"
#include "format/model_file.h"
#include "model/weights.h"

namespace evros::engine {

/// What a tensor of `bytes` takes of the weights' memory: a vector of a kernel does not straddle cache lines.
constexpr uint64_t weight_room(uint64_t bytes) { return align_up(bytes, 64); }

class WeightLoader : public model::TensorSource {
 public:
  /// File and device outlive the loader; the loader outlives the bound weights. `total` is the sum of weight_room() of all
  /// that will be asked for, and one piece of memory: small tensors of their own would lie outside huge pages, and are most
  /// of a token's reads.
  /// Weights are checked and brought into the layout on `threads` threads, which end with finish().
  WeightLoader(const format::ModelFile& file, device::Device& device, int threads, uint64_t total)
      : file_(file), device_(device), pool_(std::in_place, threads), total_(total) {}

  Result<model::Matrix> matrix(const std::string& name) override;
  Result<const float*> vector(const std::string& name) override;
  bool has(const std::string& name) const override { return file_.find(name) != nullptr; }
  /// From now on tells `progress` how many of all device bytes are filled; the end is told by finish().
  void report_to(Progress progress) { progress_ = std::move(progress); }
  /// The tensor that lies at each address of the device.
  const std::map<const std::byte*, std::string>& names() const { return names_; }
  /// Nothing more will be asked for.
  void finish() {
    pool_.reset();
    report(progress_, total_, total_);
    progress_ = {};
  }

 private:
  Result<std::byte*> place(uint64_t bytes, const std::string& name);
  bool pack(const format::Tensor& tensor, std::span<const std::byte> stored, std::span<std::byte> packed);

  const format::ModelFile& file_;
  device::Device& device_;
  std::optional<device::Pool> pool_;
  uint64_t total_;
  device::Buffer memory_;  // total_ bytes, once something was asked for
  std::map<const std::byte*, std::string> names_;
  uint64_t taken_ = 0, filled_ = 0;
  Progress progress_;
};

/// The tensor, or an error that names file and tensor.
Result<const format::Tensor*> find_tensor(const format::ModelFile& file, const std::string& name);

/// The tensor as rows of ne0 columns that lie at `data` in the kernels' layout, all higher dimensions folded into rows.
model::Matrix matrix_of(const format::Tensor& tensor, const std::byte* data);

/// Host memory that the loader takes for a while beside what it fills, for a matrix and for a vector.
uint64_t matrix_buffer_bytes(const format::Tensor& tensor);
uint64_t vector_buffer_bytes(const format::Tensor& tensor);

/// One sentence that lists every tensor of a type that the kernels cannot multiply with, or ok.
Status check_types(const format::ModelFile& file);

/// The tensor as float32 on the host with its derivation applied: what vectors are made from, and what convert writes.
Result<std::vector<float>> read_floats(const format::ModelFile& file, const format::Tensor& tensor);

}  // namespace evros::engine
