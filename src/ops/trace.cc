#include "ops/trace.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/str.h"
#include "format/safetensors_writer.h"
#include "kernels/derive.h"
#include "model/ngram.h"

namespace evros::ops {
namespace {

using format::HyperParams;
using format::LayerKind;

// Rows [T][width] of one kind, filled chunk by chunk.
template <typename T>
class Rows {
 public:
  Rows(size_t tokens, size_t width) : width_(width), data_(tokens * width) {}
  T* row(size_t r) { return data_.data() + r * width_; }
  TraceTensor tensor(std::string dtype, std::vector<uint64_t> shape) const {
    const auto bytes = std::as_bytes(std::span(data_));
    return {std::move(dtype), std::move(shape), {bytes.begin(), bytes.end()}};
  }

 private:
  size_t width_;
  std::vector<T> data_;
};

struct LayerRows {
  Rows<float> out, router, weights, index_keys;
  Rows<int32_t> ids;
  Rows<uint8_t> selected;
};

// Stored position of the checkpoint's value head h: GGUF keeps them tiled (docs/model.md 2.5).
size_t tiled(const HyperParams& h, size_t head) {
  const auto repeat = static_cast<size_t>(h.linear_value_heads / h.linear_key_heads);
  return head % repeat * static_cast<size_t>(h.linear_key_heads) + head / repeat;
}

class Collector {
 public:
  Collector(engine::Engine& engine, size_t tokens)
      : engine_(engine),
        hyper_(engine.model().hyper),
        tokens_(tokens),
        logits_(tokens, static_cast<size_t>(hyper_.vocab)),
        hidden_(tokens, static_cast<size_t>(hyper_.hidden)) {
    for (int32_t layer = 0; layer < hyper_.layers; ++layer) {
      const bool full = hyper_.layer_kind[static_cast<size_t>(layer)] == LayerKind::full;
      layers_.push_back({Rows<float>(tokens, static_cast<size_t>(hyper_.wide())),
                         Rows<float>(tokens, static_cast<size_t>(hyper_.experts)),
                         Rows<float>(tokens, static_cast<size_t>(hyper_.experts_used)),
                         Rows<float>(tokens, full ? static_cast<size_t>(hyper_.index_dim) : 0),
                         Rows<int32_t>(tokens, static_cast<size_t>(hyper_.experts_used)),
                         Rows<uint8_t>(full ? tokens : 0, tokens)});
    }
    for (size_t i = 0; i < hyper_.ple.size(); ++i) ple_.emplace_back(tokens, static_cast<size_t>(hyper_.wide()));
  }

  // Called between stages: what `last_` wrote is complete.
  Status between(const model::Pass& pass, const model::Stage* next) {
    if (last_ != nullptr) EVROS_TRY(collect(pass, *last_));
    last_ = next;
    return {};
  }

  void move_to(size_t first) {
    first_ = first;
    last_ = nullptr;
  }

  void store(Trace& trace, const std::string& prefix) const;

 private:
  Status collect(const model::Pass& pass, const model::Stage& stage);
  Status collect_router(const model::Pass& pass, LayerRows& layer);
  Status collect_selection(const model::Pass& pass, int32_t layer);
  template <typename T>
  Status copy(const T* from, T* to, int64_t rows, int64_t width) {
    return engine_.device().download({reinterpret_cast<std::byte*>(to), static_cast<size_t>(rows * width) * sizeof(T)},
                                     reinterpret_cast<const std::byte*>(from));
  }

