// Log probabilities of the model's own distribution over its vocabulary, before any sampling setting.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace evros::engine {

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;  // natural logarithm
};

/// log softmax of `logits` at one token. Sums in index order, so equal logits give equal bits.
class Logprobs {
 public:
  explicit Logprobs(std::span<const float> logits);
  TokenLogprob of(int32_t id) const;
  /// The `count` most probable ids below `usable`, best first, ties by lower id.
  std::vector<TokenLogprob> top(int32_t count, int32_t usable) const;

 private:
  std::span<const float> logits_;
  float greatest_ = 0, log_sum_ = 0;
};

}  // namespace evros::engine
