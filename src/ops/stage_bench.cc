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
    const uint64_t now = clock_.now_ns();
    if (running_ == nullptr)
      phase_->begin_ns += now - start_;
    else
      finish_stage(pass, now);
    running_ = next;
    stage_start_ = clock_.now_ns();
    return {};
  }

  void finish_stage(const model::Pass& pass, uint64_t now) {
    StageTime& time = named(running_->name);
    ++time.calls;
    time.ns += now - stage_start_;
    model::StageOutputs outputs;
    running_->outputs(pass, running_->layer, outputs);
    device::Queue queue;  // on this thread: what the checks cost without help
    const uint64_t start = clock_.now_ns();
    for (int i = 0; i < outputs.count; ++i) {
      const device::StageOutput& block = outputs.blocks[static_cast<size_t>(i)];
      pass.model->kernels->check_finite(queue, running_->last_rows ? pass.last : pass.batch,
                                        {block.data, block.stride, block.width});
    }
    phase_->finite_ns += clock_.now_ns() - start;
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

uint64_t hyper_bytes(const model::HyperConnection& hc) { return bytes(hc.down) + bytes(hc.up) + bytes(hc.inject); }

uint64_t layer_bytes(const format::HyperParams& h, const model::LayerWeights& layer, LayerKind kind) {
  uint64_t sum = hyper_bytes(layer.attn) + hyper_bytes(layer.ffn);
  const model::GdnWeights& g = layer.gdn;
  const model::AttentionWeights& a = layer.attention;
  if (kind == LayerKind::linear)
    sum += bytes(g.qkv) + bytes(g.z) + bytes(g.beta) + bytes(g.alpha) + bytes(g.out);
  else
    sum += bytes(a.q) + bytes(a.k) + bytes(a.v) + bytes(a.out) + bytes(a.index_q) + bytes(a.index_k);
  const model::MoeWeights& m = layer.moe;
  sum += bytes(m.router) + bytes(m.shared_router) + bytes(m.shared_gate) + bytes(m.shared_up) + bytes(m.shared_down);
  return sum +
         static_cast<uint64_t>(h.experts_used) * (bytes(m.gate.matrix) + bytes(m.up.matrix) + bytes(m.down.matrix));
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

std::vector<int32_t> text(const format::HyperParams& h, int64_t n) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i)
    ids.push_back(static_cast<int32_t>(uniform(1, 0, static_cast<uint64_t>(i)) * h.vocab));
  return ids;
}

}  // namespace

TokenBytes count_bytes(const engine::Engine& engine, int64_t context) {
  const model::Model& model = engine.model();
  const format::HyperParams& h = model.hyper;
  const model::Weights& w = model.weights;
  TokenBytes count;
  count.weights = static_cast<uint64_t>(w.embed.row_bytes) + bytes(w.output) + hyper_bytes(w.head);
  for (size_t i = 0; i < w.layers.size(); ++i) count.weights += layer_bytes(h, w.layers[i], h.layer_kind[i]);
  for (const model::PleWeights& ple : w.ple) {
    count.weights += bytes(ple.key) + bytes(ple.value) + static_cast<uint64_t>(h.ple_heads() * model.ple_row_bytes);
  }
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

Result<StageBench> bench_stages(engine::Engine& engine, io::Io& clock, int64_t prompt, int64_t decode) {
  const int64_t context = engine.info().plan.context;
  if (prompt > context || decode > context - prompt) {
    return Error{Code::invalid_argument, cat("a prompt of ", prompt, " tokens and ", decode,
                                             " decoded ones do not fit a context of ", context)};
  }
  EVROS_ASSIGN(const engine::SessionId session, engine.open());
  StageBench bench;
  Stopwatch watch(engine, clock);
  const std::vector<int32_t> ids = text(engine.model().hyper, prompt + decode);
  const auto chunk = static_cast<size_t>(engine.info().plan.pass.rows);
  const auto n = static_cast<size_t>(prompt);
  Status status;
  for (size_t at = 0; at < n && status.ok(); at += chunk) {
    status = watch.run(session, std::span(ids).subspan(at, std::min(chunk, n - at)), bench.prefill);
  }
  for (size_t at = n; at < ids.size() && status.ok(); ++at)
    status = watch.run(session, std::span(ids).subspan(at, 1), bench.decode);
  EVROS_TRY(engine.close(session));
  EVROS_TRY(status);
  bench.bytes = count_bytes(engine, prompt + decode);
  return bench;
}

}  // namespace evros::ops
