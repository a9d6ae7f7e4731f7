#include "ops/stage_bench.h"

#include <algorithm>

#include "base/rng.h"
#include "base/str.h"

namespace evros::ops {
namespace {

using format::LayerKind;

// Runs chunks and adds their times up.
class Stopwatch {
 public:
  Stopwatch(engine::Engine& engine, io::Io& clock) : engine_(engine), clock_(clock) {}

  Status run(engine::SessionId session, std::span<const int32_t> tokens, PhaseTimes& phase) {
    phase_ = &phase;
    running_ = nullptr;
    const engine::Observer observer = [this](const model::Pass& pass, const model::Stage* next) {
      return between(pass, next);
    };
    const engine::ChunkRow row{session, tokens};
    const uint64_t start = start_ = clock_.now_ns();
    const uint64_t finite = phase.finite_ns;
    EVROS_ASSIGN(const auto statuses,
                 engine_.run_chunk({&row, 1}, {.all_logits = false, .cancel = nullptr, .observer = &observer}));
    EVROS_TRY(statuses[0]);
    const uint64_t end = clock_.now_ns();
    phase.publish_ns += end - stage_start_;
    phase.total_ns +=
        end - start - (phase.finite_ns - finite);  // the second run of the checks is ours, not the engine's
    phase.tokens += tokens.size();
    ++phase.chunks;
    return {};
  }

 private:
  Status between(const model::Pass& pass, const model::Stage* next) {
    EVROS_TRY(engine_.device().finish());  // a stage is over when the device has done it
    const uint64_t now = clock_.now_ns();
    if (running_ == nullptr)
      phase_->begin_ns += now - start_;
    else
      EVROS_TRY(finish_stage(pass, now));
    running_ = next;
    stage_start_ = clock_.now_ns();
    return {};
  }

  Status finish_stage(const model::Pass& pass, uint64_t now) {
    StageTime& time = named(running_->name);
    ++time.calls;
    time.ns += now - stage_start_;
    model::StageOutputs outputs;
    running_->outputs(pass, running_->layer, outputs);
    const uint64_t start = clock_.now_ns();
    EVROS_TRY(engine_.device().launch({running_->name, running_->layer, 0, {}, {}}, [&](device::Queue& queue) {
      queue.pool = nullptr;  // on this thread, where it is the host's: what the checks cost without help
      for (int i = 0; i < outputs.count; ++i) {
        const device::StageOutput& block = outputs.blocks[static_cast<size_t>(i)];
        pass.model->kernels->check_finite(queue, running_->last_rows ? pass.last : pass.batch,
                                          {block.data, block.stride, block.width});
      }
    }));
    EVROS_TRY(engine_.device().finish());
    phase_->finite_ns += clock_.now_ns() - start;
    return {};
  }

  StageTime& named(const char* name) {
    for (StageTime& time : phase_->stages) {
      if (time.name == name) return time;
    }
    return phase_->stages.emplace_back(StageTime{name, 0, 0});
  }

  engine::Engine& engine_;
  io::Io& clock_;
  PhaseTimes* phase_ = nullptr;
  const model::Stage* running_ = nullptr;
  uint64_t start_ = 0, stage_start_ = 0;
};

uint64_t bytes(const model::Matrix& m) { return m.data == nullptr ? 0 : static_cast<uint64_t>(m.rows * m.row_bytes); }

// The sum of of_matrix over what every token multiplies with in a hyper-connection or layer, experts left out.
template <typename N>
N hyper_sum(const model::HyperConnection& hc, N (*of_matrix)(const model::Matrix&)) {
  return of_matrix(hc.down) + of_matrix(hc.up) + of_matrix(hc.inject);
}

template <typename N>
N layer_sum(const model::LayerWeights& layer, LayerKind kind, N (*of_matrix)(const model::Matrix&)) {
  N sum = hyper_sum(layer.attn, of_matrix) + hyper_sum(layer.ffn, of_matrix);
  const model::GdnWeights& g = layer.gdn;
  const model::AttentionWeights& a = layer.attention;
  const model::MoeWeights& m = layer.moe;
  if (kind == LayerKind::linear) {
    for (const model::Matrix* matrix : {&g.qkv, &g.z, &g.beta, &g.alpha, &g.out}) sum += of_matrix(*matrix);
  } else {
    for (const model::Matrix* matrix : {&a.q, &a.k, &a.v, &a.out, &a.index_q, &a.index_k}) sum += of_matrix(*matrix);
  }
  for (const model::Matrix* matrix : {&m.router, &m.shared_router, &m.shared_gate, &m.shared_up, &m.shared_down})
    sum += of_matrix(*matrix);
  return sum;
}

double operations(const model::Matrix& m) {
  return m.data == nullptr ? 0 : 2.0 * static_cast<double>(m.rows) * static_cast<double>(m.cols);
}

// K/V rows and index keys that one token reads, and writes, in full layers.
uint64_t row_bytes(const model::Model& model, int64_t context) {
  uint64_t sum = 0;
  for (int32_t i = 0; i < model.hyper.layers; ++i) {
    const auto layer = static_cast<size_t>(i);
    if (model.hyper.layer_kind[layer] != LayerKind::full) continue;
    const model::LayerState& state = model.state.layers[layer];
    const auto kv = static_cast<uint64_t>(state.k.row_bytes + state.v.row_bytes);
    sum += kv * static_cast<uint64_t>(model::visible_positions(model.hyper, i, context) + 1);
    const int32_t ratio = model.hyper.compress_ratio[layer];
    if (ratio > 0) sum += static_cast<uint64_t>(context / ratio) * static_cast<uint64_t>(state.index.row_bytes);
  }
  return sum;
}

}  // namespace

std::vector<int32_t> bench_text(const format::HyperParams& hyper, uint32_t which, int64_t n) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i)
    ids.push_back(static_cast<int32_t>(uniform(1, which, static_cast<uint64_t>(i)) * hyper.vocab));
  return ids;
}

