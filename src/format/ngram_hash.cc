#include "format/ngram_hash.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace evros::format {
namespace {

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;

uint64_t splitmix64(uint64_t x) {
  x += kGamma;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

bool is_prime(uint64_t n) {
  if (n < 4) return n > 1;
  if (n % 2 == 0) return false;
  for (uint64_t d = 3; d * d <= n; d += 2) {
    if (n % d == 0) return false;
  }
  return true;
}

uint64_t next_prime(uint64_t above) {
  do ++above;
  while (!is_prime(above));
  return above;
}

}  // namespace

PleLayer derive_ple(const NgramSeed& seed, uint32_t index) {
  CHECK(seed.vocab > 0 && seed.ngram_size >= 2 && seed.heads_per_ngram > 0 && seed.vocab_base > 0);
  PleLayer layer;
  const uint64_t most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / static_cast<uint64_t>(seed.vocab);
  const uint64_t half = std::max<uint64_t>(1, most / 2);
  for (int32_t i = 0; i < seed.ngram_size; ++i) {
    const uint64_t state = seed.seed + uint64_t{10007} * index + kGamma * (static_cast<uint64_t>(i) + 1);
    layer.multipliers.push_back(2 * (splitmix64(state) % half) + 1);
  }
  const auto heads = static_cast<uint64_t>(seed.ngram_size - 1) * static_cast<uint64_t>(seed.heads_per_ngram);
  uint64_t prime = static_cast<uint64_t>(seed.vocab_base) - 1, offset = 0;
  for (uint64_t skipped = 0; skipped < index * heads; ++skipped) prime = next_prime(prime);
  for (uint64_t head = 0; head < heads; ++head) {
    prime = next_prime(prime);
    layer.head_vocab.push_back(prime);
    layer.head_offset.push_back(offset);
    offset += prime;
  }
  return layer;
}

}  // namespace evros::format
