// How a checkpoint's n-gram hash constants follow from its config, for checkpoints that do not ship them
// (docs/model.md 1.4).
#pragma once

#include <cstdint>

#include "format/hyper_params.h"

namespace evros::format {

struct NgramSeed {
  uint64_t seed = 1234;
  int32_t vocab = 0;            // > 0
  int32_t ngram_size = 0;       // 2 to 8
  int32_t heads_per_ngram = 0;  // ngram_size and heads give at most 4,096 heads over all layers
  int64_t vocab_base = 0;       // primes are taken from here upwards; 1 to 2^31
};

/// Constants of PLE number `index` (its zero-based place in ple_layer_ids), offsets from 0 in its own table. `layer` is
/// left 0.
PleLayer derive_ple(const NgramSeed& seed, uint32_t index);

}  // namespace evros::format