  engine::Engine& engine_;
  const HyperParams& hyper_;
  size_t tokens_, first_ = 0;
  const model::Stage* last_ = nullptr;
  Rows<float> logits_, hidden_;
  std::vector<LayerRows> layers_;
  std::vector<Rows<float>> ple_;
};

Status Collector::collect_router(const model::Pass& pass, LayerRows& layer) {
  const model::Scratch& s = *pass.scratch;
  EVROS_TRY(copy(s.router, layer.router.row(first_), pass.batch.rows, hyper_.experts));
  EVROS_TRY(copy(s.expert_weights, layer.weights.row(first_), pass.batch.rows, hyper_.experts_used));
  return copy(s.expert_ids, layer.ids.row(first_), pass.batch.rows, hyper_.experts_used);
}

Status Collector::collect_selection(const model::Pass& pass, int32_t layer) {
  const int32_t ratio = hyper_.compress_ratio[static_cast<size_t>(layer)];
  const int32_t keep = model::kept_blocks(hyper_, layer);
  std::vector<int32_t> blocks(static_cast<size_t>(pass.batch.rows) * static_cast<size_t>(keep));
  if (ratio > 0) EVROS_TRY(copy(pass.scratch->selected, blocks.data(), pass.batch.rows, keep));
  for (size_t r = 0; r < static_cast<size_t>(pass.batch.rows); ++r) {
    const size_t position = first_ + r;
    uint8_t* seen = layers_[static_cast<size_t>(layer)].selected.row(position);
    const size_t tail = ratio == 0 ? 0 : (position + 1) / static_cast<size_t>(ratio) * static_cast<size_t>(ratio);
    std::fill(seen + tail, seen + position + 1, uint8_t{1});
    for (int32_t i = 0; i < keep; ++i) {
      const int32_t block = blocks[r * static_cast<size_t>(keep) + static_cast<size_t>(i)];
      if (block >= 0) std::fill_n(seen + static_cast<size_t>(block) * static_cast<size_t>(ratio), ratio, uint8_t{1});
    }
  }
  return {};
}

Status Collector::collect(const model::Pass& pass, const model::Stage& stage) {
  const model::Scratch& s = *pass.scratch;
  const std::string_view name = stage.name;
  const int64_t rows = pass.batch.rows;
  if (name == "logits") return copy(s.logits, logits_.row(first_), rows, hyper_.vocab);
  if (name == "head_read") return copy(s.u, hidden_.row(first_), rows, hyper_.hidden);
  if (stage.layer < 0) return {};
  LayerRows& layer = layers_[static_cast<size_t>(stage.layer)];
  if (name == "ffn_write") return copy(s.x, layer.out.row(first_), rows, hyper_.wide());
  if (name == "router") return collect_router(pass, layer);
  if (name == "attention") return collect_selection(pass, stage.layer);
  if (name == "attn_project" && hyper_.compress_ratio[static_cast<size_t>(stage.layer)] > 0) {
    return copy(s.index_k, layer.index_keys.row(first_), rows, hyper_.index_dim);
  }
  if (name != "ple_conv") return {};
  for (size_t i = 0; i < ple_.size(); ++i) {
    if (hyper_.ple[i].layer != stage.layer) continue;
    EVROS_TRY(
        copy(s.ple_added + static_cast<int64_t>(i) * rows * hyper_.wide(), ple_[i].row(first_), rows, hyper_.wide()));
  }
  return {};
}

void append(TraceTensor& to, const TraceTensor& from) {
  to.data.insert(to.data.end(), from.data.begin(), from.data.end());
}

void Collector::store(Trace& trace, const std::string& prefix) const {
  const uint64_t n = tokens_;
  const auto wide = static_cast<uint64_t>(hyper_.wide());
  const auto used = static_cast<uint64_t>(hyper_.experts_used);
  trace[prefix + ".logits"] = logits_.tensor("F32", {n, static_cast<uint64_t>(hyper_.vocab)});
  trace[prefix + ".final_hidden"] = hidden_.tensor("F32", {n, static_cast<uint64_t>(hyper_.hidden)});
  TraceTensor out{"F32", {layers_.size(), n, wide}, {}}, selected{"U8", {0, n, n}, {}};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerRows& layer = layers_[i];
    append(out, layer.out.tensor("", {}));
    const std::string router = cat(prefix, ".router", i, ".");
    trace[router + "0"] = layer.router.tensor("F32", {n, static_cast<uint64_t>(hyper_.experts)});
    trace[router + "1"] = layer.weights.tensor("F32", {n, used});
    trace[router + "2"] = layer.ids.tensor("I32", {n, used});
    if (hyper_.layer_kind[i] != LayerKind::full) continue;
    append(selected, layer.selected.tensor("", {}));
    ++selected.shape[0];
    if (hyper_.compress_ratio[i] == 0) continue;
    trace[cat(prefix, ".cache.layer", i, ".indexer_keys")] =
        layer.index_keys.tensor("F32", {1, n, static_cast<uint64_t>(hyper_.index_dim)});
  }
  trace[prefix + ".layer_out"] = std::move(out);
  if (selected.shape[0] > 0) trace[prefix + ".qsa_selected"] = std::move(selected);
  if (ple_.empty()) return;
  TraceTensor added{"F32", {ple_.size(), n, wide}, {}};
  for (const auto& rows : ple_) append(added, rows.tensor("", {}));
  trace[prefix + ".ple_out"] = std::move(added);
}

// ---- end state ----------------------------------------------------------------------------------------------------------

TraceTensor floats(const std::vector<float>& values, std::vector<uint64_t> shape) {
  const auto bytes = std::as_bytes(std::span(values));
  return {"F32", std::move(shape), {bytes.begin(), bytes.end()}};
}

// [1][channels][columns] from `columns` rows of channels, oldest first; channel c is taken from stored channel map(c).
template <typename Map>
TraceTensor columns(const float* rows, size_t columns, size_t channels, const Map& map) {
  std::vector<float> out(channels * columns);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t t = 0; t < columns; ++t) out[c * columns + t] = rows[t * channels + map(c)];
  }
  return floats(out, {1, channels, columns});
}