std::vector<uint64_t> expert_bytes(const engine::Engine& engine) {
  std::vector<uint64_t> all;
  for (const model::LayerWeights& layer : engine.model().weights.layers) {
    const model::MoeWeights& m = layer.moe;
    all.push_back(bytes(m.gate.matrix) + bytes(m.up.matrix) + bytes(m.down.matrix));
  }
  return all;
}

double token_operations(const engine::Engine& engine) {
  const model::Model& model = engine.model();
  double sum = 0;
  for (size_t i = 0; i < model.weights.layers.size(); ++i) {
    const model::LayerWeights& layer = model.weights.layers[i];
    const model::MoeWeights& m = layer.moe;
    sum += layer_sum(layer, model.hyper.layer_kind[i], operations);
    sum += model.hyper.experts_used * (operations(m.gate.matrix) + operations(m.up.matrix) + operations(m.down.matrix));
  }
  for (const model::PleWeights& ple : model.weights.ple) sum += operations(ple.key) + operations(ple.value);
  return sum;
}

TokenBytes count_bytes(const engine::Engine& engine, int64_t context) {
  const model::Model& model = engine.model();
  const format::HyperParams& h = model.hyper;
  const model::Weights& w = model.weights;
  TokenBytes count;
  count.rows = static_cast<uint64_t>(w.embed.row_bytes);
  count.weights = bytes(w.output) + hyper_sum(w.head, bytes);
  for (size_t i = 0; i < w.layers.size(); ++i) count.weights += layer_sum(w.layers[i], h.layer_kind[i], bytes);
  for (const model::PleWeights& ple : w.ple) {
    count.weights += bytes(ple.key) + bytes(ple.value);
    count.rows += static_cast<uint64_t>(h.ple_heads() * model.ple_row_bytes);
  }
  for (const uint64_t expert : expert_bytes(engine)) count.experts += static_cast<uint64_t>(h.experts_used) * expert;
  count.weights += count.experts + count.rows;
  const state::Layout& layout = model.state.layout;
  for (const state::BankSlice& slice : layout.bank) {
    const bool copied = slice.owner == state::Owner::residual || slice.owner == state::Owner::logits;
    count.state += 2 * slice.bytes;                    // read from the public bank, written to the private one
    if (copied) count.transaction += 2 * slice.bytes;  // read from scratch once more, and written
  }
  count.state += row_bytes(model, context);
  // The record that publication copies: per slot the entry, read and written, and its digest's input.
  count.transaction += static_cast<uint64_t>(engine.info().plan.limits.slots) * 3 * 32 + 2 * sizeof(int32_t);
  return count;
}

Result<StageBench> bench_stages(engine::Engine& engine, io::Io& clock, int64_t prompt, int64_t decode,
                                TimedDevice* timed) {
  const int64_t context = engine.info().plan.context;
  const int64_t decoded = timed == nullptr ? decode : 2 * decode;
  if (prompt > context || decoded > context - prompt) {
    return Error{Code::invalid_argument, cat("a prompt of ", prompt, " tokens and ", decoded,
                                             " decoded ones do not fit a context of ", context)};
  }
  EVROS_ASSIGN(const engine::SessionId session, engine.open());
  StageBench bench;
  Stopwatch watch(engine, clock);
  const std::vector<int32_t> ids = bench_text(engine.model().hyper, 0, prompt + decoded);
  const auto chunk = static_cast<size_t>(engine.info().plan.pass.rows);
  const auto n = static_cast<size_t>(prompt);
  Status status;
  for (size_t at = 0; at < n && status.ok(); at += chunk) {
    status = watch.run(session, std::span(ids).subspan(at, std::min(chunk, n - at)), bench.prefill);
  }
  const size_t end = n + static_cast<size_t>(decode);
  for (size_t at = n; at < end && status.ok(); ++at)
    status = watch.run(session, std::span(ids).subspan(at, 1), bench.decode);
  if (timed != nullptr) timed->measure(true);
  for (size_t at = end; at < ids.size() && status.ok(); ++at)
    status = engine.append(session, std::span(ids).subspan(at, 1));
  if (timed != nullptr) {
    timed->measure(false);
    bench.kernels = timed->times();
  }
  EVROS_TRY(engine.close(session));
  EVROS_TRY(status);
  bench.bytes = count_bytes(engine, prompt + decode);
  return bench;
}

}  // namespace evros::ops
