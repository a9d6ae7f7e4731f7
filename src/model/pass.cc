#include "model/pass.h"

#include "model/stages.h"

namespace evros::model {
namespace {

using format::LayerKind;

void add_layer(std::vector<Stage>& stages, const format::HyperParams& hyper, int32_t layer) {
  const auto add = [&](const StageFunctions& f) { stages.push_back({f.name, layer, false, f.run, f.outputs}); };
  for (const auto& ple : hyper.ple) {
    if (ple.layer != layer) continue;
    add(kPleEmbed);
    add(kPleGate);
    add(kPleConv);
  }
  add(kAttnRead);
  if (hyper.layer_kind[static_cast<size_t>(layer)] == LayerKind::linear) {
    add(kGdnProject);
    add(kGdnConv);
    add(kGdnDelta);
    add(kGdnOut);
  } else {
    add(kAttnProject);
    add(kAttnStore);
    if (hyper.compress_ratio[static_cast<size_t>(layer)] > 0) add(kQsaSelect);
    add(kAttention);
    add(kAttnOut);
  }
  add(kAttnWrite);
  add(kFfnRead);
  add(kRouter);
  add(kExperts);
  add(kShared);
  add(kFfnWrite);
}

}  // namespace

std::vector<Stage> make_stages(const format::HyperParams& hyper) {
  std::vector<Stage> stages;
  stages.push_back({kEmbed.name, -1, false, kEmbed.run, kEmbed.outputs});
  for (int32_t layer = 0; layer < hyper.layers; ++layer) add_layer(stages, hyper, layer);
  for (const StageFunctions* f : {&kKeepState, &kHeadRead, &kLogits}) {
    stages.push_back({f->name, -1, f != &kKeepState, f->run, f->outputs});
  }
  return stages;
}

Status launch_checked(const Pass& pass, const device::StageInfo& stage, const kernels::Batch& rows,
                      device::Device& device, const std::function<void(device::Queue&)>& body) {
  EVROS_TRY(device.launch(stage, body));
  if (stage.outputs.empty()) return {};
  const auto check = [&](device::Queue& queue) {
    for (const device::StageOutput& block : stage.outputs) {
      pass.model->kernels->check_finite(queue, rows, {block.data, block.stride, block.width});
    }
  };
  // By reference: what std::function holds of at most two pointers needs no memory.
  return device.launch({stage.name, stage.layer, stage.index, {}, stage.status}, std::cref(check));
}

namespace {

Status enqueue_stages(const Pass& pass, std::span<const Stage> stages, device::Device& device,
                      const std::function<Status(const Stage*)>& between) {
  int32_t index = 0;
  for (const Stage& stage : stages) {
    if (between) EVROS_TRY(between(&stage));
    StageOutputs outputs;
    stage.outputs(pass, stage.layer, outputs);
    const std::span<const device::StageOutput> blocks(outputs.blocks.data(), static_cast<size_t>(outputs.count));
    const device::StageInfo info{
        stage.name, stage.layer, index++, blocks, {pass.scratch->status, static_cast<size_t>(pass.batch.sequences)}};
    const kernels::Batch& rows = stage.last_rows && !pass.all_logits ? pass.last : pass.batch;
    EVROS_TRY(
        launch_checked(pass, info, rows, device, [&](device::Queue& queue) { stage.run(pass, stage.layer, queue); }));
  }
  if (between) EVROS_TRY(between(nullptr));
  return {};
}

}  // namespace

Status run_stages(const Pass& pass, std::span<const Stage> stages, device::Device& device,
                  const std::function<Status(const Stage*)>& between) {
  const Status enqueued = enqueue_stages(pass, stages, device, between);
  // Also after an error: what is enqueued writes private memory that is about to be given back.
  const Status finished = device.finish();
  return enqueued.ok() ? finished : enqueued;
}

}  // namespace evros::model