// The state of one session, on the host.
class EndState {
 public:
  EndState(engine::Engine& engine, const state::View& view)
      : engine_(engine), model_(engine.model()), view_(view), bank_(engine.model().state.layout.bank_bytes) {}

  Status store(Trace& trace, const std::string& prefix) {
    EVROS_TRY(engine_.device().download(bank_, view_.bank()));
    for (size_t i = 0; i < model_.state.layers.size(); ++i) {
      const std::string cache = cat(prefix, ".cache.layer", i, ".");
      if (model_.hyper.layer_kind[i] == LayerKind::linear)
        store_linear(trace, cache, i);
      else
        EVROS_TRY(store_full(trace, cache, i));
    }
    store_ple(trace, prefix);
    return {};
  }

 private:
  const float* at(uint64_t offset) const { return reinterpret_cast<const float*>(bank_.data() + offset); }

  void store_linear(Trace& trace, const std::string& cache, size_t layer) const {
    const HyperParams& h = model_.hyper;
    const auto nv = static_cast<size_t>(h.linear_value_heads), kd = static_cast<size_t>(h.linear_key_dim);
    const auto vd = static_cast<size_t>(h.linear_value_dim);
    const size_t qk = 2 * static_cast<size_t>(h.linear_key_heads) * kd;
    trace[cache + "conv_states.0"] =
        columns(at(model_.state.layers[layer].gdn_conv), static_cast<size_t>(h.conv_kernel - 1),
                static_cast<size_t>(h.conv_channels()),
                [&](size_t c) { return c < qk ? c : qk + tiled(h, (c - qk) / vd) * vd + (c - qk) % vd; });
    std::vector<float> state(nv * kd * vd);
    for (size_t head = 0; head < nv; ++head) {
      std::memcpy(&state[head * kd * vd], at(model_.state.layers[layer].gdn_state) + tiled(h, head) * kd * vd,
                  kd * vd * sizeof(float));
    }
    trace[cache + "recurrent_states.0"] = floats(state, {1, nv, kd, vd});
  }

  Result<TraceTensor> rows(const kernels::PageRows& part, size_t heads, size_t dim) const {
    const auto n = static_cast<size_t>(view_.frontier());
    const auto page_tokens = static_cast<size_t>(model_.state.layout.page_tokens);
    const format::TensorType type = model_.numerics.kv == kernels::CacheType::f32   ? format::TensorType::f32
                                    : model_.numerics.kv == kernels::CacheType::f16 ? format::TensorType::f16
                                                                                    : format::TensorType::bf16;
    std::vector<float> out(heads * n * dim), row(heads * dim);
    std::vector<std::byte> stored(static_cast<size_t>(part.row_bytes));
    for (size_t p = 0; p < n; ++p) {
      const std::byte* page = view_.pages()[p / page_tokens];
      EVROS_TRY(engine_.device().download(stored, page + part.offset + p % page_tokens * stored.size()));
      kernels::dequantize(type, stored.data(), row);
      for (size_t head = 0; head < heads; ++head) std::copy_n(&row[head * dim], dim, &out[(head * n + p) * dim]);
    }
    return floats(out, {1, heads, n, dim});
  }

  Status store_full(Trace& trace, const std::string& cache, size_t layer) const {
    const HyperParams& h = model_.hyper;
    const auto heads = static_cast<size_t>(h.kv_heads);
    EVROS_ASSIGN(trace[cache + "keys"], rows(model_.state.layers[layer].k, heads, static_cast<size_t>(h.key_dim)));
    EVROS_ASSIGN(trace[cache + "values"], rows(model_.state.layers[layer].v, heads, static_cast<size_t>(h.value_dim)));
    return {};
  }

  void store_ple(Trace& trace, const std::string& prefix) const {
    const HyperParams& h = model_.hyper;
    for (size_t i = 0; i < h.ple.size(); ++i) {
      const std::string cache = cat(prefix, ".cache.layer", h.ple[i].layer, ".conv_states.");
      const auto rows = static_cast<size_t>((h.ple_conv_kernel - 1) * h.ngram_size);
      trace[cache + "1"] =
          columns(at(model_.state.ple_conv[i]), rows, static_cast<size_t>(h.wide()), [](size_t c) { return c; });
      const auto ids = static_cast<size_t>(h.ngram_size - 1);
      const std::byte* history = bank_.data() + model_.state.ple_history;
      trace[cache + "2"] = {"I64", {1, ids}, {history, history + ids * sizeof(int64_t)}};
    }
  }

