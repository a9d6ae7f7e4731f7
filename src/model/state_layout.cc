#include "model/state_layout.h"

#include <numeric>

#include "base/bytes.h"
#include "base/check.h"

namespace evros::model {
namespace {

using format::HyperParams;
using format::LayerKind;
using state::Owner;

constexpr int32_t kPageTokens = 64;

class BankBuilder {
 public:
  explicit BankBuilder(state::Layout& layout) : layout_(layout) {}
  uint64_t add(Owner owner, uint64_t bytes) {
    const uint64_t offset = layout_.bank_bytes;
    layout_.bank.push_back({owner, offset, bytes});
    layout_.bank_bytes = align_up(offset + bytes, 64);
    return offset;
  }

 private:
  state::Layout& layout_;
};

void add_bank(StateLayout& state, const HyperParams& hyper) {
  BankBuilder bank(state.layout);
  const auto count = [&](auto wanted) {
    uint64_t n = 0;
    for (size_t i = 0; i < state.layers.size(); ++i) n += wanted(i) ? 1 : 0;
    return n;
  };
  const auto linear = [&](size_t i) { return hyper.layer_kind[i] == LayerKind::linear; };
  const uint64_t conv_bytes = uint64_t(hyper.conv_kernel - 1) * uint64_t(hyper.conv_channels()) * sizeof(float);
  const uint64_t delta_bytes = uint64_t(hyper.linear_value_heads) * uint64_t(hyper.linear_key_dim) *
                               uint64_t(hyper.linear_value_dim) * sizeof(float);
  uint64_t conv = bank.add(Owner::gdn_conv, count(linear) * conv_bytes);
  uint64_t delta = bank.add(Owner::gdn_state, count(linear) * delta_bytes);
  state.ple_history =
      bank.add(Owner::ple_history, uint64_t(hyper.ple.empty() ? 0 : hyper.ngram_size - 1) * sizeof(int64_t));
  const uint64_t ple_rows = hyper.ple.empty() ? 0 : uint64_t(hyper.ple_conv_kernel - 1) * uint64_t(hyper.ngram_size);
  const uint64_t ple_bytes = ple_rows * uint64_t(hyper.wide()) * sizeof(float);
  const uint64_t ple = bank.add(Owner::ple_conv, hyper.ple.size() * ple_bytes);
  for (size_t i = 0; i < hyper.ple.size(); ++i) state.ple_conv.push_back(ple + i * ple_bytes);
  uint64_t tail_bytes = 0;
  for (const int32_t ratio : hyper.compress_ratio) {
    if (ratio > 0) tail_bytes += uint64_t(ratio - 1) * uint64_t(hyper.index_dim) * sizeof(float);
  }
  uint64_t tail = bank.add(Owner::index_tail, tail_bytes);
  state.residual = bank.add(Owner::residual, uint64_t(hyper.wide()) * sizeof(float));
  uint64_t routes = bank.add(Owner::routes, state.layers.size() * uint64_t(hyper.experts_used) * sizeof(int32_t));
  state.logits = bank.add(Owner::logits, uint64_t(hyper.vocab) * sizeof(float));
  state.position = bank.add(Owner::position, 3 * sizeof(int64_t));
  for (size_t i = 0; i < state.layers.size(); ++i) {
    LayerState& layer = state.layers[i];
    layer.routes = routes;
    routes += uint64_t(hyper.experts_used) * sizeof(int32_t);
    if (linear(i)) {
      layer.gdn_conv = conv;
      layer.gdn_state = delta;
      conv += conv_bytes;
      delta += delta_bytes;
    } else if (hyper.compress_ratio[i] > 0) {
      layer.index_tail = tail;
      tail += uint64_t(hyper.compress_ratio[i] - 1) * uint64_t(hyper.index_dim) * sizeof(float);
    }
  }
}

kernels::PageRows add_part(state::Layout& layout, Owner owner, size_t index, uint64_t row_bytes,
                           int32_t tokens_per_row) {
  const int32_t rows = layout.page_tokens / tokens_per_row;
  const uint64_t offset = layout.page_bytes;
  layout.page.push_back({owner, static_cast<int32_t>(index), offset, row_bytes, tokens_per_row, rows});
  layout.page_bytes = align_up(offset + row_bytes * uint64_t(rows), 64);
  return {offset, static_cast<int64_t>(row_bytes), tokens_per_row};
}

void add_pages(StateLayout& state, const HyperParams& hyper, kernels::CacheType kv) {
  state::Layout& layout = state.layout;
  layout.page_tokens = page_tokens(hyper);
  const auto element = static_cast<uint64_t>(kernels::cache_bytes(kv));
  for (size_t i = 0; i < state.layers.size(); ++i) {
    if (hyper.layer_kind[i] != LayerKind::full) continue;
    LayerState& layer = state.layers[i];
    layer.k = add_part(layout, Owner::kv_rows, i, uint64_t(hyper.kv_heads) * uint64_t(hyper.key_dim) * element, 1);
    layer.v = add_part(layout, Owner::kv_rows, i, uint64_t(hyper.kv_heads) * uint64_t(hyper.value_dim) * element, 1);
  }
  for (size_t i = 0; i < state.layers.size(); ++i) {
    const int32_t ratio = hyper.compress_ratio[i];
    if (ratio == 0) continue;
    state.layers[i].index = add_part(layout, Owner::index_blocks, i, uint64_t(hyper.index_dim) * sizeof(float), ratio);
  }
}

}  // namespace

// Every block must lie inside one page, so a page holds a multiple of each ratio.
int32_t page_tokens(const HyperParams& hyper) {
  int64_t unit = 1;
  for (const int32_t ratio : hyper.compress_ratio) {
    if (ratio > 0) unit = std::lcm(unit, int64_t{ratio});
  }
  CHECK(unit < (int64_t{1} << 24));
  return static_cast<int32_t>((kPageTokens + unit - 1) / unit * unit);
}

StateLayout make_state_layout(const HyperParams& hyper, kernels::CacheType kv) {
  StateLayout state;
  state.layers.resize(static_cast<size_t>(hyper.layers));
  add_bank(state, hyper);
  add_pages(state, hyper, kv);
  state.layout.origin.assign(state.layout.bank_bytes, std::byte{0});
  if (!hyper.ple.empty()) {
    for (int32_t i = 0; i < hyper.ngram_size - 1; ++i) {
      store(&state.layout.origin[state.ple_history + uint64_t(i) * sizeof(int64_t)], int64_t{hyper.ple_eos});
    }
  }
  return state;
}

}  // namespace evros::model
