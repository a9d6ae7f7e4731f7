#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/str.h"
#include "kernels/math.h"

namespace evros::engine {
namespace {

bool better(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

Status check(bool good, const char* name, float value, const char* wanted) {
  if (good && std::isfinite(value)) return {};
  return Error{Code::invalid_argument, cat(name, " is ", value, "; it must be ", wanted)};
}

void apply_penalties(std::vector<Candidate>& all, const SamplingParams& params, const TokenCounts& counts) {
  const auto at = [&](int32_t id) -> Candidate* {
    return id < static_cast<int32_t>(all.size()) ? &all[static_cast<size_t>(id)] : nullptr;
  };
  for (const auto& [id, bias] : params.logit_bias) {
    if (Candidate* c = at(id)) c->logit += bias;
  }
  if (params.repetition_penalty != 1) {
    for (const auto& [id, n] : counts.seen) {
      Candidate* c = at(id);
      if (c == nullptr) continue;
      c->logit = c->logit > 0 ? c->logit / params.repetition_penalty : c->logit * params.repetition_penalty;
    }
  }
  for (const auto& [id, n] : counts.generated) {
    if (Candidate* c = at(id)) {
      c->logit -= params.presence_penalty;
      c->logit -= static_cast<float>(n) * params.frequency_penalty;
    }
  }
}

// Softmax over the ranked list at this temperature, sums in rank order. The difference first: it is finite, and a tiny
// temperature then gives -inf, which is probability 0.
void set_probabilities(std::vector<Candidate>& ranked, float temperature) {
  float sum = 0;
  for (Candidate& c : ranked) {
    c.probability = kernels::exp((c.logit - ranked[0].logit) / temperature);
    sum += c.probability;
  }
  for (Candidate& c : ranked) c.probability /= sum;
}

size_t keep_top_p(const std::vector<Candidate>& ranked, float top_p) {
  float mass = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    mass += ranked[i].probability;
    if (mass >= top_p) return i + 1;
  }
  return ranked.size();
}

size_t keep_min_p(const std::vector<Candidate>& ranked, float min_p) {
  const float least = min_p * ranked[0].probability;
  size_t n = 1;
  while (n < ranked.size() && ranked[n].probability >= least) ++n;
  return n;
}

}  // namespace

Status validate(const SamplingParams& p, int32_t vocab) {
  EVROS_TRY(check(p.temperature >= 0, "temperature", p.temperature, "0 (greedy) or more"));
  EVROS_TRY(check(p.top_k >= 0, "top_k", static_cast<float>(p.top_k), "0 (all) or more"));
  EVROS_TRY(check(p.top_p > 0 && p.top_p <= 1, "top_p", p.top_p, "above 0 and at most 1"));
  EVROS_TRY(check(p.min_p >= 0 && p.min_p <= 1, "min_p", p.min_p, "between 0 and 1"));
  EVROS_TRY(check(p.repetition_penalty > 0, "repetition_penalty", p.repetition_penalty, "above 0"));
  EVROS_TRY(check(std::abs(p.presence_penalty) <= 100, "presence_penalty", p.presence_penalty, "between -100 and 100"));
  EVROS_TRY(
      check(std::abs(p.frequency_penalty) <= 100, "frequency_penalty", p.frequency_penalty, "between -100 and 100"));
  for (const auto& [id, bias] : p.logit_bias) {
    if (id < 0 || id >= vocab) {
      return Error{Code::invalid_argument,
                   cat("logit_bias names token ", id, "; the vocabulary has ids 0 to ", vocab - 1)};
    }
    EVROS_TRY(check(std::isfinite(bias), "a logit_bias", bias, "a finite number"));
  }
  return {};
}

std::vector<Candidate> candidates(std::span<const float> logits, int32_t usable, const SamplingParams& params,
                                  const TokenCounts& counts) {
  CHECK(usable >= 1 && static_cast<size_t>(usable) <= logits.size());
  std::vector<Candidate> all(static_cast<size_t>(usable));
  for (int32_t id = 0; id < usable; ++id) all[static_cast<size_t>(id)] = {id, logits[static_cast<size_t>(id)], 0};
  apply_penalties(all, params, counts);
  if (params.temperature == 0) {
    Candidate best = *std::min_element(all.begin(), all.end(), better);
    best.probability = 1;
    return {best};
  }
  const size_t k = params.top_k > 0 ? std::min(all.size(), static_cast<size_t>(params.top_k)) : all.size();
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k), all.end(), better);
  all.resize(k);
  set_probabilities(all, params.temperature);
  if (params.top_p < 1) all.resize(keep_top_p(all, params.top_p));
  if (params.min_p > 0) all.resize(keep_min_p(all, params.min_p));
  set_probabilities(all, params.temperature);
  return all;
}

int32_t sample(std::span<const float> logits, int32_t usable, const SamplingParams& params, const TokenCounts& counts,
               int64_t position) {
  const std::vector<Candidate> ranked = candidates(logits, usable, params, counts);
  if (ranked.size() == 1) return ranked[0].id;
  const double target = uniform(params.seed, params.choice, static_cast<uint64_t>(position));
  double mass = 0;
  for (const Candidate& c : ranked) {
    mass += double{c.probability};
    if (target < mass) return c.id;
  }
  return ranked.back().id;
}

}  // namespace evros::engine
