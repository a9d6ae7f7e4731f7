// One forward pass and the list of named stages that it runs. The list is explicit, the same on every backend, and made
// once per model; a stage writes private images and scratch only (docs/state.md, "The transaction").
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "device/device.h"
#include "format/hyper_params.h"
#include "kernels/kernels.h"
#include "model/numerics.h"
#include "model/scratch.h"
#include "model/state_layout.h"
#include "model/weights.h"

namespace evros::model {

/// Everything about a model that does not change between passes.
struct Model {
  format::HyperParams hyper;
  Weights weights;
  Numerics numerics;
  StateLayout state;
  const kernels::Kernels* kernels = nullptr;
  format::TensorType ple_type{};  // of the n-gram table
  int64_t ple_row_bytes = 0;
};

/// What the stages of one pass see.
struct Pass {
  const Model* model;
  const Scratch* scratch;
  kernels::Batch batch;  // all rows
  kernels::Batch last;   // one row per sequence: its newest token
  bool all_logits;       // logits for every row, or for `last` only
};

/// The blocks of floats that a stage wrote, all of which must be finite before the next stage reads them.
struct StageOutputs {
  std::array<device::StageOutput, 8> blocks;
  int count = 0;
  void add(float* data, int64_t rows, int64_t width) {
    CHECK(count < static_cast<int>(blocks.size()));
    blocks[static_cast<size_t>(count++)] = {data, rows, width, width};
  }
};

struct Stage {
  const char* name;
  int32_t layer;   // -1: none
  bool last_rows;  // runs over Pass::last (only when logits are not wanted for all rows)
  void (*run)(const Pass& pass, int32_t layer, device::Queue& queue);
  void (*outputs)(const Pass& pass, int32_t layer, StageOutputs& outputs);
};

/// The stages of the trunk, in order, for these hyper-parameters.
std::vector<Stage> make_stages(const format::HyperParams& hyper);

/// One stage as two launches: its arithmetic, and then the finite check of what it wrote, row by row of `rows` (its
/// StageInfo is the same without outputs). The check reads what lies in memory after the stage is over, whoever wrote
/// it.
Status launch_checked(const Pass& pass, const device::StageInfo& stage, const kernels::Batch& rows,
                      device::Device& device, const std::function<void(device::Queue&)>& body);

/// Runs the stages, each followed by the finite check of its outputs. `between` (may be empty) is
/// called before each stage and after the last; returning an error stops the pass there (cancellation, tracing). An
/// error leaves scratch and private images in any state; nothing public was touched.
Status run_stages(const Pass& pass, std::span<const Stage> stages, device::Device& device,
                  const std::function<Status(const Stage* next)>& between);

}  // namespace evros::model
