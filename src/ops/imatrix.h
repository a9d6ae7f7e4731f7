// The importance matrix of a model on a text: for every column of every weight matrix, the sum of the squares of the numbers
// that it was multiplied with, and for routed experts how many rows each saw (format/importance.h has the file).
//
// The sums are taken at the kernel table, where every product passes with its weights and its inputs: a device around the
// CPU knows each matrix by its address and reads the inputs of `matmul` and `experts`. They are formed in
// float64 in the order of the text, so that chunks and threads change no bit of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "device/forwarding_device.h"
#include "engine/engine.h"
#include "format/importance.h"
#include "kernels/kernels.h"

namespace evros::ops {

/// A host device that sums while it is told to. At most one at a time in a process: entries of a table are plain functions.
class ImatrixDevice final : public device::ForwardingDevice {
 public:
  /// `table` is what runs on `inner`, whose memory the host can address (CHECKed).
  ImatrixDevice(std::unique_ptr<device::Device> inner, const kernels::Kernels& table);
  ~ImatrixDevice() override;
  ImatrixDevice(const ImatrixDevice&) = delete;
  ImatrixDevice& operator=(const ImatrixDevice&) = delete;

  /// From now on products are counted, by Engine::weight_names() of the engine that runs here; null: no more.
  void measure(const std::map<const std::byte*, std::string>* names) { names_ = names; }
  /// What was counted so far, rounded to float32.
  std::map<std::string, format::ImportanceEntry> entries() const;

  const kernels::Kernels* kernels() const override { return &table_; }

 private:
  /// Sums of one tensor.
  struct Sums {
    int64_t columns = 0;
    std::vector<double> squares;   // [experts][columns]
    std::vector<uint64_t> counts;  // [experts]
  };
  /// `products` rows times a matrix: the row of product p is at data + p / share * stride, its matrix that of expert[p], or
  /// the one that there is.
  struct Input {
    const float* data;
    int64_t stride, products, share;
    const int32_t* expert;
    int64_t experts;
  };

  static void matmul(device::Queue& queue, const kernels::Batch& batch, const kernels::MatmulArgs& args);
  static void experts(device::Queue& queue, const kernels::Batch& batch, const kernels::ExpertsArgs& args);
  Sums& sums_of(const kernels::Matrix& w, int64_t experts);
  void add(device::Queue& queue, const kernels::Matrix& w, const Input& input);

  const kernels::Kernels& inner_table_;
  kernels::Kernels table_;
  const std::map<const std::byte*, std::string>* names_ = nullptr;  // while products are counted
  std::map<std::string, Sums> sums_;
};

/// Runs the text in windows of `window` tokens, each in an empty session, the last one shorter, and returns what `device` saw.
/// The engine runs on `device` and was loaded with perplexity_options(); one session is opened and closed. `dataset` is the
/// text's name, for the file. Code::invalid_argument for a text without a token.
Result<format::ImportanceMatrix> measure_importance(engine::Engine& engine, ImatrixDevice& device,
                                                    std::span<const int32_t> tokens, int64_t window,
                                                    const std::string& dataset, const Progress& progress);

}  // namespace evros::ops
