// From logits to a token, as a pure function: of the logits, the counts of published tokens, the settings, and the
// position of the token drawn. No hidden state, so a draft, a retry or a rewind draws the same token
// (docs/numerics.md).
//
// Order: logit bias, repetition penalty, presence and frequency penalties; then, unless temperature is 0 (greedy),
// temperature, top-k, top-p, min-p, and one draw.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/result.h"

namespace evros::engine {

struct SamplingParams {
  float temperature = 0;         // 0: greedy
  int32_t top_k = 0;             // 0: all
  float top_p = 1;               // smallest set of most probable tokens that reaches this mass
  float min_p = 0;               // drops tokens below min_p times the most probable one
  float repetition_penalty = 1;  // divides positive, multiplies negative logits of every token seen, prompt included
  float presence_penalty = 0;    // subtracted once for a token generated before
  float frequency_penalty = 0;   // subtracted per occurrence of a generated token
  std::map<int32_t, float> logit_bias;
  uint64_t seed = 0;
  uint32_t choice = 0;  // index of the completion when one prompt has several
};

/// One sentence naming the setting, its value and its range; ok when all are sensible. `vocab` bounds logit_bias.
Status validate(const SamplingParams& params, int32_t vocab);

/// How often each token stands in the published tokens of a request: a fold over them, rebuilt from them at any time.
struct TokenCounts {
  std::map<int32_t, int32_t> seen;       // prompt and reply
  std::map<int32_t, int32_t> generated;  // reply alone
};

/// A token and its probability after all settings.
struct Candidate {
  int32_t id;
  float logit;
  float probability;
};

/// The tokens that may be drawn, most probable first (ties: lower id), probabilities summing to 1. Greedy: exactly one.
/// Ids at or beyond `usable` (rows of the vocabulary that no token has) are never drawn; usable >= 1.
std::vector<Candidate> candidates(std::span<const float> logits, int32_t usable, const SamplingParams& params,
                                  const TokenCounts& counts);

/// Draws for the token at `position`.
int32_t sample(std::span<const float> logits, int32_t usable, const SamplingParams& params, const TokenCounts& counts,
               int64_t position);

}  // namespace evros::engine