  engine::Engine& engine_;
  const model::Model& model_;
  const state::View& view_;
  std::vector<std::byte> bank_;
};

// Rows of the table, within each PLE layer's own table, for every token.
void store_ple_rows(Trace& trace, const std::string& prefix, const HyperParams& h, std::span<const int32_t> tokens) {
  if (h.ple.empty()) return;
  const auto heads = static_cast<size_t>(h.ple_heads());
  std::vector<int64_t> all;
  std::vector<int64_t> window(static_cast<size_t>(h.ngram_size));
  std::vector<uint64_t> rows(heads);
  for (const format::PleLayer& ple : h.ple) {
    const uint64_t base = *std::min_element(ple.head_offset.begin(), ple.head_offset.end());
    for (size_t t = 0; t < tokens.size(); ++t) {
      for (size_t back = 0; back < window.size(); ++back) window[back] = back <= t ? tokens[t - back] : h.ple_eos;
      model::ngram_rows(h, ple, window, rows);
      for (const uint64_t row : rows) all.push_back(static_cast<int64_t>(row - base));
    }
  }
  const auto bytes = std::as_bytes(std::span(all));
  trace[prefix + ".ple_rows"] = {"I64", {h.ple.size(), tokens.size(), heads}, {bytes.begin(), bytes.end()}};
}

}  // namespace

engine::EngineOptions trace_options(engine::EngineOptions options, int32_t chunk) {
  options.chunk = chunk;
  options.all_logits = true;
  options.trace = true;
  return options;
}

Result<Trace> run_trace(engine::Engine& engine, engine::SessionId session, std::span<const int32_t> tokens,
                        std::span<const int64_t> chunks, const std::string& prefix) {
  if (tokens.size() > kTraceTokens) {
    return Error{Code::invalid_argument, cat("a trace of ", tokens.size(), " tokens; the most is ", kTraceTokens)};
  }
  Collector collector(engine, tokens.size());
  const engine::Observer observer = [&](const model::Pass& pass, const model::Stage* next) {
    return collector.between(pass, next);
  };
  size_t at = 0;
  for (size_t i = 0; at < tokens.size(); ++i) {
    const int64_t size = chunks.empty() ? static_cast<int64_t>(tokens.size()) : chunks[i % chunks.size()];
    if (size < 1) return Error{Code::invalid_argument, cat("a chunk of ", size, " tokens; the least is 1")};
    const size_t n = std::min(static_cast<size_t>(size), tokens.size() - at);
    collector.move_to(at);
    const engine::ChunkRow row{session, tokens.subspan(at, n)};
    EVROS_ASSIGN(const auto statuses,
                 engine.run_chunk({&row, 1}, {.all_logits = true, .cancel = nullptr, .observer = &observer}));
    EVROS_TRY(statuses[0]);
    at += n;
  }
  Trace trace;
  const auto ids = std::as_bytes(tokens);
  trace[prefix + ".tokens"] = {"I32", {tokens.size()}, {ids.begin(), ids.end()}};
  collector.store(trace, prefix);
  store_ple_rows(trace, prefix, engine.model().hyper, tokens);
  EVROS_ASSIGN(const state::View view, engine.store().view(session));
  EVROS_TRY(EndState(engine, view).store(trace, prefix));
  return trace;
}

Status trace_greedy(engine::Engine& engine, engine::SessionId session, int64_t count, Trace& trace) {
  EVROS_ASSIGN(const std::vector<int32_t> prompt, engine.tokens(session));
  std::vector<float> logits(static_cast<size_t>(engine.model().hyper.vocab));
  std::vector<int32_t> drawn;
  for (int64_t i = 0; i < count; ++i) {
    EVROS_TRY(engine.logits(session, logits));
    const auto id = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    drawn.push_back(id);
    EVROS_TRY(engine.append(session, {&id, 1}));
  }
  const auto ids = [](const std::vector<int32_t>& list) {
    const auto bytes = std::as_bytes(std::span(list));
    return TraceTensor{"I32", {list.size()}, {bytes.begin(), bytes.end()}};
  };
  trace["greedy.prompt"] = ids(prompt);
  trace["greedy.tokens"] = ids(drawn);
  return {};
}

Status write_trace(io::Io& io, const std::string& path, const Trace& trace) {
  std::vector<format::SafeTensorData> tensors;
  for (const auto& [name, tensor] : trace) tensors.push_back({name, tensor.dtype, tensor.shape, tensor.data});
  return format::write_safetensors(io, path, tensors);
}

}  // namespace evros::ops
