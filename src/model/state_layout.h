// What the state owners of a model hold and where (docs/state.md, "Canonical byte order"): turns hyper-parameters into the
// byte layout that state/ moves, and keeps the per-layer offsets that the stages need.
#pragma once

#include <vector>

#include "format/hyper_params.h"
#include "kernels/kernels.h"
#include "state/layout.h"

namespace evros::model {

/// Where one layer's share of the state lies. Bank offsets from the start of a bank; PageRows from the start of a page.
struct LayerState {
  uint64_t gdn_conv = 0, gdn_state = 0;  // linear
  uint64_t index_tail = 0;               // full, when the layer has blocks
  uint64_t routes = 0;
  kernels::PageRows k{}, v{}, index{};  // full
};

struct StateLayout {
  state::Layout layout;
  std::vector<LayerState> layers;  // [layers]
  std::vector<uint64_t> ple_conv;  // [ple layers]
  uint64_t ple_history = 0, residual = 0, logits = 0, position = 0;
};

/// Tokens of a page: a multiple of every layer's block.
int32_t page_tokens(const format::HyperParams& hyper);

/// Sizes follow HyperParams, whose bounds keep every product below 2^63.
StateLayout make_state_layout(const format::HyperParams& hyper, kernels::CacheType kv);

}  // namespace evros::model
