// The ranking of a row's experts (docs/numerics.md, router): higher probability first, then lower id.
#pragma once

#include <cstdint>

#include "kernels/isa.h"
#include "kernels/ref/chains.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Puts expert e with probability p into the ranking if it beats the last; equal probabilities keep the lower id ahead.
EVROS_INLINE void rank_expert(int32_t e, float p, int64_t used, int32_t* ids, float* weights) {
  int64_t place = smaller(e, used);  // e experts were seen before this one
  if (place == used) {
    if (!(p > weights[used - 1])) return;
    place = used - 1;
  }
  for (; place > 0 && p > weights[place - 1]; --place) {
    ids[place] = ids[place - 1];
    weights[place] = weights[place - 1];
  }
  ids[place] = e;
  weights[place] = p;
}

/// Divides the weights of the `used` ranked experts by their sum in rank order.
EVROS_INLINE void share_weights(int64_t used, float* weights) {
  float selected = weights[0];
  for (int64_t i = 1; i < used; ++i) selected += weights[i];
  for (int64_t i = 0; i < used; ++i) weights[i] = weights[i] / selected;
}

/// For a row that has no ranking: valid ids, so that what follows stays inside its tables.
EVROS_INLINE void rank_nothing(int32_t used, int32_t* ids, float* weights) {
  for (int32_t i = 0; i < used; ++i) {
    ids[i] = i;
    weights[i] = 0.0f;
  }
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
