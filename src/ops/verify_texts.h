// Histories for verify and the ways to cut them. Pure functions of a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "format/hyper_params.h"

namespace evros::ops {

/// n ids: random ones, n-grams that come back, and runs of the PLE's EOS (when the model has one), which cut the n-gram
/// window: one to three in a row, the first near the start.
std::vector<int32_t> verify_text(const format::HyperParams& hyper, uint64_t seed, uint32_t which, int64_t n);

/// Chunk sizes that add up to n, each 1 to `most`.
std::vector<int64_t> random_cuts(uint64_t seed, uint32_t which, int64_t n, int64_t most);

/// The pattern repeated until it adds up to n, the last one cut short.
std::vector<int64_t> repeated_cuts(const std::vector<int64_t>& pattern, int64_t n);

}  // namespace evros::ops
