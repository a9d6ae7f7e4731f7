#include "engine/logprobs.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "kernels/math.h"

namespace evros::engine {

Logprobs::Logprobs(std::span<const float> logits) : logits_(logits) {
  CHECK(!logits.empty());
  greatest_ = *std::max_element(logits.begin(), logits.end());
  double sum = 0;  // of exp(l - greatest): at least 1
  for (const float logit : logits) sum += double{kernels::exp(logit - greatest_)};
  log_sum_ = kernels::log1p(static_cast<float>(sum - 1));
}

TokenLogprob Logprobs::of(int32_t id) const { return {id, logits_[static_cast<size_t>(id)] - greatest_ - log_sum_}; }

std::vector<TokenLogprob> Logprobs::top(int32_t count, int32_t usable) const {
  if (count == 0) return {};
  std::vector<int32_t> ids(static_cast<size_t>(usable));
  std::iota(ids.begin(), ids.end(), 0);
  const auto middle = ids.begin() + std::min(count, usable);
  std::partial_sort(ids.begin(), middle, ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits_[static_cast<size_t>(a)], y = logits_[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<TokenLogprob> best;
  for (auto id = ids.begin(); id != middle; ++id) best.push_back(of(*id));
  return best;
}

}  // namespace evros::engine
